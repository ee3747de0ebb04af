"""Processes for tests: forked from a server that has imported the board but never opened one, talked to by a pipe.

A child costs six milliseconds. Whoever waits for one gives up after a while, so that a test fails instead of hanging.
"""

import contextlib
import multiprocessing
import os
import signal
import traceback
from pathlib import Path

from tests.support.patience import PATIENCE_SEC, until

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["pytest", "agentmesh.store.sqlite", "agentmesh.board.facade", "tests.support.boards"])


class Died(Exception):
    """The process ended before it answered."""


class Worker:
    """A child process that runs `act(line, *args)`; `line` is its end of a pipe."""

    def __init__(self, act, *args):
        self._line, theirs = FORKS.Pipe()
        self.process = FORKS.Process(target=_run, args=(act, theirs, *args), daemon=True)
        self.process.start()
        theirs.close()

    @property
    def pid(self):
        """Its process id."""
        return self.process.pid

    def fileno(self):
        """What to wait on for its next message."""
        return self._line.fileno()

    def tell(self, message):
        """Send it a message."""
        self._line.send(message)

    def hear(self):
        """Its next message; an exception that it ended with is raised here."""
        if not self._line.poll(PATIENCE_SEC):
            raise TimeoutError(f"process {self.pid} says nothing")
        try:
            message = self._line.recv()
        except (EOFError, ConnectionResetError) as error:
            raise Died(f"process {self.pid} died") from error
        assert not isinstance(message, Trouble), f"process {self.pid} failed:\n{message.text}"
        return message

    def last_words(self):
        """Everything that it said before it died."""
        heard = []
        with contextlib.suppress(Died):
            while True:
                heard.append(self.hear())
        return heard

    def kill(self):
        """End it as a power cut would: no handler, no cleanup."""
        os.kill(self.pid, signal.SIGKILL)
        return self.end()

    def stop(self):
        """Freeze it, as a suspended laptop or a debugger does; returns when it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        until(lambda: _state(self.pid) in "Tt")

    def go_on(self):
        """Let it go on from where it was frozen."""
        os.kill(self.pid, signal.SIGCONT)

    def end(self):
        """Wait for its end; its exit code, negative for the signal that killed it."""
        self.process.join(PATIENCE_SEC)
        code = self.process.exitcode
        assert code is not None, f"process {self.pid} does not end"
        self.process.close()
        self._line.close()
        return code


class Trouble:
    """How a child tells that it failed."""

    def __init__(self, text):
        self.text = text


@contextlib.contextmanager
def crew(count, act, *args):
    """`count` children at once, each told its number after the arguments; they must all end well."""
    workers = [Worker(act, *args, number) for number in range(count)]
    try:
        yield workers
        assert [worker.end() for worker in workers] == [0] * count
    except BaseException:
        for worker in workers:
            with contextlib.suppress(OSError, ValueError):
                worker.kill()
        raise


def results(count, act, *args):
    """What each of `count` children says, in their order."""
    with crew(count, act, *args) as workers:
        return [worker.hear() for worker in workers]


def barrier(count):
    """A line at which `count` children wait for each other."""
    return FORKS.Barrier(count, timeout=PATIENCE_SEC)


def descriptors():
    """How many descriptors this process has open."""
    return len(list(Path("/dev/fd").iterdir()))


def _run(act, line, *args):
    try:
        act(line, *args)
    except Exception:  # noqa: BLE001 - whatever it was, the test shall say it
        line.send(Trouble(traceback.format_exc()))
        raise SystemExit(1) from None
    finally:
        line.close()


def _state(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:  # noqa: PTH123 - a kernel file, read in a tight loop
        return stat.read().rpartition(")")[2].split()[0]
