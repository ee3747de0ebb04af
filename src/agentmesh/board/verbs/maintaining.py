"""The verbs of whoever keeps a board in good repair."""

from __future__ import annotations

import os
from pathlib import Path

from agentmesh import limits
from agentmesh.board.verbs.base import Verbs
from agentmesh.store.base import Progress
from agentmesh.upkeep import Backup


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
