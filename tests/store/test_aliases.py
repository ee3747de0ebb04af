"""A board under two names has two logs, and what is written by one of them is lost: a second name is refused."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from agentmesh import Board
from agentmesh.errors import AliasedBoard
from agentmesh.store.base import StoreOptions
from agentmesh.store.connect import connect
from tests.support.boards import open_board, states
from tests.support.clock import TurnableClock
from tests.support.mounts import run_with_mounts
from tests.support.processes import Worker

OPEN = """
import sys
from agentmesh import Board
from agentmesh.errors import StoreError
from agentmesh.store.base import StoreOptions
from agentmesh.store.connect import connect
from pathlib import Path

path, mounts = sys.argv[1:]
try:
    with Board(connect(path, StoreOptions(create=False, mounts=Path(mounts)))) as board:
        print(board.create_task("t").title)
except StoreError as error:
    print(error.code, error.hint)
"""


@pytest.fixture
def made(board_path, clock):
    """A closed board with a task."""
    with open_board(board_path, clock) as board:
        board.create_task("t", id="a")
    return board_path


def files(folder):
    """The names in a folder."""
    return sorted(file.name for file in folder.iterdir())


def doctored(path):
    """What a doctor says of the names of a file: verdict and hint by what was looked at."""
    return {seen.name: (seen.verdict, seen.hint) for seen in Board.examine(path)}


@pytest.mark.parametrize("name", ["board.db", "hard.db"])
def test_a_board_with_a_hard_link_is_refused_by_either_name(made, name):
    """Nothing is made beside it, and the error says how many names there are and which to keep."""
    os.link(made, made.with_name("hard.db"))
    before = files(made.parent)
    with pytest.raises(AliasedBoard, match="2 names") as refused:
        Board.open(made.with_name(name))
    assert "-samefile" in refused.value.hint
    assert files(made.parent) == before


def test_a_board_opens_again_when_the_second_name_is_gone(made, clock):
    """With all that is on it."""
    os.link(made, made.with_name("hard.db"))
    with pytest.raises(AliasedBoard):
        Board.open(made)
    made.with_name("hard.db").unlink()
    with open_board(made, clock) as board:
        assert states(board) == {"a": "pending"}


def test_nobody_writes_by_a_second_name_while_the_first_is_open(made, clock):
    """The link was made later: whoever has the board open goes on, and no other log begins."""
    with open_board(made, clock) as board:
        os.link(made, made.with_name("hard.db"))
        with pytest.raises(AliasedBoard):
            Board.open(made.with_name("hard.db"))
        board.create_task("t", id="b")
        assert {seen.name: seen.verdict for seen in board.doctor()}["hard_links"] == "error"
    assert not made.with_name("hard.db-wal").exists()


def test_a_doctor_names_the_second_name(made):
    """Of a board that cannot be opened, too: as what it saw and as what was in the way."""
    assert doctored(made)["hard_links"] == ("ok", None)
    os.link(made, made.with_name("hard.db"))
    seen = doctored(made)
    assert seen["hard_links"] == seen["access"] == ("error", AliasedBoard.hint)


def test_links_of_other_kinds_are_no_second_name(made, clock, tmp_path):
    """A symbolic link to the file or to its folder, and a copy, which is another board."""
    (tmp_path / "soft.db").symlink_to(made)
    (tmp_path / "folder").symlink_to(made.parent)
    shutil.copy2(made, tmp_path / "copy.db")
    for path in (tmp_path / "soft.db", tmp_path / "folder" / made.name, tmp_path / "copy.db", made):
        with open_board(path, clock) as board:
            assert states(board) == {"a": "pending"}


@pytest.mark.parametrize(("name", "refused"), [("my board.db", True), ("board.db", False), ("my", False)])
def test_a_file_that_is_a_mount_point_is_refused(tmp_path, clock, name, refused):
    """As the mount table has it, with its escapes; a mount of the folder, or of another file, is none."""
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"/dev/vda / ext4 rw 0 0\n/dev/vda {tmp_path} ext4 rw 0 0\n/x {tmp_path}/my\\040board.db ext4 rw 0 0\n"
    )
    open_board(tmp_path / name, clock).close()
    options = StoreOptions(create=False, mounts=mounts)
    if not refused:
        connect(tmp_path / name, options).close()
        return
    with pytest.raises(AliasedBoard, match="mount point") as error:
        connect(tmp_path / name, options)
    assert "Mount the folder" in error.value.hint


def test_a_mount_table_may_hold_any_name(tmp_path):
    """No byte of one means anything to its reader but those that the kernel escapes."""
    mounts = tmp_path / "mounts"
    mounts.write_bytes(b"\n/x /a\xff\r\xe2\x80\xa8b\\011\\134 ext4 rw 0 0\nshort\n/x /\x85 ext4\n")
    connect(tmp_path / "board.db", StoreOptions(mounts=mounts)).close()


def test_a_bind_mounted_file_is_refused(made, tmp_path):
    """A real one; the mount table tells it from the same file under its own name."""
    place = tmp_path / "other" / "board.db"
    place.parent.mkdir()
    place.touch()
    mounts = [("--bind", made, place)]
    assert run_with_mounts(mounts, OPEN, place, "/proc/mounts").startswith("aliased_board Mount the folder")
    assert run_with_mounts(mounts, OPEN, made, "/proc/mounts") == "t"


def test_a_bind_mounted_file_is_refused_where_there_is_no_mount_table(tmp_path, clock):
    """Its device is not that of its folder."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        made, place = Path(folder) / "board.db", tmp_path / "board.db"
        if Path(folder).stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("needs two file systems")
        open_board(made, clock).close()
        place.touch()
        said = run_with_mounts([("--bind", made, place)], OPEN, place, tmp_path / "no table")
    assert said.startswith("aliased_board Mount the folder")


def test_a_bind_mounted_folder_is_the_same_board(made, tmp_path, clock):
    """The log is in the folder, so what is written by one path is seen by the other."""
    (tmp_path / "other").mkdir()
    with open_board(made, clock) as board:
        mounts = [("--bind", made.parent, tmp_path / "other")]
        assert run_with_mounts(mounts, OPEN, tmp_path / "other" / made.name, "/proc/mounts") == "t"
        assert len(states(board)) == 2


class At:
    """A probe that acts at one point, once."""

    def __init__(self, point, act):
        self._point, self._act = point, act

    def reached(self, point):
        """The store is at `point`."""
        if point == self._point:
            self._point = None
            self._act()


def _killed_while_naming(_line, path, copy, _number):
    at = At("linked", lambda: os.kill(os.getpid(), signal.SIGKILL))
    with open_board(path, TurnableClock(), probe=at) as board:
        board.backup(copy)


@pytest.mark.kill
@pytest.mark.multiproc
def test_a_board_whose_maker_was_killed_while_naming_it_has_one_name(made, tmp_path, clock):
    """Its draft's name is the second one: whoever opens the board removes that, and no other."""
    folder = tmp_path / "copies"
    folder.mkdir()
    assert Worker(_killed_while_naming, made, folder / "copy.db", 0).end() == -signal.SIGKILL
    [draft] = folder.glob("copy.db.unfinished-????????")
    others = [f"{draft.name}x", "copy.db.unfinished-aaaaaaaa", "other.db.unfinished-aaaaaaaa"]
    for name in others:
        (folder / name).touch()
    with open_board(folder / "copy.db", clock, create=False) as board:
        assert states(board) == {"a": "pending"}
        assert (folder / "copy.db").stat().st_nlink == 1
    assert files(folder) == sorted(["copy.db", "copy.db.gate", f"{draft.name}.lock", *others])


@pytest.mark.kill
@pytest.mark.multiproc
def test_a_draft_that_has_its_name_is_no_board_of_its_own(made, tmp_path):
    """Opened by the draft's name, it is the board under a second one."""
    copy = tmp_path / "copy.db"
    assert Worker(_killed_while_naming, made, copy, 0).end() == -signal.SIGKILL
    [draft] = tmp_path.glob("copy.db.unfinished-????????")
    with pytest.raises(AliasedBoard):
        Board.open(draft)


def test_a_board_may_be_opened_while_its_maker_names_it(made, tmp_path, clock):
    """The opener removes the draft's name, and the maker does not mind."""
    copy, seen = tmp_path / "copy.db", []

    def look():
        with open_board(copy, clock, create=False) as board:
            seen.append((states(board), copy.stat().st_nlink))

    with open_board(made, clock, probe=At("linked", look)) as board:
        board.backup(copy)
    assert seen == [({"a": "pending"}, 1)]
    assert files(tmp_path) == ["board.db", "board.db.gate", "copy.db", "copy.db.gate"]
