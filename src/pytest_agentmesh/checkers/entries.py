"""The blackboard as the history tells it: versions that only grow, and ends that are kept."""

from __future__ import annotations

from typing import NamedTuple

from agentmesh.model import Event
from pytest_agentmesh.checkers.ground import Ground
from pytest_agentmesh.checkers.verdict import at, hold

Place = tuple[str, str]


class PlainEntry(NamedTuple):
    """What is at a place."""

    version: int
    size: int
    agent: str
    task_id: str | None
    fence: int | None
    expires_us: int | None
    seq: int


class Entries:
    """All that is there, expired or not, and the last version of each name."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.there: dict[Place, PlainEntry] = {}
        self.last: dict[Place, int] = {}

    def put(self, event: Event) -> None:
        """An entry was written: its version is one more than the last that the name had.

        Raises:
            Violation: P9, it is not, or the entry has expired before it was there.
        """
        data = event.data
        place, version, expires_us = (data["namespace"], data["key"]), data["version"], data.get("expires_us")
        last = self.last.get(place, 0 if self._ground.whole else None)
        gone = self._ground.went_back or not self._alive(place, event.at_us)  # swept at a time that has not come again
        anew = version == 1 and self._ground.forgotten > 0 and gone
        told = f"version {version} of {_name(place)}"
        hold(last is None or version == last + 1 or anew, "P9", f"version {(last or 0) + 1} of {_name(place)}", told)
        ends = expires_us is None or expires_us > event.at_us
        hold(ends, "P9", f"{_name(place)} to last beyond its own writing", f"it expires at {at(expires_us)}")
        self.last[place] = version
        self.there[place] = PlainEntry(
            version, data["size"], event.agent_id or "", event.task_id, event.fence, expires_us, event.seq
        )

    def delete(self, event: Event) -> None:
        """An entry was taken away: it must have been there, and not have expired.

        Raises:
            Violation: P9, it was not.
        """
        place, version = (event.data["namespace"], event.data["key"]), event.data["version"]
        found = self.there.pop(place, None)
        if found is None:
            hold(not self._ground.whole, "P9", f"{_name(place)} to be there before it is deleted", "it was not")
        else:
            alive = found.expires_us is None or found.expires_us > event.at_us
            hold(alive, "P9", f"{_name(place)} to be missing, for it has expired", "it was deleted all the same")
            hold(found.version == version, "P9", f"version {found.version} of {_name(place)}", f"version {version}")
        self.last[place] = version

    def _alive(self, place: Place, at_us: int) -> bool:
        entry = self.there.get(place)
        return entry is not None and (entry.expires_us is None or entry.expires_us > at_us)


def _name(place: Place) -> str:
    namespace, key = place
    return f"entry {namespace}/{key}" if namespace else f"entry {key}"
