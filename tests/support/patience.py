"""How long a test waits for what must happen, before it fails instead of hanging."""

import os
import time

PATIENCE_SEC = 60
"""Far longer than anything takes, even on a busy machine; only a broken test or board uses it up."""


def until(condition):
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE_SEC
    while not condition():
        assert time.monotonic() < deadline, "it never happens"
        os.sched_yield()
