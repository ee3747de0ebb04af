"""A damaged log loses what was committed after the damage; the doctor sees the commits behind it, and nothing else."""

import shutil

import apsw
import pytest

from agentmesh import Board
from agentmesh.store import sqlite_log
from agentmesh.store.sqlite_log import FRAME, HEADER, lost_commits
from tests.support.boards import open_board, put, states
from tests.support.processes import crew

SIZE = FRAME.size + 4096


@pytest.fixture
def logged(board_path, clock, tmp_path):
    """A board as a killed process leaves it, with ten commits in its log."""
    place = tmp_path / "killed"
    place.mkdir()
    open_board(board_path, clock).close()
    with open_board(board_path, clock) as board:
        for n in range(10):
            put(board, f"t{n}")
        for end in ("", "-wal"):
            shutil.copyfile(f"{board_path}{end}", place / f"board.db{end}")
    return place / "board.db"


def frames(log):
    """The heads of the log's frames."""
    data = log.read_bytes()[HEADER.size :]
    return [FRAME.unpack(data[at : at + FRAME.size]) for at in range(0, len(data), SIZE)]


def flip(log, frame, offset):
    """Change one bit in a frame, counted from 0."""
    data = bytearray(log.read_bytes())
    data[HEADER.size + frame * SIZE + offset] ^= 1
    log.write_bytes(data)


def told(path):
    """What the doctor says of the log."""
    (found,) = [seen for seen in Board.examine(path, deep=True) if seen.name == "log_commits_lost"]
    return found.value, found.verdict


def test_a_sound_log_has_lost_nothing(logged):
    """It is read to its end."""
    log = logged.with_name("board.db-wal")
    assert sum(head[1] != 0 for head in frames(log)) == 10
    assert told(logged) == (0, "ok")


@pytest.mark.parametrize("offset", [30, 3000, 16])
def test_each_commit_behind_the_damage_is_counted(logged, offset):
    """In the page, or in the head of the frame; the board itself opens, and lacks them."""
    log = logged.with_name("board.db-wal")
    commits = [place for place, head in enumerate(frames(log)) if head[1]]
    for place in (0, commits[3], commits[3] + 1):
        whole = log.read_bytes()
        flip(log, place, offset)
        assert lost_commits(log) >= sum(behind > place + (offset < FRAME.size) for behind in commits)
        log.write_bytes(whole)
    flip(log, commits[3], offset)
    assert told(logged)[1] == "error"
    with Board.open(logged) as board:
        assert len(states(board)) == 3


def test_one_commit_behind_may_be_a_torn_end(logged):
    """It is a warning: the last write of a power cut looks so."""
    log = logged.with_name("board.db-wal")
    commits = [place for place, head in enumerate(frames(log)) if head[1]]
    flip(log, commits[-2] + 1, 3000)
    assert told(logged) == (1, "warning")


def test_frames_of_an_older_log_are_no_damage(board_path, clock, tmp_path):
    """A log that has begun anew has the old frames behind its end."""
    with open_board(board_path, clock) as board:
        for n in range(10):
            put(board, f"t{n}")
        assert board.store._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)[0] > 0
        put(board, "new")
        copy = tmp_path / "copy-wal"
        shutil.copyfile(f"{board_path}-wal", copy)
    assert len({head[2:4] for head in frames(copy)}) == 2
    assert lost_commits(copy) == 0


def test_what_was_rolled_back_is_no_damage(board_path, clock, tmp_path):
    """A large transaction writes frames before its end; those that are never committed stay behind the next ones."""
    with open_board(board_path, clock) as board:
        board.store._writer.pragma("cache_size", 10)
        put(board, "first")  # the log has begun: what follows has its salts
        with pytest.raises(ZeroDivisionError):
            board.store.write(lambda tx: (_fill(tx), 1 / 0))
        put(board, "small")
        copy = tmp_path / "copy-wal"
        shutil.copyfile(f"{board_path}-wal", copy)
    heads = [head for head in frames(copy) if head[2:4] == frames(copy)[0][2:4]]
    assert (any(head[1] for head in heads), heads[-1][1]) == (True, 0)
    assert lost_commits(copy) == 0


def _fill(tx):
    for n in range(200):
        tx.execute("add_fact", key=f"k{n}", value="x" * 3000)


@pytest.mark.parametrize("junk", [b"", b"x" * 10, b"\0" * 32, b"x" * 10_000], ids=len)
def test_what_is_no_log_is_empty(tmp_path, junk):
    """As it is to SQLite."""
    log = tmp_path / "board.db-wal"
    assert lost_commits(log) == 0
    log.write_bytes(junk)
    assert lost_commits(log) == 0


def test_what_changes_meanwhile_is_no_damage(logged, monkeypatch):
    """Only what two looks have in common is told."""
    log = logged.with_name("board.db-wal")
    flip(log, 2, 3000)
    look, looks = sqlite_log._look, []

    def changing(path):
        looks.append(look(path))
        return looks[-1]._replace(frame=len(looks))

    monkeypatch.setattr(sqlite_log, "_look", changing)
    assert lost_commits(log) == 0
    assert len(looks) == sqlite_log.LOOKS


def _write(line, path, number):
    with Board.open(path, durability="normal") as board:
        done = 0
        while not line.poll():
            board.create_task("t", id=f"w{number}.{done}", description="x" * 5000)
            done += 1
            if done == 5:
                line.send("under way")
        line.send(done)


@pytest.mark.multiproc
def test_a_live_log_is_never_called_damaged(board_path):
    """While processes write at full speed."""
    Board.open(board_path).close()
    with crew(2, _write, board_path) as writers:
        for writer in writers:
            writer.hear()
        assert [lost_commits(board_path.with_name("board.db-wal")) for _ in range(5)] == [0] * 5
        for writer in writers:
            writer.tell("stop")
        assert all(writer.hear() >= 5 for writer in writers)
