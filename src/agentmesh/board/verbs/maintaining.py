"""The verbs of whoever keeps a board in good repair."""

from __future__ import annotations

import os
from pathlib import Path

from agentmesh import limits
from agentmesh.board import doctor
from agentmesh.board.verbs.base import Verbs
from agentmesh.errors import BoardNotFound, StoreError
from agentmesh.store.base import Progress, StoreOptions
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
