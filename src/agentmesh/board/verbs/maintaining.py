"""The verbs of whoever keeps a board in good repair."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from agentmesh import limits
from agentmesh.board import doctor
from agentmesh.board.change import Change
from agentmesh.board.prune import STAGES, Find, Horizon, Take, horizon
from agentmesh.board.verbs.base import Verbs
from agentmesh.errors import BoardNotFound, StoreError
from agentmesh.model import OPERATOR, PruneReport
from agentmesh.store.base import Progress, Row, StoreOptions, Transaction
from agentmesh.store.connect import connect
from agentmesh.upkeep import Backup, Observation


class Maintaining(Verbs):
    """What keeps a board safe and sound, beside the work that goes on."""

    def backup(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> Backup:
        """Copy the board as it is at this instant into a new file, which is a board of its own.

        Others work on meanwhile. The file appears under its name only once it is whole, verified and on the disk;
        whatever fails, none does. It holds the secrets of open leases, so it is readable by this user only.

        Args:
            path: a file that does not exist, in a folder that does, on a file system that can hold a board.
            progress: told the pages copied and the pages in all, now and then; it gives up by raising.

        Raises:
            BoardExists: the file, or the log of one of this name, is there.
            InvalidArgument: its folder is not there, or the board needs the name for itself.
            StoreError: the copy could not be written there, or this board is damaged.
        """
        return self._store.copy_to(Path(limits.path("path", path)), progress)

    def doctor(self, *, deep: bool = False) -> list[Observation]:
        """How the board is: its library, file, place, settings, and how much there is of everything; it only reads.

        Args:
            deep: have SQLite look at every page, too.
        """
        limits.boolean("deep", deep)
        return doctor.of_board(self._store, deep=deep)

    @classmethod
    def examine(cls, target: str | os.PathLike[str], *, deep: bool = False) -> list[Observation]:
        """The same of a board that perhaps cannot be opened, which then is the error among the observations.

        The tables of an older AgentMesh stay as they are.

        Raises:
            BoardNotFound: there is none.
        """
        limits.boolean("deep", deep)
        options = StoreOptions(create=False, upgrade=False)
        try:
            store = connect(target, options)
        except BoardNotFound:
            raise
        except StoreError as error:
            return doctor.of_stranger(target, options, error)
        with cls(store) as board:
            return board.doctor(deep=deep)

    def prune(
        self,
        *,
        plan: str | None = None,
        older_than_sec: float | None = None,
        events_older_than_sec: float | None = None,
        dry_run: bool = False,
        agent_id: str = OPERATOR,
    ) -> PruneReport:
        """Take away what ended long ago: final tasks whose children are final, events, tombstones of entries.

        A task leaves a tombstone: its id is not given again, and it is still known how it ended. What its attempts used
        stays in the totals. It takes many short transactions, between which others write; if stopped, run it again.

        Args:
            plan: only tasks of this plan.
            older_than_sec: how long ago they must have ended; without it, what each plan says (`retention_sec`), and
                tasks of a plan that says nothing stay.
            events_older_than_sec: how old events must be to go. Without it: `older_than_sec`, if it was given and no
                plan was; else all of the history stays.
            dry_run: only say what would go.
            agent_id: who does it.

        Raises:
            NotFound: there is no such plan.
        """
        if plan is not None:
            limits.name("plan", plan)
        age_us, events_age_us = (
            None if value is None else limits.duration_us(field, value, limits.AGE_SEC)
            for field, value in (
                ("older_than_sec", older_than_sec),
                ("events_older_than_sec", events_older_than_sec),
            )
        )
        limits.boolean("dry_run", dry_run)
        agent = limits.name("agent_id", agent_id)
        until = self._store.read(lambda tx: horizon(tx, plan, age_us, events_age_us))
        tasks, events, entries = (self._batches(find, take, until, None if dry_run else agent) for find, take in STAGES)
        return PruneReport(tasks.total(), dict(tasks), events.total(), entries.total(), dry_run)

    def _batches(self, find: Find, take: Take, until: Horizon, agent: str | None) -> Counter[str]:
        """Find and take away, batch by batch, or without an agent only find; how many rows, by plan."""
        gone: Counter[str] = Counter()
        found: Sequence[Row] = ()

        def search(tx: Transaction) -> Sequence[Row]:
            return find(tx, until, found[-1] if found else None)

        def work(change: Change) -> Sequence[Row]:
            return take(change, found, agent or "")

        while found := self._store.read(search):
            gone.update(row.get("plan", "") for row in (found if agent is None else self._write(work)))
        return gone
