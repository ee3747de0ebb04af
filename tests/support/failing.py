"""Assertions that are meant to fail."""

import contextlib
import re

import pytest


@contextlib.contextmanager
def fails(pattern):
    """The block fails an assertion whose message, its lines joined, holds the pattern."""
    with pytest.raises(AssertionError) as failure:
        yield
    said = re.sub(r"\s+", " ", str(failure.value))
    assert re.search(pattern, said), f"{pattern!r} is not in: {said}"
