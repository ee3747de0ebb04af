"""What a test may ask for. Nothing of AgentMesh is imported before the first test asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentmesh.bench import BENCH

if TYPE_CHECKING:
    from pytest_agentmesh.boards import Boards, MeshBoard
    from pytest_agentmesh.clock import MeshClock
    from pytest_agentmesh.endpoint import Endpoint
    from pytest_agentmesh.fake import MeshFake
    from pytest_agentmesh.history import History
    from pytest_agentmesh.sessions import Server, Sessions
    from pytest_agentmesh.swarm import World
    from pytest_agentmesh.swarm.scheduler import Order


@pytest.fixture(scope="session")
def _mesh_boards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boards]:
    """Where this process makes its boards."""
    from pytest_agentmesh.boards import Boards

    boards = Boards(lambda: tmp_path_factory.mktemp("agentmesh"))
    yield boards
    boards.close()


@pytest.fixture
def mesh_board(request: pytest.FixtureRequest, _mesh_boards: Boards) -> Iterator[MeshBoard]:
    """A fresh board on a test's clock. When the test ends it must still keep its promises."""
    with request.config.stash[BENCH].board(request.node, _mesh_boards) as board:
        yield board


@pytest.fixture(scope="session")
def mesh_board_factory(
    request: pytest.FixtureRequest, _mesh_boards: Boards
) -> Callable[..., AbstractContextManager[MeshBoard]]:
    """Fresh boards for loops and for the examples of a Hypothesis test.

    Each is open for the body of a `with`, and looked at when it ends.

    It takes `storage`, `seed` and `unchecked`, as the marker `agentmesh` does.
    """
    bench = request.config.stash[BENCH]

    def make(**said: Any) -> AbstractContextManager[MeshBoard]:
        return bench.stretch(_mesh_boards, **said)

    return make


@pytest.fixture
def mesh_fake(request: pytest.FixtureRequest) -> MeshFake:
    """Makes up tasks, plans, agents and usage; the same for this test in every run with the same seed."""
    from pytest_agentmesh.fake import MeshFake

    return MeshFake(request.config.stash[BENCH].used(request.node).settings.seed)


@pytest.fixture
def mesh_swarm(request: pytest.FixtureRequest, mesh_board: MeshBoard) -> Iterator[World]:
    """Runs scripted agents on `mesh_board`: first come, first served, or with `--agentmesh` as the seed says."""
    from pytest_agentmesh.swarm import World

    used = request.config.stash[BENCH].used(request.node)
    settings = used.settings
    order: Order = "random" if settings.explore else "fifo"
    world = World(mesh_board, seed=settings.seed, order=order, unchecked=settings.unchecked, marks=used.marks)
    yield world
    world.close()


@pytest.fixture
def mesh_clock(mesh_board: MeshBoard) -> MeshClock:
    """The clock of `mesh_board`: it stands still until the test turns it."""
    return mesh_board.clock


@pytest.fixture
def mesh_history(request: pytest.FixtureRequest, mesh_board: MeshBoard) -> History:
    """What happened on `mesh_board`, with the faults that struck its sessions and swarms."""
    from pytest_agentmesh.history import History

    return History(mesh_board, request.config.stash[BENCH].used(request.node).marks)


@pytest.fixture
def mesh_model(
    request: pytest.FixtureRequest, mesh_board: MeshBoard, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Endpoint]:
    """A scripted stand-in for the model's endpoint; the environment leads to it. Scripts must be said to the end."""
    from pytest_agentmesh.endpoint import Endpoint

    with Endpoint(mesh_board) as endpoint:
        for name, value in endpoint.env().items():
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)
        request.config.stash[BENCH].used(request.node).checks.append(endpoint.verify)
        yield endpoint


@pytest.fixture
def mesh_session(request: pytest.FixtureRequest, mesh_board: MeshBoard) -> Iterator[Sessions]:
    """MCP sessions at `mesh_board`, for the agents under test: each is open for the body of an `async with`."""
    from pytest_agentmesh.sessions import Sessions

    used = request.config.stash[BENCH].used(request.node)
    with Sessions(mesh_board, transport=used.settings.transport, marks=used.marks) as sessions:
        used.checks.append(sessions.verify)
        yield sessions


@pytest.fixture
def mesh_server(mesh_session: Sessions) -> Server:
    """The MCP server on `mesh_board`, for frameworks that start it or call it by themselves."""
    return mesh_session.server
