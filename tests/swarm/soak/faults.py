"""System calls of a worker fail, one here and one there: each call of it ends as it says, with its effect or without.

The kernel's answers are replaced by `strace`, which is needed for this; see `shim` for the same without it.
"""

import re
import shutil
import subprocess

from agentmesh import Board
from agentmesh.errors import AgentMeshError
from tests.swarm.soak import journal
from tests.swarm.soak.calls import FAILED, UNKNOWN
from tests.swarm.soak.campaign import Broken, Campaign, make_a_call
from tests.swarm.soak.mix import Mix

VICTIMS_OF_A_PHASE = 25
WARM_CALLS, CALLS = 25, 12
FILES = ("", "-wal", "-shm", ".gate")
GO_ON, STOP = "go on", "stop at a failure"
SOCKETS = "socket,bind,socketpair"
LOCKS = "fcntl"
"""SQLite's locks: where the kernel does not release one, SQLite keeps it until the board is closed, and each call takes
ten seconds to fail. A victim closes the board after the first of those."""
FAULTS = (
    ("pwrite64", ("EIO", "ENOSPC"), 40),
    ("pread64", ("EIO",), 60),
    ("fdatasync,fsync", ("EIO", "ENOSPC"), 10),
    ("openat", ("EIO", "EMFILE", "ENFILE", "ENOMEM", "EACCES"), 5),
    ("ftruncate", ("EIO", "ENOSPC"), 2),
    (LOCKS, ("EIO", "ENOLCK", "EINTR"), 60),
    ("flock", ("EIO", "ENOLCK", "EINTR"), 20),
    ("mmap", ("ENOMEM", "EIO"), 2),
    ("newfstatat,?stat,?fstat,?lstat", ("EIO", "ENOMEM"), 60),
    ("unlink,?unlinkat", ("EIO", "EACCES"), 2),
    ("close", ("EIO", "EINTR"), 6),
    (SOCKETS, ("EMFILE", "ENOBUFS", "ENOMEM"), 3),
)
"""System calls on the files of the board, the errors that they may give, and among how many of them one is struck."""


def run(folder, limit, seed, report):
    """The campaign: failing system calls until the limit; why it was left out, if it was."""
    if not _can_inject(folder):
        return "strace is not installed, or may not trace here"
    with Campaign(folder, seed, leases_sec=(60,)) as campaign:
        while not limit.over:
            campaign.open_phase()
            for _ in range(VICTIMS_OF_A_PHASE):
                if limit.over:
                    break
                limit.struck += _fail_some(campaign)
            campaign.reconcile(failures=True)
            report(f"{campaign.calls} calls")
    return None


def _can_inject(folder):
    """Whether `strace` is there and may attach to a process that it did not start."""
    if not shutil.which("strace"):
        return False
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        try:
            with _tracing(process.pid, "read:error=EIO:when=9", folder / "none", folder / "strace.log"):
                process.stdin.close()
        except Broken:
            return False
    return True


def _fail_some(campaign):
    """One worker, of which some system calls fail; how many did."""
    names, errors, among = campaign.chance.choice(FAULTS)
    first = campaign.chance.randrange(1, among + 1)
    when = campaign.chance.choice((f"{first}", f"{first}", f"{first}..{first + 2}", f"{first}+7"))
    spec = f"{names}:error={campaign.chance.choice(errors)}:when={when}"
    step = f"phase {campaign.phase}, {spec}"
    victim = campaign.hire(fail)
    if victim.hear() != "ready":
        raise Broken(f"{step}: the victim did not begin")
    log = campaign.path.with_name("strace.log")
    with _tracing(victim.pid, spec, campaign.path, log) as strace:
        victim.tell(STOP if names == LOCKS else GO_ON)
        words = victim.last_words()
        code = victim.end()
        strace.wait(60)
    if words != ["done"] or code:
        raise Broken(f"{step}: the victim said {words} and ended with {code}")
    campaign.outsider_writes(step)
    return len(re.findall(r"\(INJECTED\)", log.read_text()))


def _tracing(pid, spec, path, log):
    """`strace`, attached to a process; but for sockets it strikes only calls on the files of the board."""
    names = spec.partition(":")[0]
    only = [] if names == SOCKETS else [word for end in FILES for word in ("-P", f"{path}{end}")]
    command = ["strace", "-f", "-o", str(log), "-e", f"trace={names}", "-e", f"inject={spec}", *only, "-p", str(pid)]
    strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while "attached" not in (line := strace.stderr.readline()):
        if not line:
            raise Broken(f"strace does not attach: {command}")
    return strace


def fail(line, place, *, arm=None):
    """A worker that makes some calls, says so, and makes more while system calls fail; it opens the board again, too.

    `arm` is called before it goes on.
    """
    mix, log = Mix(place), journal.Journal(place.journal)
    board = _open(place)
    for _ in range(WARM_CALLS):
        make_a_call(board, mix, log)
    line.send("ready")
    go_on = line.recv() == GO_ON
    if arm:
        arm()
    if _calls(board, mix, log, go_on) and (board := _opened(place)) is not None:
        _calls(board, mix, log, go_on)
    log.close()
    line.send("done")


def _calls(board, mix, log, go_on):
    """Some calls, then close the board; false if it cannot be known how the last one ended."""
    how = None
    for _ in range(CALLS):
        how = make_a_call(board, mix, log, again=3).how
        if how == UNKNOWN or (how == FAILED and not go_on):
            break
    board.close()
    return how != UNKNOWN


def _opened(place):
    """The board, opened once more; None if a system call failed meanwhile."""
    try:
        return _open(place)
    except AgentMeshError:
        return None


def _open(place):
    """Open the board; a lock that could not be released fails the calls that follow, which need not take long."""
    return Board.open(place.path, create=False, clock=place.clock, busy_timeout_sec=0.3)
