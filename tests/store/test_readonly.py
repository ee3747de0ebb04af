"""A user who may only read a board can read it, live and at rest; nothing is written, and nothing is made beside it."""

import contextlib
import os
import re
import shutil
import threading
from pathlib import Path

import apsw
import pytest

from agentmesh import Board
from agentmesh.errors import BoardClosed, BoardNotFound, ForeignFile, NotFound, ReadOnly, StoreError
from agentmesh.store import migrate
from agentmesh.store.base import StoreOptions
from agentmesh.store.sqlite_readonly import _connect
from tests.support.boards import open_board, put, states
from tests.support.clock import TurnableClock
from tests.support.mounts import run_with_mounts
from tests.support.nobody import heard_from_nobody, nobody, only_root, shared_folder

pytestmark = [pytest.mark.multiproc, only_root]


@pytest.fixture
def folder():
    """A folder that nobody may read."""
    with shared_folder() as folder:
        yield folder


@pytest.fixture
def made(folder, clock):
    """A closed board that nobody may read, with two tasks and an entry."""
    path = folder / "board.db"
    with open_board(path, clock) as board:
        put(board, "a", "b: a")
        board.blackboard.put("n", "k", [1])
    path.chmod(0o644)
    return path


def files(folder):
    """The names in a folder, and who owns them."""
    return sorted((file.name, file.stat().st_uid) for file in folder.iterdir())


def _states(line, path):
    with Board.open(path) as board:
        line.send(states(board))


def _outcome(line, path, how):
    try:
        with Board.open(path, create=False) as board:
            line.send(how(board))
    except StoreError as error:
        line.send((type(error), error.message, error.hint))


def _write(board):
    board.create_task("t")


def _say_states(board):
    return states(board)


@pytest.mark.parametrize(
    ("modes", "refuses"),
    [((0o755, 0o644), "board.db"), ((0o777, 0o444), "board.db"), ((0o555, 0o666), ""), ((0o555, 0o444), "board.db")],
)
@pytest.mark.parametrize("live", [False, True])
def test_who_may_not_write_can_read(made, clock, modes, refuses, live):
    """Closed or open elsewhere; a write is refused, and the error names the file or the folder that refuses it."""
    folder_mode, file_mode = modes
    made.chmod(file_mode)
    with open_board(made, clock) as board:
        if live:
            put(board, "c")
        else:
            board.close()
        made.parent.chmod(folder_mode)
        before = files(made.parent)
        assert heard_from_nobody(_states, made) == dict.fromkeys("ac" if live else "a", "pending") | {"b": "blocked"}
        if not (live and file_mode == 0o666):
            kind, message, _hint = heard_from_nobody(_outcome, made, _write)
            place = made.parent / refuses if refuses else made.parent
            assert (kind, message.endswith(f"this user may not write {place}.")) == (ReadOnly, True)
        assert files(made.parent) == before


def _look_at_everything(line, path, elsewhere):
    seen = {}
    with Board.open(path, create=False) as board:
        seen["get"] = board.get_task("a").title
        seen["list"] = len(board.list_tasks().tasks)
        seen["status"] = board.status().total
        seen["why"] = len(board.explain("b").causes)
        seen["events"] = [event.kind for event in board.events()]
        seen["entry"] = board.blackboard.get("n", "k").value
        seen["check"] = {finding.verdict for finding in board.check()}
        seen["doctor"] = {one.name: one.verdict for one in board.doctor(deep=True)}
        seen["entries"] = len(board.ledger.entries().entries)
        seen["backup"] = board.backup(elsewhere / "backup.db").last_seq
        seen["export"] = board.export(elsewhere / "export.jsonl").rows["task"]
        seen["writes"] = board.store.writes
        for write in (lambda: board.claim_task("x"), lambda: board.claim_task("x", wait_sec=5), board.reclaim_zombies):
            with pytest.raises(ReadOnly, match="only be read"):
                write()
    seen["examine"] = {one.name: one.verdict for one in Board.examine(path)}
    line.send(seen)


@pytest.mark.parametrize("live", [False, True])
def test_all_that_reads_works(made, clock, live):
    """From a task to a backup; what writes is refused at once."""
    with shared_folder(0o777) as elsewhere, open_board(made, clock) as board:
        if not live:
            board.close()
        seen = heard_from_nobody(_look_at_everything, made, elsewhere)
        assert (seen["get"], seen["list"], seen["status"], seen["why"]) == ("Task a", 2, 2, 1)
        assert (seen["entry"], seen["export"], seen["writes"]) == ([1], 2, False)
        assert len(seen["events"]) == seen["backup"] == 3
        assert "violated" not in seen["check"]
        for doctor in (seen["doctor"], seen["examine"]):
            assert doctor["write_access"] == "warning"
            assert "error" not in doctor.values()
        assert seen["doctor"]["quick_check"] == "ok"
        with open_board(elsewhere / "backup.db", clock) as copy:
            assert states(copy) == {"a": "pending", "b": "blocked"}
    assert files(made.parent) == [("board.db", 0), ("board.db.gate", 0)]


def _follow(line, path):
    """Tell what is read, each time after being told to; first of all wait for news."""
    with Board.open(path) as board:
        line.send(states(board))
        while (word := line.recv()) != "end":
            if word == "wait":
                line.send("waiting")
                line.send([event.task_id for event in board.events(board.status().last_seq, wait_sec=50)])
            else:
                line.send(states(board))


def test_a_reader_sees_what_is_written_as_the_board_opens_and_closes(made, clock):
    """One open reader, while the board goes from rest to live and back; each read is of the newest state."""
    reader = nobody(_follow, made)
    wanted = {"a": "pending", "b": "blocked"}
    assert reader.hear() == wanted
    for name in ("c", "d", "e"):
        with open_board(made, clock) as board:
            put(board, name)
            wanted[name] = "pending"
            reader.tell("look")
            assert reader.hear() == wanted
        reader.tell("look")
        assert reader.hear() == wanted
        assert files(made.parent) == [("board.db", 0), ("board.db.gate", 0)]  # the reader pins no log
    reader.tell("end")
    assert reader.end() == 0


@pytest.mark.parametrize("live", [False, True])
def test_a_reader_that_waits_is_woken_by_a_commit(made, clock, live):
    """Of a board that was at rest when the wait began, too."""
    with open_board(made, clock) as board:
        if live:
            put(board, "c")
        else:
            board.close()
        reader = nobody(_follow, made)
        reader.hear()
        reader.tell("wait")
        assert reader.hear() == "waiting"
        with open_board(made, clock) as writer:
            put(writer, "news")
        assert set(reader.hear()) <= {"news", None}
        reader.tell("end")
        assert reader.end() == 0


def _read_disturbed(line, path, fails):
    """In the middle of a first read, have somebody write; tell what the read came to, and how often it was done."""
    runs = []

    def work(tx):
        first = len(tx.fetch_all("list_tasks", after=0, plan=None, state=None, holder=None, most=99))
        runs.append(first)
        if len(runs) == 1:
            line.send("reading")
            line.recv()
            if fails:
                raise KeyError("what was read made no sense")
        return first

    with Board.open(path) as board:
        line.send((board.store.read(work), runs))


@pytest.mark.parametrize("fails", [False, True])
def test_a_read_at_rest_that_a_writer_disturbs_is_done_again(made, clock, fails):
    """The file changed under it: what it saw, or raised, does not count."""
    reader = nobody(_read_disturbed, made, fails)
    assert reader.hear() == "reading"
    with open_board(made, clock) as board:
        put(board, "c")
    reader.tell("go on")
    assert reader.hear() == (3, [2, 3])
    assert reader.end() == 0


@pytest.mark.parametrize("fails", [False, True])
def test_a_read_at_rest_is_done_again_on_a_log_that_came_meanwhile(made, clock, fails):
    """The writer is still there: the second time it goes by the log."""
    reader = nobody(_read_disturbed, made, fails)
    assert reader.hear() == "reading"
    with open_board(made, clock) as board:
        put(board, "c")
        reader.tell("go on")
        assert reader.hear() == (3, [2, 3])
    assert reader.end() == 0


def _fail(line, path):
    runs = []

    def work(_tx):
        runs.append(1)
        raise NotFound("task", "x")

    with Board.open(path) as board, pytest.raises(NotFound):
        board.store.read(work)
    line.send(len(runs))


def test_an_error_of_a_read_that_nobody_disturbed_counts(made):
    """It is raised as it is, at once."""
    assert heard_from_nobody(_fail, made) == 1


def test_damage_is_told_to_a_reader(made):
    """Nobody wrote meanwhile, so it is the file."""
    data = bytearray(made.read_bytes())
    data[4096:] = b"\x55" * (len(data) - 4096)
    made.write_bytes(data)
    assert heard_from_nobody(_outcome, made, _say_states)[0].code == "corrupt"


def test_a_foreign_or_an_empty_file_is_refused_as_ever(folder):
    """Not taken for a board that may only be read."""
    (folder / "diary.txt").write_text("A diary, not a board.\n" * 500)
    (folder / "empty.db").touch()
    for name, kind in (("diary.txt", ForeignFile), ("empty.db", BoardNotFound), ("missing.db", BoardNotFound)):
        assert heard_from_nobody(_outcome, folder / name, _say_states)[0] is kind
    assert [name for name, _ in files(folder)] == ["diary.txt", "empty.db"]


@pytest.mark.parametrize("index", [True, False])
def test_a_log_that_was_left_is_read_if_its_index_is_there(made, clock, index, tmp_path):
    """A killed writer leaves both. SQLite makes an index only by writing one: without it the error says so."""
    with open_board(made, clock) as board:
        put(board, "c")
        for file in made.parent.iterdir():
            shutil.copy2(file, tmp_path / file.name)
    for file in tmp_path.iterdir():
        if index or file.suffix != ".db-shm":
            shutil.copy2(file, made.parent / file.name)
    before = files(made.parent)
    said = heard_from_nobody(_outcome, made, _say_states)
    if index:
        assert said == {"a": "pending", "b": "blocked", "c": "pending"}
    else:
        assert said[0] is ReadOnly
        assert f"no index ({made}-shm)" in said[1]
    assert files(made.parent) == before


def test_a_write_that_was_cut_off_is_not_read(made, clock):
    """The journal of a file that has no log yet says what it was: somebody who may write has to put it back first."""
    copy = made.with_name("copy.db")
    with open_board(made, clock) as board:
        board.backup(copy)
    with contextlib.closing(apsw.Connection(str(copy))) as connection:
        connection.execute("BEGIN IMMEDIATE; UPDATE task SET title = 'half done'")
        connection.cache_flush()
        left = {name: made.with_name(name).read_bytes() for name in ("copy.db", "copy.db-journal")}
        connection.execute("ROLLBACK")
    for name, data in left.items():
        made.with_name(name).write_bytes(data)
        made.with_name(name).chmod(0o644)
    kind, message, _hint = heard_from_nobody(_outcome, copy, _say_states)
    assert (kind, f"({copy}-journal)" in message) == (ReadOnly, True)
    with open_board(copy, clock) as board:
        assert board.get_task("a").title == "Task a"
    assert heard_from_nobody(_states, copy) == {"a": "pending", "b": "blocked"}


def _forked(line, path):
    """Fork while a thread is in a read, and read in the child."""
    reading, over = threading.Event(), threading.Event()

    def hold(_tx):
        reading.set()
        over.wait()

    with Board.open(path) as board:
        thread = threading.Thread(target=board.store.read, args=[hold])
        thread.start()
        reading.wait()
        if not (pid := os.fork()):
            with Board.open(path) as own:
                os._exit(own.status().total)
        line.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        over.set()
        thread.join()


def test_a_child_reads_though_a_thread_of_its_parent_was_in_a_read(made):
    """What the thread held is not held in the child."""
    assert heard_from_nobody(_forked, made) == 2


@pytest.mark.parametrize("name", ["board.db", "board.db-wal"])
def test_a_file_that_may_not_even_be_read_is_named(made, clock, name):
    """The board's own, or that of its log."""
    with open_board(made, clock) as board:
        put(board, "c")
        (made.parent / name).chmod(0o600)
        kind, message, _hint = heard_from_nobody(_outcome, made, _say_states)
    assert kind is ReadOnly
    assert re.search(f"may not read {re.escape(str(made.parent / name))}\\.$", message)


def test_the_tables_of_an_older_board_are_not_upgraded_by_a_reader(monkeypatch, folder):
    """It says so; a doctor still looks at it."""
    old = folder / "old.db"
    monkeypatch.setattr(migrate, "migrations", _only_the_first(migrate.migrations))
    open_board(old, TurnableClock()).close()
    old.chmod(0o644)
    before = old.read_bytes()
    kind, message, hint = heard_from_nobody(_outcome, old, _say_states)
    assert (kind, "has schema 1" in message, "open it once" in hint) == (ReadOnly, True, True)
    assert heard_from_nobody(_doctor, old)["schema"] == "warning"
    assert old.read_bytes() == before


def _only_the_first(migrations):
    return lambda engine: migrations(engine)[:1]


def _doctor(line, path):
    line.send({one.name: one.verdict for one in Board.examine(path)})


def test_a_log_that_goes_away_before_it_is_opened_is_not_made(made):
    """SQLite would create one, of the reader's own, which its next writer could not write."""
    before = files(made.parent)
    with pytest.raises(apsw.CantOpenError):
        _connect(made, StoreOptions(), at_rest=False)
    assert files(made.parent) == before


def _closed(line, path):
    board = Board.open(path)
    board.close()
    board.close()
    try:
        board.status()
    except BoardClosed as error:
        line.send(error.code)


def test_a_closed_reader_is_closed(made):
    """As every board."""
    assert heard_from_nobody(_closed, made) == "board_closed"


def test_a_draft_s_name_that_a_reader_may_not_remove_is_in_nobody_s_way(made):
    """Its maker was killed while it named the board; nobody opens the board by that name."""
    os.link(made, made.with_name("board.db.unfinished-0123abcd"))
    assert heard_from_nobody(_states, made) == {"a": "pending", "b": "blocked"}
    os.link(made, made.with_name("hard.db"))
    assert heard_from_nobody(_outcome, made, _say_states)[0].code == "aliased_board"


READ = """
import sys
from agentmesh import Board
from agentmesh.errors import ReadOnly

with Board.open(sys.argv[1]) as board:
    print(*sorted(task.id for task in board.list_tasks().tasks))
    try:
        board.create_task("t")
    except ReadOnly as error:
        print(error)
"""


@pytest.mark.parametrize("live", [False, True])
def test_a_board_on_a_read_only_mount_can_be_read(made, clock, tmp_path, live):
    """By root, too; also while it is written where it is mounted for writing."""
    (tmp_path / "mounted").mkdir()
    mounts = [("--bind -o ro", made.parent, tmp_path / "mounted")]
    with open_board(made, clock) as board:
        if live:
            put(board, "c")
        else:
            board.close()
        before = files(made.parent)
        seen, refused = run_with_mounts(mounts, READ, tmp_path / "mounted" / made.name).split("\n")[:2]
        assert files(made.parent) == before
    assert seen == ("a b c" if live else "a b")
    assert "mounted read-only" in refused
    assert str(Path(tmp_path, "mounted")) in refused
