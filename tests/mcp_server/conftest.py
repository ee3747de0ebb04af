"""What the tests of the server share."""

import pytest


@pytest.fixture
def anyio_backend():
    """The SDK runs on asyncio here."""
    return "asyncio"
