"""The journal of a worker: each call before it is made, and how it ended; a kill loses none of it."""

import json
import os
from typing import NamedTuple

from tests.swarm.soak.calls import DONE, FAILED, UNKNOWN, Call, Outcome


class Journal:
    """Lines of JSON, each written by one system call once what it says is so."""

    def __init__(self, path):
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def calling(self, call):
        """A call is about to be made."""
        self._say(["calling", *call])

    def ended(self, call, outcome):
        """A call has ended."""
        self._say(["ended", call.n, *outcome])

    def close(self):
        """Close the file."""
        os.close(self._fd)

    def _say(self, words):
        os.write(self._fd, json.dumps(words).encode() + b"\n")


class Said(NamedTuple):
    """What a worker's journal says: its calls with how each ended, None while it is not known."""

    agent: str
    calls: list[tuple[Call, Outcome | None]]

    @property
    def unsettled(self):
        """The last call, if it is not known how it ended: it was in flight, or said so itself."""
        if self.calls and (self.calls[-1][1] is None or self.calls[-1][1].how == UNKNOWN):
            return self.calls[-1][0]
        return None


def read(path):
    """What a journal says; a line that a kill cut short was not said."""
    calls: dict[int, tuple[Call, Outcome | None]] = {}
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        what, n, *rest = json.loads(line)
        if what == "calling":
            calls[n] = (Call(n, *rest), None)
        else:
            calls[n] = (calls[n][0], Outcome(*rest))
    return Said(path.stem, list(calls.values()))


def wrong(said):
    """The calls that failed although nothing was done to the store, and those left open in the middle."""
    return [
        (call, outcome)
        for place, (call, outcome) in enumerate(said.calls)
        if (outcome is None and place + 1 < len(said.calls)) or (outcome is not None and outcome.how == FAILED)
    ]


def acknowledged(said):
    """The calls that were acknowledged, in their order."""
    return [(call, outcome.answer) for call, outcome in said.calls if outcome is not None and outcome.how == DONE]
