"""Answers are never too large, and say what is missing."""

import json

import pytest

from agentmesh.errors import InvalidArgument, NotFound
from agentmesh.mcp_server import reply


def raising(error):
    """Work that ends in an error."""

    def work():
        raise error

    return work


def test_text_and_structure_are_the_same():
    """Whichever a client shows, its model sees all."""
    result = reply.result_of(lambda: {"title": "größer", "n": 1})
    assert result["content"] == [{"type": "text", "text": '{"title":"größer","n":1}'}]
    assert result["structuredContent"] == {"title": "größer", "n": 1}
    assert result["isError"] is False


def test_an_error_is_a_document_in_the_first_text():
    """Code, sentence, next step."""
    result = reply.result_of(raising(NotFound("task", "t-1")))
    error = json.loads(result["content"][0]["text"])
    assert result["isError"] is True
    assert error["code"] == "not_found"
    assert set(error) >= {"code", "message", "hint"}


def test_an_unexpected_error_tells_nothing_foreign(capfd):
    """The client gets our sentence, the log gets the traceback."""
    result = reply.result_of(raising(ValueError("secret title")))
    assert json.loads(result["content"][0]["text"])["code"] == "internal"
    assert "secret" not in json.dumps(result)
    assert "secret title" in capfd.readouterr().err


@pytest.mark.parametrize("letter", ["x", "é", "\u0001", '"', "語", "😀"])
@pytest.mark.parametrize("field", ["description", "payload"])
def test_a_long_text_is_cut_with_a_mark(field, letter):
    """Whatever its letters weigh, the answer fits and says how much was cut."""
    value = letter * 70_000 if field == "description" else {"deep": [letter * 70_000]}
    fitted = reply.fit({"task": {"id": "t", field: value}})
    assert reply.size(fitted) <= reply.LIMIT
    assert fitted["task"]["id"] == "t"
    (mark,) = fitted["truncated"]
    assert mark["field"] == f"task.{field}"
    assert mark["shown"] == len(fitted["task"][field]) < mark["of"]


def test_the_longest_is_cut_first():
    """A small result beside a huge payload stays whole."""
    document = {"task": {"payload": "x" * 200_000}, "dependencies": [{"result": {"n": 1}}, {"result": {"n": 2}}]}
    assert reply.fit(document)["dependencies"] == document["dependencies"]


def test_a_long_list_is_cut():
    """Ten thousand small things are cut as a list, quickly."""
    fitted = reply.fit({"tasks": [{"id": f"task-{i:05}", "title": "t" * 80} for i in range(10_000)]})
    assert reply.size(fitted) <= reply.LIMIT
    assert fitted["truncated"][0]["of"] == 10_000


def test_what_cannot_be_cut_is_left_out():
    """There is always an answer."""
    assert reply.fit({str(i): "x" * 100 for i in range(10_000)})["truncated"]


def test_fitting_counts_the_leading_items():
    """One at least, even if it is too large by itself."""
    assert reply.fitting([]) == 0
    assert reply.fitting(["x"] * 10) == 10
    assert reply.fitting(["x" * 20_000] * 10) == 3
    assert reply.fitting(["x" * 100_000] * 10) == 1


def test_a_long_field_is_read_on_part_by_part():
    """The parts put together are the whole, and each fits."""
    text, offset, parts = 'ab"é語\u0001' * 20_000, 0, []
    while offset is not None:
        found = reply.part(text, "description", offset)
        assert reply.size(found) <= reply.LIMIT
        parts.append(found["text"])
        offset = found.get("next_offset")
    assert "".join(parts) == text


def test_an_offset_past_the_end_is_refused():
    """The error names its range."""
    with pytest.raises(InvalidArgument, match="within 0 and 3"):
        reply.part("abc", "description", 4)
