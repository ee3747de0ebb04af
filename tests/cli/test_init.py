"""Making a board."""

import stat
import subprocess

import apsw
import pytest

from tests.support.small_disk import small_disk


def test_init_makes_a_board_that_git_ignores(mesh):
    """The board is there, and stays out of the history."""
    assert mesh("init").exit_code == 0

    assert mesh.board_path.is_file()
    assert "*" in (mesh.board_path.parent / ".gitignore").read_text().splitlines()
    subprocess.run(["git", "init", "-q"], check=True)
    status = ["git", "-c", "safe.directory=*", "status", "--porcelain"]
    assert subprocess.check_output(status, text=True) == ""


def test_a_board_is_for_its_owner_only(mesh):
    """No other user may read what agents wrote."""
    mesh("init")

    assert stat.S_IMODE(mesh.board_path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(mesh.board_path.stat().st_mode) == 0o600


def test_init_refuses_where_a_board_is(call):
    """It names the board and leaves it alone."""
    call("add", "keep me", "--id", "kept")
    result = call("init")

    assert (result.exit_code, result.stdout) == (29, "")
    assert str(call.board_path) in result.stderr
    assert call.json("show", "kept")["task"]["title"] == "keep me"


def test_init_refuses_a_file_that_is_there(mesh, tmp_path):
    """Whatever it is, it is not written over."""
    other = tmp_path / "other.db"
    other.write_text("precious")

    assert mesh("init", str(other)).exit_code == 29
    assert other.read_text() == "precious"


def test_init_refuses_beside_the_log_of_a_lost_board(mesh, tmp_path):
    """A log without its board holds data; a new board would destroy it."""
    (tmp_path / "lost.db-wal").write_text("precious")

    result = mesh("init", str(tmp_path / "lost.db"))
    assert result.exit_code == 29
    assert "lost.db-wal" in result.stderr


def test_init_does_not_shadow_a_board_further_up(call, monkeypatch):
    """A second board in a subfolder is made only when it is named."""
    below = call.board_path.parent.parent / "sub"
    below.mkdir()
    monkeypatch.chdir(below)

    assert call("init").exit_code == 29
    assert call("init", ".agentmesh/board.db").exit_code == 0
    assert call.json("where")["board"] == str(below / ".agentmesh" / "board.db")


def test_init_makes_the_board_that_was_named(mesh, tmp_path):
    """By argument, by option or by the environment."""
    assert mesh.json("init", str(tmp_path / "a.db"))["board"] == str(tmp_path / "a.db")
    assert mesh("init", "--board", str(tmp_path / "b.db")).exit_code == 0
    assert mesh("init", env={"AGENTMESH_BOARD": str(tmp_path / "c.db")}).exit_code == 0
    assert all((tmp_path / name).is_file() for name in ("a.db", "b.db", "c.db"))


def test_init_makes_no_folders_but_its_own(mesh, tmp_path):
    """A typing error does not grow a tree."""
    assert mesh("init", str(tmp_path / "no" / "board.db")).exit_code == 2
    assert not (tmp_path / "no").exists()


def stub(path):
    """What a creation of an older version left when its disk was full: SQLite's header, and not a table."""
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.close()
    assert path.stat().st_size == 4096


@pytest.mark.parametrize("make", [stub, lambda path: path.touch()])
def test_init_finishes_what_a_failed_creation_left(mesh, tmp_path, make):
    """A database without a table, or an empty file: nothing is lost by it."""
    make(tmp_path / "board.db")
    assert mesh("list", "--board", tmp_path / "board.db").exit_code == 28
    assert mesh("init", tmp_path / "board.db").exit_code == 0
    assert mesh("add", "t", "--board", tmp_path / "board.db").exit_code == 0
    assert mesh("init", tmp_path / "board.db").exit_code == 29


def test_init_on_a_full_disk_leaves_nothing(mesh, tmp_path, monkeypatch):
    """Not even the folder or half a `.gitignore`; with room it does its work."""
    with small_disk(tmp_path / "disk") as disk, monkeypatch.context() as there:
        there.chdir(disk.folder)
        for pages in (0, 1, 2, 3, 12, 60):
            disk.fill(leave=pages)
            assert mesh("init").exit_code == 22
            assert disk.files() == []
            disk.make_room()
        (disk.folder / ".agentmesh").mkdir()
        disk.fill()
        assert mesh("init").exit_code == 22
        assert list((disk.folder / ".agentmesh").iterdir()) == []
        disk.make_room()
        assert mesh("init").exit_code == 0
        assert "*" in (disk.folder / ".agentmesh" / ".gitignore").read_text().splitlines()
