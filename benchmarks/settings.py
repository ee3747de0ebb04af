"""What a run is given: where its files go, and how thorough it is."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """Handed to every group of figures."""

    folder: Path
    quick: bool
    _names: itertools.count[int] = field(default_factory=itertools.count)

    def size(self, full: int, quick: int) -> int:
        """One of two sizes."""
        return quick if self.quick else full

    def place(self, name: str) -> Path:
        """A path that nothing has used yet."""
        return self.folder / f"{name}-{next(self._names)}.db"
