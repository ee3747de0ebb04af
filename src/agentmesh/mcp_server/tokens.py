"""Bearer tokens of the HTTP front. A token speaks for one agent and shows it the tools of one profile.

They stand in a file beside the board, which only its owner may read, and only as hashes: a token is
shown once, when it is added. A token has 160 random bits, so a plain hash of it tells nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Final

from agentmesh import limits
from agentmesh.clock import Chance, word
from agentmesh.errors import InvalidArgument, NotFound, UnsafeTokens
from agentmesh.mcp_server.log import log
from agentmesh.mcp_server.profiles import PROFILES, Profile
from agentmesh.model import Micros

PREFIX: Final = "agentmesh_"
"""By which scanners for leaked secrets know a token."""

LETTERS: Final = 32
ID: Final = 12
SUFFIX: Final = ".tokens"
OTHERS: Final = 0o077
HASH: Final = re.compile(r"[0-9a-f]{64}").fullmatch


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of a token."""

    agent: str
    profile: Profile
    sha256: str
    created_us: int

    @property
    def id(self) -> str:
        """By which it is named when it is revoked."""
        return self.sha256[:ID]


class TokenFile:
    """The tokens of one board."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def beside(cls, board: str | os.PathLike[str]) -> TokenFile:
        """Those of the board at this path."""
        path = Path(board)
        return cls(path.with_name(path.name + SUFFIX))

    def read(self) -> tuple[Token, ...]:
        """All tokens; none if there is no file.

        Raises:
            UnsafeTokens: others may read it, or it is not what we wrote.
        """
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return ()
        except OSError:
            raise UnsafeTokens(f"The file of tokens {self.path.name!r} cannot be read.") from None
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & OTHERS:
                raise UnsafeTokens(f"Others than its owner may have read the file of tokens {self.path.name!r}.")
            return self._tokens(file.read())

    def add(self, agent: str, profile: Profile, now_us: Micros, chance: Chance) -> tuple[Token, str]:
        """Add a token; this is the only time that its secret is to be had.

        Raises:
            InvalidArgument: nobody can be called so.
            UnsafeTokens: as `read`.
        """
        limits.name("agent", agent)
        limits.choice("profile", profile, PROFILES)
        secret = PREFIX + word(chance, LETTERS)
        added = Token(agent, profile, digest(secret), now_us)
        with self._locked():
            self._write([*self.read(), added], word(chance, ID))
        return added, secret

    def revoke(self, named: str, chance: Chance) -> list[Token]:
        """Take away the token of this id, or all tokens of this agent; those that were taken.

        Raises:
            NotFound: there is none.
            UnsafeTokens: as `read`.
        """
        with self._locked():
            before = self.read()
            revoked = [token for token in before if named in (token.id, token.agent)]
            if not revoked:
                raise NotFound("token", limits.name("token", named))
            self._write([token for token in before if token not in revoked], word(chance, ID))
        return revoked

    def mark(self) -> tuple[int, ...] | None:
        """What changes whenever the file does; None if there is none."""
        try:
            found = self.path.lstat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode, found.st_ctime_ns

    def _tokens(self, text: bytes) -> tuple[Token, ...]:
        try:
            document = json.loads(text)
            tokens = tuple(Token(**kept) for kept in document["tokens"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UnsafeTokens(f"The file of tokens {self.path.name!r} is damaged.") from None
        if document.get("version") != 1 or not all(map(_sound, tokens)):
            raise UnsafeTokens(f"The file of tokens {self.path.name!r} is damaged.")
        return tokens

    def _write(self, tokens: Sequence[Token], unique: str) -> None:
        """Put a new file in the place of the old one, whole or not at all, closed to others from the start."""
        new = self.path.with_name(f"{self.path.name}.{unique}")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                json.dump({"version": 1, "tokens": [asdict(token) for token in tokens]}, file, indent=1)
                file.flush()
                os.fsync(fd)
            new.replace(self.path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One at a time: two that add at once must not lose each other's token."""
        try:
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            raise InvalidArgument("board", "the folder it should be in is not there") from None
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


class Keyring:
    """The tokens as a running server knows them: it looks whether the file changed each time it is asked.

    Once there was a token, one is needed: neither revoking the last one nor deleting the file opens the door.
    """

    def __init__(self, file: TokenFile) -> None:
        self._file = file
        self._mark = file.mark()
        self._tokens = file.read()
        self.needed = bool(self._tokens)

    def find(self, secret: str) -> Token | None:
        """The token that was presented. All are compared, each in constant time."""
        presented = digest(secret)
        found = None
        for token in self.tokens():
            if compare_digest(token.sha256, presented):
                found = token
        return found

    def tokens(self) -> tuple[Token, ...]:
        """The tokens that are good now."""
        mark = self._file.mark()
        if mark != self._mark:
            self._tokens = self._read_again()
            self._mark = mark
            self.needed = self.needed or mark is not None
        return self._tokens

    def _read_again(self) -> tuple[Token, ...]:
        try:
            return self._file.read()
        except UnsafeTokens as unsafe:
            log(f"{unsafe.message} Nobody is let in.")
            return ()


def digest(secret: str) -> str:
    """What is kept of a token instead of it."""
    return sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _sound(token: Token) -> bool:
    """Whether the fields are what we write: the file may have come from anywhere."""
    named = isinstance(token.agent, str) and token.profile in PROFILES
    return named and isinstance(token.created_us, int) and isinstance(token.sha256, str) and bool(HASH(token.sha256))
