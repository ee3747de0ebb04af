"""Mounts that only one process sees, in a namespace of its own; they are gone when it ends."""

import subprocess
import sys

import pytest

MOUNT_AND_RUN = """\
set -e
while [ "$1" != -- ]; do mount $1 "$2" "$3"; shift 3; done
shift
exec "$@"
"""


def run_with_mounts(mounts, code, *args):
    """What a Python program prints that sees these mounts, each (options, what, where); skip where none may be made."""
    unshared = ["unshare", "--mount", "--propagation", "private"]
    try:
        may = subprocess.run([*unshared, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("needs unshare")
    if may.returncode:
        pytest.skip(f"needs the right to mount: {may.stderr.strip()}")
    words = [str(word) for mount in mounts for word in mount]
    command = [*unshared, "sh", "-c", MOUNT_AND_RUN, "sh", *words, "--", sys.executable, "-c", code, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
