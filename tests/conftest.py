"""What all tests share: a clock to turn, a path for a board, a board on both that must be sound when the test ends."""

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support.boards import open_board, violations
from tests.support.clock import TurnableClock

settings.register_profile(
    "agentmesh",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize="CI" in os.environ,  # CI judges a change, not its luck; at a desk every run looks elsewhere
)
settings.load_profile("agentmesh")


def pytest_configure(config):
    """Let a test say that it breaks its board on purpose."""
    config.addinivalue_line("markers", "damaged: leaves its board broken, so its rows are not checked afterwards")


@pytest.fixture
def clock():
    """A clock that stands still until it is advanced."""
    return TurnableClock()


@pytest.fixture
def board_path(tmp_path):
    """Where this test's board is; nothing is there yet."""
    return tmp_path / "board.db"


@pytest.fixture
def board(board_path, clock, request):
    """A board on that clock with a seeded chance; when the test ends, every promise must hold on its rows."""
    with open_board(board_path, clock) as board:
        yield board
        if not request.node.get_closest_marker("damaged"):
            assert violations(board) == {}
