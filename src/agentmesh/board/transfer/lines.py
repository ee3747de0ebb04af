"""The lines of an export: JSON objects in ASCII, each with a check of its own, all together with one digest.

Everything outside ASCII is escaped: whatever agents wrote, the file can act on no terminal, and no reader breaks a line
where there is none. The `check` of a line is over that line alone, so two exports differ only where the boards do; that
lines are missing, doubled or shuffled shows in the digest, which the last line has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NoReturn

from agentmesh.board.transfer.form import LONGEST, Field
from agentmesh.errors import ImportRefused, InvalidArgument

ENCODE = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode
CHECK = b',"check":"'
DIGITS = 16
END = b'"}\n'
AT = len(CHECK)
TAIL = AT + DIGITS + len(END)
EDITED = "Lines are not to be edited: change the board that is made of them, or export the board anew."


def line(type_: str, row: Mapping[str, Any]) -> bytes:
    """A row as a line.

    Raises:
        ValueError: something in it is no JSON.
    """
    bare = ENCODE({"type": type_, **row}).encode()
    return b"".join((bare[:-1], CHECK, _check(bare), END))


class Lines:
    """The lines of a file, one after the other; `number` and `length` are those of the last."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._digest = hashlib.sha256()
        self._last = b""
        self.number = 0
        self.length = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Each line as the object that it is, `type` first, its check verified and taken off.

        Raises:
            ImportRefused: it is none, or not as it was written.
        """
        while raw := self._source.readline(LONGEST + 1):
            self.number += 1
            self.length = len(raw)
            self._digest.update(self._last)
            self._last = raw
            yield self._read(raw)

    def begin(self) -> None:
        """The digest is over what comes after the last line."""
        self._digest = hashlib.sha256()
        self._last = b""

    @property
    def digest(self) -> str:
        """Of all lines before the last one."""
        return self._digest.hexdigest()

    def refuse(self, problem: str, *, field: str | None = None, hint: str | None = None) -> NoReturn:
        """Refuse the last line.

        Raises:
            ImportRefused: always.
        """
        raise ImportRefused(self.number, problem, field=field, hint=hint)

    def _read(self, raw: bytes) -> dict[str, Any]:
        if not raw.endswith(b"\n"):
            if len(raw) > LONGEST:
                self.refuse(f"must have at most {LONGEST} bytes")
            self.refuse("is cut short: it has no end")
        bare, tail = raw[:-TAIL] + b"}", raw[-TAIL:]
        if not (tail.startswith(CHECK) and tail.endswith(END)):
            self.refuse("is not there, or not the last field", field="check", hint=EDITED)
        if tail[AT : -len(END)] != _check(bare):
            self.refuse("does not fit: the line is not as it was written", field="check", hint=EDITED)
        try:
            row, end = DECODE(bare.decode("ascii"))
        except UnicodeDecodeError:
            self.refuse("must be ASCII, with all other characters escaped")
        except json.JSONDecodeError:
            self.refuse("must be one JSON object")
        except RecursionError:
            self.refuse("is nested too deeply")
        except ValueError as error:
            self.refuse(str(error))
        if end < len(bare) or not isinstance(row, dict) or not isinstance(row.get("type"), str):
            self.refuse("must be one JSON object with a type", field="type")
        return row


def checked(fields: Mapping[str, Field], row: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a row's fields, each by its own rule: all of them must be there, in their order, and no others.

    Raises:
        InvalidArgument: one is not as it must be, missing or unknown.
    """
    if tuple(row)[1:] != tuple(fields):
        _refuse_fields(fields, row)
    return {name: check(name, row[name]) for name, check in fields.items()}


def _refuse_fields(fields: Mapping[str, Field], row: Mapping[str, Any]) -> NoReturn:
    for name in fields:
        if name not in row:
            raise InvalidArgument(name, "is missing; what has no value is null")
    if len(row) > len(fields) + 1:
        raise InvalidArgument("type", f"has a field that is not known; known are {', '.join(fields)}")
    raise InvalidArgument("type", f"has its fields in another order than {', '.join(fields)}")


def _check(bare: bytes) -> bytes:
    return hashlib.sha256(bare).hexdigest()[:DIGITS].encode()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        message = "has a name twice in one object"
        raise ValueError(message)
    return found


def _constant(_name: str) -> NoReturn:
    message = "must not hold NaN or an infinity"
    raise ValueError(message)


DECODE = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant).raw_decode
