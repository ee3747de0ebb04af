"""Texts that tests compare with, word for word: a change of any message shows up as a change of these files.

If it is meant, write them anew:

    make golden
"""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "golden"
WRITE = "AGENTMESH_WRITE_GOLDEN"


def same(name, text):
    """Compare a text with the file of that name, or write it, where that is what is asked for."""
    path = HERE / f"{name}.txt"
    if WRITE in os.environ:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", "utf-8")
    assert path.read_text("utf-8") == text + "\n"


if __name__ == "__main__":
    os.environ[WRITE] = "1"
    sys.exit(pytest.main(["-q", "-k", "golden", str(Path(__file__).parent)]))
