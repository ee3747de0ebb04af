"""Which tasks an agent is able to do: capability sets are few and never change, so a process knows them by heart."""

from __future__ import annotations

from collections.abc import Sequence

from agentmesh.board.specs import names_text
from agentmesh.jsontext import decode
from agentmesh.store.base import Transaction

SEEN_EVERY_US = 60_000_000


class Catalogue:
    """The capability sets of a board, read once each, and what each agent was last known to be able to do.

    It is filled from committed rows only: a transaction that enters a new set does not read it from here.
    """

    def __init__(self) -> None:
        self._known: dict[int, frozenset[str]] = {}
        self._newest = -1
        self._eligible: dict[frozenset[str], tuple[int, tuple[int, ...]]] = {}
        self._seen: dict[str, tuple[frozenset[str], int]] = {}
        self._told: dict[str, tuple[frozenset[str], int]] = {}

    def eligible(self, tx: Transaction, newest: int, capabilities: frozenset[str]) -> tuple[int, ...]:
        """The keys of the sets that an agent with these capabilities has."""
        if newest > self._newest:
            for row in tx.fetch_all("requirements_after", pk=self._newest):
                self._known[row["pk"]] = frozenset(decode(row["names"]))
            self._newest = newest
        version, keys = self._eligible.get(capabilities, (-1, ()))
        if version != newest:
            keys = tuple(pk for pk, names in tuple(self._known.items()) if names <= capabilities)
            self._eligible[capabilities] = (newest, keys)
        return keys

    def see(self, tx: Transaction, agent_id: str, capabilities: frozenset[str]) -> None:
        """Note who was here, at most once a minute unless what it can do has changed."""
        known, at = self._seen.get(agent_id, (None, 0))
        if known != capabilities or not at <= tx.now < at + SEEN_EVERY_US:
            tx.execute("see_agent", agent_id=agent_id, capabilities=names_text(sorted(capabilities)), now_us=tx.now)
            self._told[agent_id] = (capabilities, tx.now)

    def committed(self, agent_id: str) -> None:
        """What was noted of an agent is on the board: the transaction has committed."""
        if told := self._told.pop(agent_id, None):
            self._seen[agent_id] = told


def known_abilities(tx: Transaction, since_us: int) -> list[frozenset[str]]:
    """What each agent could do that asked for work since an instant."""
    return [frozenset(decode(row["capabilities"])) for row in tx.fetch_all("agents", since_us=since_us)]


def missing(requires: Sequence[str], abilities: Sequence[frozenset[str]]) -> bool:
    """Whether none of the known agents has all that is required."""
    return not any(set(requires) <= able for able in abilities)
