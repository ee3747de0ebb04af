"""What the test bench costs: a start of pytest that does not use it, a board in a test, an hour on a test's clock.

Tests are measured whole, from setup to teardown, in one run of pytest of its own: without a fixture, with a bare SQLite
file, with a board that is left as it is, with one that is used; in turn, so that each meets the same machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.report import Figure, progress
from benchmarks.rounds import duration
from benchmarks.settings import Settings

AS_INSTALLED = {"PYTHONDONTWRITEBYTECODE": ""}
"""Modules are compiled, as pip leaves them; the first round does that for a clone and is not counted."""

IMPORTS = """
import json, sys, time, pytest, _pytest.config
_pytest.config.get_config()
taken = []
for names in (["pytest_agentmesh.entry", "pytest_agentmesh.plugin", "pytest_agentmesh.fixtures"], sys.argv[1:]):
    began = time.process_time()
    for name in names:
        __import__(name)
    taken.append(time.process_time() - began)
print(json.dumps(taken))
"""
NEIGHBOURS = ("faker.contrib.pytest.plugin", "pytest_timeout")
"""The plugins of what we depend on: pytest loads them, too."""

CONFTEST = """
import collections, json, pathlib, shutil, time
import apsw, pytest

spent = collections.defaultdict(list)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    began = time.perf_counter()
    try:
        return (yield)
    finally:
        spent[item.callspec.params["kind"]].append(time.perf_counter() - began)


@pytest.fixture(scope="session")
def template(_mesh_boards):
    return _mesh_boards._template("file")


@pytest.fixture
def bare(template, tmp_path_factory, request):
    folder = template.parent.parent / f"bare-{request.node.callspec.params['number']}"
    folder.mkdir()
    path = folder / "board.db"
    shutil.copyfile(template, path)
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.execute("SELECT count(*) FROM task").fetchall()
    yield connection
    connection.close()
    shutil.rmtree(folder)


@pytest.fixture
def none():
    return None


@pytest.fixture
def used(mesh_board):
    mesh_board.create_task("A", id="a")
    mesh_board.claim_task("ada").complete()


@pytest.fixture
def hour(mesh_board, mesh_clock):
    mesh_board.create_task("A", id="a", lease_timeout_sec=3600)
    mesh_board.claim_task("ada")
    mesh_clock.advance("1h")
    assert mesh_board.claim_task("bob").task.id == "a"


def pytest_sessionfinish():
    pathlib.Path("spent.json").write_text(json.dumps(spent))
"""
TESTS = """
import pytest


@pytest.mark.parametrize("kind", ["none", "bare", "mesh_board", "used", "hour"])
@pytest.mark.parametrize("number", range({count}))
def test_it(request, number, kind):
    request.getfixturevalue(kind)
"""


def figures(settings: Settings) -> Iterator[Figure]:
    """The start, then the boards."""
    progress("plugin: start")
    ours, others = _imports(settings.size(15, 5))
    yield Figure("processor time that the plugin adds to a start of pytest, unused", ours * 1e3, "ms", "<=", 10)
    yield Figure(f"the same for the plugins that may come along: {', '.join(NEIGHBOURS)}", others * 1e3, "ms")
    progress("plugin: boards")
    yield from _boards(settings.folder / "plugin", settings.size(1000, 100))


def _imports(rounds: int) -> tuple[float, float]:
    command = [sys.executable, "-c", IMPORTS, *NEIGHBOURS]
    found = [json.loads(_said(command)) for _ in range(rounds + 1)][1:]
    return median(one[0] for one in found), median(one[1] for one in found)


def _boards(folder: Path, count: int) -> Iterator[Figure]:
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(TESTS.format(count=count))
    _said([sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", "--basetemp=boards"], folder)
    spent: dict[str, list[float]] = json.loads((folder / "spent.json").read_text())
    own = {kind: mean(taken[1:]) for kind, taken in spent.items()}
    bare = own["bare"] - own["none"]
    for kind, name, bar in (
        ("mesh_board", "a test with `mesh_board` against one with a bare SQLite file", 3.0),
        ("used", "the same, with a task created, claimed and completed, and its promises looked at", 0.0),
    ):
        board = own[kind] - own["none"]
        absolute = f"board {duration(board)}, file {duration(bare)}, neither {duration(own['none'])}, mean of {count}"
        yield Figure(name, board / bare, "x", "<=" if bar else "", bar, absolute)
    yield Figure("a test in which an hour's lease runs out: real time", own["hour"] * 1e3, "ms", "<=", 100)


def _said(command: Sequence[str], folder: Path | None = None) -> Any:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | AS_INSTALLED, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout
