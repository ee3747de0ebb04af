"""A reader of another user, who may write nothing: in a process of its own, for root may do anything."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from agentmesh import Board
from agentmesh.errors import ReadOnly
from agentmesh.store import access, connect, sqlite_readonly
from agentmesh.store.base import StoreOptions
from tests.support.processes import Worker

NOBODY = 65534
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@contextlib.contextmanager
def shared_folder(mode=0o755):
    """A folder that other users reach; pytest's own are closed to them."""
    folder = Path(tempfile.mkdtemp(prefix="agentmesh-test-"))
    folder.chmod(mode)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def become_nobody():
    """Give up all rights, once everything that nobody might not be able to read has been loaded."""
    _load()
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def nobody(work, *args):
    """A child that runs `work(line, *args)` as nobody."""
    return Worker(_as_nobody, work, args)


def heard_from_nobody(work, *args):
    """What such a child says, once; it must end well."""
    child = nobody(work, *args)
    said = child.hear()
    assert child.end() == 0
    return said


def _as_nobody(line, work, args):
    become_nobody()
    work(line, *args)


def _load():
    with shared_folder() as folder:
        path = folder / "board.db"
        with Board.open(path) as board:
            board.doctor(deep=True)
            board.backup(folder / "backup.db")
            board.export(folder / "export.jsonl")
            board.check()
        with contextlib.suppress(ReadOnly):
            sqlite_readonly.ReadOnlyStore(path, StoreOptions(), ReadOnly("nothing refuses"))
        connect.examine(path, StoreOptions())
        access.refuses_writing(path)
