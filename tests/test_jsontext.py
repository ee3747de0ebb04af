"""JSON as the board keeps it: the library's own form, from coders that are made once."""

import importlib
import json
import math

import pytest
from hypothesis import given, strategies as st

from agentmesh import jsontext

texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner))


@pytest.fixture(params=["in C", "in Python"])
def coders(request, monkeypatch):
    """The module as it is, and as it is where Python was built without the encoder in C."""
    with monkeypatch.context() as patch:
        if request.param == "in Python":
            patch.setattr("json.encoder.c_make_encoder", None)
        yield importlib.reload(jsontext)
    importlib.reload(jsontext)


@given(value=values)
def test_a_value_is_written_as_the_library_writes_it_and_comes_back(value):
    """Compact, each character as itself, and no value changes on its way."""
    text = jsontext.encode(value)
    assert text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert jsontext.decode(text) == value


@pytest.mark.parametrize("value", [{"ä": [1, 2.5, None, True, '\0\n"']}, "x", 5, None, [], {}])
def test_there_is_one_form_with_and_without_the_encoder_in_c(coders, value):
    """A board is read by any Python."""
    assert coders.encode(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize(("value", "error"), [(math.nan, ValueError), ([math.inf], ValueError), ({1, 2}, TypeError)])
def test_what_is_no_json_is_an_error(coders, value, error):
    """Nothing is written that another reader would not take."""
    with pytest.raises(error):
        coders.encode(value)


def test_an_error_does_not_spoil_the_next_call(coders):
    """The encoder keeps nothing from one call to the next."""
    shared = {"a": [object()]}
    for _ in range(2):
        with pytest.raises(TypeError):
            coders.encode(shared)
    assert coders.encode({"a": [1]}) == '{"a":[1]}'
