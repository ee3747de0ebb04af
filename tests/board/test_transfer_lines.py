"""Lines of an export by themselves: what is written is read, and nothing else."""

import io
import json

import pytest
from hypothesis import given, strategies as st

from agentmesh.board.transfer.lines import Lines, line
from agentmesh.errors import ImportRefused

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
ROWS = st.dictionaries(TEXTS.filter(lambda name: name not in ("type", "check")), VALUES, max_size=5)


def read(data):
    """The lines of a file, as objects."""
    return list(Lines(io.BytesIO(data)))


@given(st.lists(ROWS, max_size=4))
def test_rows_come_back_as_they_were(rows):
    """Names in their order, numbers of their kind, texts to the letter; each is one line of ASCII."""
    written = [line("row", row) for row in rows]
    found = read(b"".join(written))
    assert [list(row.items()) for row in found] == [[("type", "row"), *row.items()] for row in rows]
    assert json.dumps(found) == json.dumps([{"type": "row", **row} for row in rows])
    assert all(text.isascii() and text.count(b"\n") == 1 and text.endswith(b"\n") for text in written)


@given(ROWS, st.data())
def test_any_other_byte_is_noticed(row, data):
    """Wherever it is, whatever it becomes."""
    text = bytearray(line("row", row))
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != text[place]))
    with pytest.raises(ImportRefused, match=r"^Line [12]\b"):
        read(bytes(text))


@given(st.binary(max_size=300))
def test_no_bytes_bring_out_anything_but_a_refusal(junk):
    """A file that is no export is refused like one that was damaged."""
    if junk:
        with pytest.raises(ImportRefused):
            read(junk)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_json_is_not_written(value):
    """It could not be read."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        line("row", {"value": value})
