"""A scenario from a file, played on a board of its own.

The file is a Python script with a function `scenario(world)`, which reads as the body of a test on `mesh_swarm` does.
"""

from __future__ import annotations

import contextlib
import runpy
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentmesh.documents import dollars
from agentmesh.errors import InvalidArgument
from agentmesh.model import STATES
from pytest_agentmesh.boards import Boards, MeshBoard
from pytest_agentmesh.durations import Duration
from pytest_agentmesh.history import History
from pytest_agentmesh.promises import BrokenPromise
from pytest_agentmesh.settings import Settings
from pytest_agentmesh.swarm import NotQuiet, World
from pytest_agentmesh.swarm.scheduler import Order

Scenario = Callable[[World], object]


class Broken(Exception):
    """A file cannot be run; `trace` says where."""

    def __init__(self, error: BaseException, file: Path) -> None:
        super().__init__(type(error).__name__)
        self.trace = _trace(error, file)


@dataclass(frozen=True, slots=True)
class Played:
    """One run of a scenario: what is on its board, what it took, and how it failed, if it did."""

    seed: int
    order: Order
    counts: dict[str, int]
    attempts: int
    reclaimed: int
    faults: int
    cost_pusd: int
    took_us: int
    steps: int
    failure: str | None = None
    broken: bool = False

    def document(self) -> dict[str, Any]:
        """The run as a JSON object."""
        told: dict[str, Any] = {
            "seed": self.seed,
            "order": self.order,
            "ok": self.failure is None,
            "counts": self.counts,
            "attempts": self.attempts,
            "reclaimed": self.reclaimed,
            "faults": self.faults,
            "cost_usd": dollars(self.cost_pusd),
            "board_sec": self.took_us / 1_000_000,
            "steps": self.steps,
        }
        return told | ({"failure": self.failure} if self.failure else {})


def read_scenario(file: Path) -> Scenario:
    """The function that a file defines; what stands beside the file can be imported, as by `python FILE`.

    Raises:
        Broken: the file raises when it is run.
        InvalidArgument: it is not there, or defines none.
    """
    if not file.is_file():
        raise InvalidArgument("FILE", "there is no such file")
    sys.path.insert(0, str(file.resolve().parent))
    try:
        found = runpy.run_path(str(file)).get("scenario")
    except (Exception, SystemExit) as error:
        raise Broken(error, file) from error
    if not callable(found):
        raise InvalidArgument("FILE", "it defines no function `scenario(world)`")
    return found  # type: ignore[no-any-return]  # what it returns does not matter


def play(
    file: Path,
    scenario: Scenario,
    seed: int,
    order: Order,
    *,
    within: Duration,
    keep: Path | None = None,
    timeline: Path | None = None,
) -> Played:
    """One run, on a board of its own, which is kept in the folder `keep`; drawn as a page at `timeline`."""
    with _board(seed, keep) as board:
        world = World(board, seed=seed, order=order, within=within)
        failure, broken = None, False
        try:
            scenario(world)
        except BrokenPromise as error:
            failure, broken = str(error), True
        except Exception as error:  # noqa: BLE001 - whatever a script raises is what it came to
            failure = _failure(error, world, file)
        finally:
            world.close()
        history = History(board, world.marks)
        if timeline is not None:
            history.timeline_html(timeline)
        kinds, counts = Counter(history.kinds()), board.status().counts
        return Played(
            seed=seed,
            order=order,
            counts={state: counts[state] for state in STATES if counts[state]},
            attempts=kinds["task_claimed"],
            reclaimed=kinds["lease_reclaimed"],
            faults=len(world.marks),
            cost_pusd=board.ledger.report("plan", limit=1).total.cost_pusd,
            took_us=world.took_us,
            steps=len(world.steps),
            failure=failure,
            broken=broken,
        )


@contextlib.contextmanager
def _board(seed: int, keep: Path | None) -> Iterator[MeshBoard]:
    """A board for one run; closed, it moves to where it is to be kept, in place of that of the run before."""
    folder = Path(tempfile.mkdtemp(prefix="agentmesh-simulate-"))
    boards = Boards(lambda: folder)
    try:
        board = boards.make(Settings(seed=seed))
        try:
            yield board
        finally:
            board.discard(keep=True)
        if keep is not None:
            shutil.rmtree(keep, ignore_errors=True)
            shutil.move(board.path.parent, keep)
    finally:
        boards.close()
        shutil.rmtree(folder)


def _failure(error: Exception, world: World, file: Path) -> str:
    """What a script raised, where in it, and the steps up to there."""
    if isinstance(error, NotQuiet):
        return str(error)
    steps = [] if getattr(error, "__notes__", ()) or not world.steps else [world.story()]
    return "\n".join([_trace(error, file), *steps])


def _trace(error: BaseException, file: Path) -> str:
    """A traceback of the places in the file, not of ours."""
    told = traceback.TracebackException.from_exception(error)
    told.stack = traceback.StackSummary.from_list([frame for frame in told.stack if frame.filename == str(file)])
    return "".join(told.format(chain=False)).rstrip()
