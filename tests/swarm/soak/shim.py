"""Operations on the files of a board fail in SQLite's view of the file system: the campaign without `strace`."""

import apsw

from tests.swarm.soak import faults
from tests.swarm.soak.campaign import Broken, Campaign

OPERATIONS = {"write": 25, "read": 25, "sync": 6, "truncate": 1, "size": 10, "open": 2}
"""What can fail, and among how many of the same kind one does."""


class Shim(apsw.VFS):
    """A file system of which one operation fails."""

    def __init__(self):
        self._left = {}
        self.failed = 0
        self.real = apsw.vfs_names()[0]
        super().__init__("failing", self.real, makedefault=True)

    def arm(self, operation, number):
        """Fail at the n-th operation of this kind from here."""
        self._left = {operation: number}

    def count(self, operation):
        """An operation begins; it may fail."""
        left = self._left[operation] = self._left.get(operation, 0) - 1
        if left == 0:
            self.failed += 1
            raise apsw.IOError("injected")

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
        """Open a file."""
        self.count("open")
        return File(self, self.real, name, flags)


class File(apsw.VFSFile):
    """A file of it."""

    def __init__(self, shim, *where):
        self._shim = shim
        super().__init__(*where)

    def xRead(self, amount, offset):  # noqa: N802 - SQLite's name
        """Read from it."""
        self._shim.count("read")
        return super().xRead(amount, offset)

    def xWrite(self, data, offset):  # noqa: N802 - SQLite's name
        """Write to it."""
        self._shim.count("write")
        super().xWrite(data, offset)

    def xSync(self, flags):  # noqa: N802 - SQLite's name
        """Sync it."""
        self._shim.count("sync")
        super().xSync(flags)

    def xTruncate(self, size):  # noqa: N802 - SQLite's name
        """Shorten it."""
        self._shim.count("truncate")
        super().xTruncate(size)

    def xFileSize(self):  # noqa: N802 - SQLite's name
        """Tell its length."""
        self._shim.count("size")
        return super().xFileSize()


def run(folder, limit, seed, report):
    """The campaign: failing operations until the limit."""
    with Campaign(folder, seed, leases_sec=(60,)) as campaign:
        campaign.open_phase()
        while not limit.over:
            operation = campaign.chance.choice(list(OPERATIONS))
            number = campaign.chance.randrange(1, OPERATIONS[operation] + 1)
            step = f"{operation} number {number}"
            victim = campaign.hire(_fail, operation, number)
            said = [victim.hear()]
            victim.tell(faults.GO_ON)
            said += [victim.hear(), victim.hear()]
            if said[:2] != ["ready", "done"] or victim.end():
                raise Broken(f"{step}: the victim said {said} and did not come to its end")
            limit.struck += said[2]
            campaign.outsider_writes(step)
        campaign.reconcile(failures=True)
        report(f"{campaign.calls} calls")


def _fail(line, place, operation, number):
    shim = Shim()
    faults.fail(line, place, arm=lambda: shim.arm(operation, number))
    line.send(shim.failed)
