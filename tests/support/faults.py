"""Faults on purpose: a process that dies at a chosen point, a transaction in which somebody else gets a word in."""

import os
import signal

from agentmesh.board.change import Change


class Recorder:
    """A probe that writes down every point it passes."""

    def __init__(self):
        self.points = []

    def reached(self, point):
        """The store is at `point`."""
        self.points.append(point)


class Killer:
    """A probe that kills its own process at the n-th point, counted from when it was armed."""

    def __init__(self):
        self._left = -1

    def arm(self, n):
        """Die at the n-th point from here."""
        self._left = n

    def reached(self, _point):
        """The store is at a point."""
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Raiser:
    """A probe that raises once, at the n-th time a point is reached."""

    def __init__(self, point, error, n=1):
        self._point = point
        self._error = error
        self._left = n

    def reached(self, point):
        """The store is at `point`."""
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                raise self._error


class Intruder:
    """A store in which `act` runs inside the transaction right after a statement was read, once.

    On SQLite nobody can do that; it stands for an engine on which others commit between two statements of a
    transaction. `act` gets a change of its own, as if it were the other one's.
    """

    def __init__(self, store, statement, act):
        self._store = store
        self._statement = statement
        self._act = act
        self.came = False

    def __getattr__(self, name):
        return getattr(self._store, name)

    def write(self, work, **how):
        """Run `work`, with an intruder in it."""
        return self._store.write(lambda tx: work(_Intruded(tx, self)), **how)

    def intrude(self, tx, statement):
        """Let the intruder in, if this is the moment."""
        if statement == self._statement and not self.came:
            self.came = True
            change = Change(tx, self._store.chance)
            self._act(change)
            change.settle()


class _Intruded:
    def __init__(self, tx, intruder):
        self._tx = tx
        self._intruder = intruder
        self.now = tx.now

    def execute(self, statement, /, **values):
        changed = self._tx.execute(statement, **values)
        self._intruder.intrude(self._tx, statement)
        return changed

    def fetch_one(self, statement, /, **values):
        row = self._tx.fetch_one(statement, **values)
        self._intruder.intrude(self._tx, statement)
        return row

    def fetch_all(self, statement, /, **values):
        rows = self._tx.fetch_all(statement, **values)
        self._intruder.intrude(self._tx, statement)
        return rows
