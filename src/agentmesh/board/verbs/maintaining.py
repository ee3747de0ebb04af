"""The verbs of whoever keeps a board in good repair."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from agentmesh import limits
from agentmesh.board import doctor
from agentmesh.board.change import Change
from agentmesh.board.prune import STAGES, Find, Horizon, Take, horizon
from agentmesh.board.verbs.base import Verbs, store_options
from agentmesh.clock import Chance, Clock
from agentmesh.errors import BoardNotFound, StoreError
from agentmesh.loading import loading
from agentmesh.model import OPERATOR, PruneReport
from agentmesh.store.base import Probe, Progress, Row, StoreOptions, Transaction
from agentmesh.store.connect import connect, restore
from agentmesh.upkeep import Backup, Export, Import, Observation, Restored, StageProgress


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

    def export(
        self,
        target: str | os.PathLike[str] | BinaryIO,
        *,
        events: bool = False,
        replace: bool = False,
        progress: StageProgress | None = None,
    ) -> Export:
        """Write the board as it is at this instant as JSON Lines, from which `import_board` makes a new one.

        Others work on meanwhile. Lease secrets are not in it, nor what belongs to the moment; docs/export.md says more.

        Args:
            target: a file, which is there only when it is whole, or a stream of bytes.
            events: write the history, too; an import does not take it over.
            replace: whether the file may take the place of another.
            progress: told what is being done, how much of it is, and of how much; it gives up by raising.

        Raises:
            InvalidArgument: the file is there and may not be replaced, or its folder is not there.
            Corrupt: the board is damaged; there is no file, or the stream has no trailer.
            StoreError: there is no room for the copy that is read.
        """
        with loading():
            from agentmesh.board.transfer import export  # noqa: PLC0415 - no other call needs what it imports

        how: dict[str, Any] = {"events": limits.boolean("events", events), "progress": progress or _untold}
        if not isinstance(target, (str, os.PathLike)):
            return export.export(self._store, target, **how)
        path = Path(limits.path("path", target))
        with export.new_file(path, self._store, replace=limits.boolean("replace", replace)) as out:
            return export.export(self._store, out, **how)

    @staticmethod
    def import_board(
        source: str | os.PathLike[str] | BinaryIO,
        target: str | os.PathLike[str],
        *,
        agent_id: str = OPERATOR,
        clock: Clock | None = None,
        chance: Chance | None = None,
        probe: Probe | None = None,
        progress: StageProgress | None = None,
    ) -> Import:
        """Make a new board from an export: every line is checked, and every promise, before the board is there.

        Args:
            source: the file, or a stream of its bytes.
            target: where the board shall be; nothing may be there.
            agent_id: who does it.
            clock: what tells the time; the system's by default.
            chance: where ids and jitter come from; the system's by default.
            probe: what a test hangs on the store.
            progress: told what is being done, how much of it is, and of how much; it gives up by raising.

        Raises:
            ImportRefused: a line is not as an export has it; it is named.
            BoardExists: something is at the target.
            InvalidArgument: the source cannot be read, or the target has no folder.
            StoreError: the board could not be written.
        """
        with loading():
            from agentmesh.board.transfer import imports  # noqa: PLC0415 - as above

        by = limits.name("agent_id", agent_id)
        return imports.import_board(
            source, target, store_options(clock, chance, probe), agent_id=by, progress=progress or _untold
        )

    @staticmethod
    def restore(
        backup: str | os.PathLike[str],
        target: str | os.PathLike[str],
        *,
        agent_id: str = OPERATOR,
        clock: Clock | None = None,
        chance: Chance | None = None,
        probe: Probe | None = None,
        progress: Progress | None = None,
    ) -> Restored:
        """Put a backup in the place of a board that no process has open; what is there is kept under a new name.

        The new file is copied, verified and on the disk before the old one moves. The board that is there may be
        damaged, or missing. If anything fails, or the process is killed, no board is lost: restore again.

        Args:
            backup: a file that `backup` or an upgrade made; it is only read.
            target: where the board is, or shall be.
            agent_id: who does it.
            clock: what tells the time; the system's by default.
            chance: where the name of the unfinished file comes from; the system's by default.
            probe: what a test hangs on the store.
            progress: told the pages copied and the pages in all, now and then; it gives up by raising.

        Raises:
            InvalidArgument: a file or folder is not there, both are the same file, or the backup has a log beside it.
            BoardInUse: a process has the board open; this one counts, too.
            Corrupt: the backup is damaged.
            StoreError: the backup is no board or of a newer schema, or the new file could not be written.
        """
        by = limits.name("agent_id", agent_id)
        source = limits.path("backup", backup)
        return restore(source, target, store_options(clock, chance, probe), agent_id=by, progress=progress)

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


def _untold(_stage: str, _done: int, _of: int) -> None:
    """Nobody wants to know how far it is."""
