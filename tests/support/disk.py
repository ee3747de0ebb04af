"""A disk that remembers: every write and sync that SQLite makes, so that a power cut can be tried at each of them.

What was synced is on the disk for good. Of what was not, a power cut may leave all, nothing, or any part, in any order,
the last write torn in two.
"""

import random
from pathlib import Path

import apsw

CUTS = ("nothing unsynced is left", "everything is left", "some of it is left", "other parts of it are left")


class Disk:
    """Writes down what happens to files; `mark` enters a remark of the test's own."""

    def __init__(self):
        self.log = []
        self._vfs = _Vfs(self)

    def mark(self, remark):
        """Remember how far the test was at this point."""
        self.log.append(("mark", remark))

    def forget(self):
        """Start over: what is on the disk now is durable."""
        self.log.clear()

    def close(self):
        """Take the file system away again."""
        self._vfs.unregister()


class _Vfs(apsw.VFS):
    def __init__(self, disk):
        self._disk = disk
        self.real = apsw.vfs_names()[0]
        super().__init__("remembering", self.real, makedefault=True)

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        return _File(self._disk, Path(path or "").name, self.real, name, flags)

    def xDelete(self, name, sync):  # noqa: N802 - SQLite's name
        self._disk.log.append(("delete", Path(name).name))
        super().xDelete(name, sync)


class _File(apsw.VFSFile):
    def __init__(self, disk, known_as, *where):
        self._disk = disk
        self._name = known_as
        super().__init__(*where)

    def xWrite(self, data, offset):  # noqa: N802 - SQLite's name
        self._disk.log.append(("write", self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, size):  # noqa: N802 - SQLite's name
        self._disk.log.append(("truncate", self._name, size))
        super().xTruncate(size)

    def xSync(self, flags):  # noqa: N802 - SQLite's name
        self._disk.log.append(("sync", self._name))
        super().xSync(flags)


def power_cut(folder, before, log, cut, seed):
    """Put into `folder` what a power cut after `log` leaves of files that were `before`.

    Args:
        folder: an empty folder.
        before: the contents of each file when the log began.
        log: what has happened since.
        cut: one of `CUTS`.
        seed: decides what is left, where that is open.
    """
    durable = {name: bytearray(data) for name, data in before.items()}
    unsynced = {}
    for kind, name, *what in log:
        if kind == "sync":
            for change in unsynced.pop(name, []):
                _apply(durable, name, *change)
        elif kind != "mark":
            unsynced.setdefault(name, []).append((kind, *what))
    chance = random.Random(seed)
    for name, changes in unsynced.items():
        for change in changes:
            if cut == CUTS[1] or (cut in CUTS[2:] and chance.random() < 0.5):
                torn = cut in CUTS[2:] and change[0] == "write" and chance.random() < 0.3
                _apply(durable, name, *((*change[:2], change[2][: len(change[2]) // 2]) if torn else change))
    for name, data in durable.items():
        if data is not None:
            (folder / name).write_bytes(data)


def _apply(files, name, kind, *what):
    if kind == "delete":
        files[name] = None
        return
    data = files.get(name)
    if data is None:
        data = files[name] = bytearray()
    if kind == "truncate":
        del data[what[0] :]
        return
    offset, piece = what
    data.extend(b"\0" * (offset - len(data)))
    data[offset : offset + len(piece)] = piece


def contents(folder):
    """The files of a closed board, as they are on the disk; the gate has none and the shared memory does not count."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.suffix not in (".gate", ".db-shm")}
