"""What the tests of budgets share: every scope, period and kind of limit."""

import pytest

from tests.support.purse import KINDS, PERIODS, SCOPES


@pytest.fixture(params=SCOPES)
def scope(request):
    """Each of the four: what names it."""
    return SCOPES[request.param]


@pytest.fixture(params=PERIODS)
def period(request):
    """Each of the two."""
    return request.param


@pytest.fixture(params=KINDS)
def kind(request):
    """Each of the two limits, by name."""
    return request.param
