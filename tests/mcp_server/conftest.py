"""What the tests of the server share."""

import pytest

from tests.mcp_server.live import serving


@pytest.fixture
def anyio_backend():
    """The SDK runs on asyncio here."""
    return "asyncio"


@pytest.fixture
def live(board, board_path):
    """An HTTP server on the test's board, without tokens; its clock stands still."""
    with serving(board, board_path) as live:
        yield live
