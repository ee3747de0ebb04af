"""Imports that a call makes by itself, and what stands in their way: a process that may open no further file.

Many modules are imported only by the call that needs them, so that a short command starts fast. Such an import opens
files, and a long-lived process may have none left.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from agentmesh.errors import ResourcesExhausted

LIMITS = frozenset({errno.EMFILE, errno.ENFILE})


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Make an import in the body of a call.

    Raises:
        ResourcesExhausted: the process may open no file for it.
    """
    try:
        yield
    except (OSError, ImportError) as error:
        if exhausted():
            raise no_more_files() from error
        raise


def exhausted() -> bool:
    """Whether this process cannot open one more file: others say only that they could not open one."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in LIMITS
    return False


def no_more_files() -> ResourcesExhausted:
    """The error of a process that has used up its descriptors."""
    return ResourcesExhausted("This process may not open another file, and needs one for this call.")
