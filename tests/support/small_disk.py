"""A small file system of its own, to be filled."""

import contextlib
import subprocess

import pytest

SIZE = 1 << 20
PAGE = 4096


class Disk:
    """A mounted folder of a megabyte."""

    def __init__(self, folder):
        self.folder = folder
        self.board = folder / "board.db"
        self._ballast = folder / "ballast"

    def fill(self, *, leave=0):
        """Leave not a byte free, or so many pages."""
        with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(b"\0" * PAGE)
        with self._ballast.open("ab") as file:
            file.truncate(self._ballast.stat().st_size - leave * PAGE)

    def make_room(self):
        """Free space, as the error's hint says."""
        self._ballast.unlink()

    def files(self):
        """What else is on it."""
        return sorted(file.name for file in self.folder.iterdir() if file != self._ballast)


@contextlib.contextmanager
def small_disk(folder):
    """A disk of a megabyte at a new folder; skip where none may be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"needs the right to mount: {mounted.stderr.strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True)
