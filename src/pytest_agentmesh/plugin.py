"""The pytest plugin: what pytest is told at its start. It imports nothing heavy: every start of pytest pays for it."""

from __future__ import annotations

import sys
from collections.abc import Generator
from types import TracebackType
from typing import Any

import pytest

from pytest_agentmesh import settings
from pytest_agentmesh.bench import BENCH, CARRIED, GRACE_SEC, USED, Bench

pytest_plugins = ("pytest_agentmesh.fixtures",)

SCOPE_NOTE = (
    "agentmesh: each test has a board of its own. A fixture for several tests asks for mesh_board_factory, and opens "
    "the one that they share: with mesh_board_factory() as board: yield board"
)
OURS = ("agentmesh", "pytest_agentmesh")
FACTORY_NOTE = (
    "agentmesh: the fixtures of a test are made once, and all examples would share one board. Ask for "
    "mesh_board_factory and open a board in each example: with mesh_board_factory() as board: ..."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options and ini keys."""
    settings.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Read what was said; make the marker known."""
    config.addinivalue_line(
        "markers",
        "agentmesh(seed=, storage=, transport=, unchecked=): how the boards of a test are made, "
        'and which promises are not looked at when it ends, as unchecked="P8"',
    )
    config.stash[BENCH] = Bench(settings.of_run(config))


def pytest_report_header(config: pytest.Config) -> str:
    """One line: what can be changed."""
    said = config.stash[BENCH].settings
    order = "drawn from the seed" if said.explore else "first come, first served"
    return f"agentmesh: seed={said.seed} storage={said.storage} transport={said.transport} swarms={order}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Markers are read; tests with a board end in time, if pytest-timeout is there and nobody said otherwise."""
    if not hasattr(config, "workerinput"):
        for item in items:
            settings.check_markers(item)
    deadline = config.stash[BENCH].settings.deadline_sec
    if not deadline or not config.pluginmanager.hasplugin("timeout") or _has_timeout(config):
        return
    for item in items:
        if _has_mesh(item) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(deadline))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A worker of xdist reads markers here: its errors of collection are not told.

    Where sessions are over HTTP by default, their process starts before the fixtures of the first test: one that counts
    descriptors finds the same number when the test ends.
    """
    if hasattr(item.config, "workerinput"):
        settings.check_markers(item)
    if _has_session(item) and item.config.stash[BENCH].used(item).settings.transport == "http":
        from pytest_agentmesh.sessions.over_http import begin

        begin()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Know which test runs."""
    bench = item.config.stash[BENCH]
    bench.item = item
    if _has_mesh(item):
        bench.real_time.begin()
    try:
        return (yield)
    finally:
        bench.item = None
        bench.real_time.cancel()


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """A test that runs out of time must be able to end."""
    if _has_mesh(item):
        item.config.stash[BENCH].watch(item, settings.timeout + GRACE_SEC)


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    """It has not."""
    item.config.stash[BENCH].real_time.cancel()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Nothing that a failed body has left waiting keeps fixtures from ending for good."""
    item.config.stash[BENCH].before_teardown(item)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Look at the boards of a test right after its body."""
    __tracebackhide__ = True
    bench = item.config.stash[BENCH]
    try:
        result = yield
    except BaseException as error:
        bench.after_failure(item, error)
        raise
    bench.after_body(item)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Carry to the summary what became of the boards; a broken promise is no expected failure."""
    if call.excinfo is not None and type(call.excinfo.value).__name__ == "FailedHealthCheck" and _has_board(item):
        call.excinfo.value.add_note(FACTORY_NOTE)
    if call.when == "setup" and call.excinfo is not None:
        _explain_scope(call.excinfo.value)
    if call.excinfo is not None and call.when == "call":
        _tell(item, call.excinfo.value)
    report = yield
    used = item.stash.get(USED, None)
    if used is None:
        return report
    used.failed |= report.failed
    if call.when == "teardown" and call.excinfo is not None and _is_ours(call.excinfo.value):
        report.longrepr = call.excinfo.getrepr(style="value")  # all of its lines are ours
    if call.excinfo is not None and used.broken and type(call.excinfo.value).__name__ == "BrokenPromise":
        report.outcome = "failed"
        used.failed = True
        report.__dict__.pop("wasxfail", None)
        if call.excinfo.value is used.verdict:
            report.longrepr = call.excinfo.getrepr(style="value")  # no line of the test is to blame
    if call.when == "teardown":
        setattr(report, CARRIED, used.facts())
        del item.stash[USED]  # a plugin may run the test again
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Nobody watches any more."""
    session.config.stash[BENCH].real_time.close()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """No test needs the process of HTTP servers any more."""
    over_http = sys.modules.get("pytest_agentmesh.sessions.over_http")
    if over_http is not None:
        over_http.KEPT.retire()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What became of the boards of all tests, wherever they ran. Only the process with a terminal says so."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    facts = [getattr(report, CARRIED) for report in reports if hasattr(report, CARRIED)]
    boards = sum(fact["boards"] for fact in facts)
    broken = sorted({name for fact in facts for name in fact["broken"]})
    kept = sorted({path for fact in facts for path in fact["kept"]})
    if not boards or (terminalreporter.verbosity < 0 and not broken and not kept):
        return
    verdict = f"{_count(len(broken), 'promise')} broken" if broken else "all promises kept"
    terminalreporter.section("agentmesh")
    terminalreporter.line(f"{_count(boards, 'board')}, {verdict}")
    for name in broken:
        terminalreporter.line(f"broken: {name}")
    for path in kept:
        terminalreporter.line(f"kept: {path}")


def _explain_scope(error: BaseException) -> None:
    """Say the way, where a fixture of a wider scope asks for one of ours."""
    told = getattr(error, "msg", None)
    if isinstance(told, str) and told.startswith("ScopeMismatch") and "fixture mesh_" in told:
        vars(error)["msg"] = f"{told}\n{SCOPE_NOTE}"


def _tell(item: pytest.Item, error: BaseException) -> None:
    """Say the next step, where an error of ours names one; and end with the line that called us, not our insides."""
    ours = _is_ours(error)
    if ours and isinstance(hint := getattr(error, "hint", None), str):
        error.add_note(hint)
    if (ours or isinstance(error, (AssertionError, ValueError, KeyError))) and not item.config.option.fulltrace:
        _cut_insides(error.__traceback__)


def _cut_insides(entry: TracebackType | None) -> None:
    """End a traceback with the last line that is not ours; pytest reads the chain itself, so it is changed in place."""
    last = None
    while entry is not None:
        if _root(entry.tb_frame.f_globals.get("__name__", "")) not in (*OURS, "contextlib"):
            last = entry
        entry = entry.tb_next
    if last is not None:
        last.tb_next = None


def _is_ours(error: BaseException) -> bool:
    return _root(type(error).__module__) in OURS


def _root(module: str) -> str:
    return module.partition(".")[0]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _has_mesh(item: pytest.Item) -> bool:
    return any(name.startswith("mesh_") for name in getattr(item, "fixturenames", ()))


def _has_session(item: pytest.Item) -> bool:
    return "mesh_session" in getattr(item, "fixturenames", ())


def _has_board(item: pytest.Item) -> bool:
    return "mesh_board" in getattr(item, "fixturenames", ())


def _has_timeout(config: pytest.Config) -> bool:
    """Whether the user has set a timeout, in a place where pytest-timeout looks."""
    import os

    said = (config.getoption("timeout", None), config.getini("timeout"), os.environ.get("PYTEST_TIMEOUT"))
    return any(one is not None and one != "" for one in said)  # 0 is an answer, too: none is wanted


def pytest_assertrepr_compare(config: pytest.Config, op: str, left: object, right: object) -> list[str] | None:
    """Explain a comparison of the states of tasks; where nobody has made a state there is none to explain."""
    assertions = sys.modules.get("pytest_agentmesh.assertions")
    return None if assertions is None else assertions.compare(config, op, left, right)
