"""JSON as the board keeps it: compact, each character as itself.

The library's coders prepare anew for each call what one of each kind can keep: an encoder in C (0.9 of the 1.8 us that
a small value takes, and a write encodes two or three), and the search for blanks around the text (0.8 of 1.4 us).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from json import JSONDecoder, JSONEncoder
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]  # typeshed lacks the first
from typing import Any

_coder = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_pieces: Callable[[object, int], Iterable[str]] = (
    c_make_encoder(None, _coder.default, encode_basestring, None, ":", ",", False, False, False)  # noqa: FBT003 - unnamed
    if c_make_encoder  # a Python may be built without it
    else lambda value, _level: _coder.iterencode(value)
)
_decode = JSONDecoder().raw_decode


def encode(value: object) -> str:
    """The text of a value that is JSON and does not hold itself."""
    return "".join(_pieces(value, 0))


def decode(text: str) -> Any:
    """The value of a text from `encode`."""
    return _decode(text)[0]
