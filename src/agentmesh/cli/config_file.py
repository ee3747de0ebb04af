"""A client's file: read whole, copied aside, replaced in one step, and only if nobody else wrote to it meanwhile."""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from agentmesh.cli.text import place
from agentmesh.errors import ConfigurationRefused

_MARK: Final = "\ufeff"
_PRIVATE: Final = 0o600


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file as it was read; `data` is None where there is none yet."""

    path: Path
    data: bytes | None
    text: str
    mark: str

    @classmethod
    def read(cls, path: Path) -> ConfigFile:
        """Read a file, or the one that a link leads to.

        Raises:
            ConfigurationRefused: it is no plain file, or not UTF-8.
        """
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise ConfigurationRefused(place(str(path)), "it is no file")
            data = path.read_bytes()
        except FileNotFoundError:
            return cls(path, None, "", "")
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise ConfigurationRefused(place(str(path)), f"byte {error.start + 1} is not UTF-8") from None
        mark = _MARK if text.startswith(_MARK) else ""
        return cls(path, data, text.removeprefix(mark), mark)

    def write(self, text: str, now_us: int) -> Path | None:
        """Put another text in its place, and say where the copy of the old one is.

        A link stays and what it leads to is replaced; the new file has the rights and the owner of the old one.

        Raises:
            ConfigurationRefused: the file is no longer as it was read.
        """
        target = self.path.resolve()
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as new:
                new.write((self.mark + text).encode())
                new.flush()
                if self.data is not None:
                    _inherit(new.fileno(), target.stat())
                os.fsync(new.fileno())
            self._see_that_it_is_the_same()
            copy = None if self.data is None else _copy_aside(self.path, self.data, now_us)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink()
            raise
        return copy

    def _see_that_it_is_the_same(self) -> None:
        """Refuse to write over what a client has written since; a moment remains in which it still can."""
        if ConfigFile.read(self.path).data != self.data:
            raise ConfigurationRefused(
                place(str(self.path)), "somebody else changed it just now", hint="Close the client, then call again."
            )


def _copy_aside(path: Path, data: bytes, now_us: int) -> Path:
    """Keep the old bytes beside the file, for its owner only: such files hold keys."""
    stamp = datetime.fromtimestamp(now_us / 1_000_000, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    copy = path.with_name(f"{path.name}.bak-{stamp}")
    with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            copy.unlink()
            raise
    return copy


def _inherit(descriptor: int, old: os.stat_result) -> None:
    """Give a new file the owner and the rights of the old one."""
    if not hasattr(os, "fchown"):  # pragma: no cover - Windows has rights by folder
        return
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
