"""Assertions on the entries of the blackboard."""

from __future__ import annotations

from typing import Any

from agentmesh import Board, Entry, Event
from agentmesh.limits import INTEGER, PAGE, integer
from pytest_agentmesh.assertions.values import contrast, shown
from pytest_agentmesh.assertions.witness import Witness, place, since
from pytest_agentmesh.assertions.wording import alike, folded, likely, message
from pytest_agentmesh.durations import words


def assert_entry(
    board: Board, namespace: str, key: str, value: Any = ..., *, version: int | None = None, by: str | None = None
) -> None:
    """The entry is there: with this value, at this version, last written by this agent, as far as they are given."""
    __tracebackhide__ = True
    if version is not None:
        integer("version", version, 1, INTEGER)
    found = board.blackboard.get(namespace, key)
    witness, name = Witness(board), place(namespace, key)
    if found is None:
        puts = _story(witness, namespace, key)
        cause = likely(_absence(witness, namespace, key, puts))
        raise AssertionError(message(f"expected an entry {name}, but there is none", cause, witness.told(puts[-5:])))
    same = value is ... or bool(value == found.value)
    wrong = [] if same else ["it has another value"]
    if version not in (None, found.version):
        wrong.append(f"it is at version {found.version}, expected {version}")
    if by not in (None, found.agent_id):
        wrong.append(f"{found.agent_id} wrote it last, expected {by}")
    if wrong:
        puts = _story(witness, namespace, key)
        head = f"entry {name} is not as expected: {'; '.join(wrong)}"
        values = [] if same else contrast(value, found.value)
        facts = folded(f"{_written(witness, found, puts)}; {_end(witness, found)}")
        raise AssertionError(message(head, values, facts, witness.told(puts[-5:])))


def assert_no_entry(board: Board, namespace: str, key: str) -> None:
    """The entry is not there: never written, deleted or expired."""
    __tracebackhide__ = True
    found = board.blackboard.get(namespace, key)
    if found is not None:
        witness = Witness(board)
        puts = _story(witness, namespace, key)
        facts = f"{_written(witness, found, puts)}: {shown(found.value)}"
        head = f"expected no entry {place(namespace, key)}, but it is there, at version {found.version}"
        raise AssertionError(message(head, folded(facts), likely(_end(witness, found)), witness.told(puts[-5:])))


def _story(witness: Witness, namespace: str, key: str) -> list[Event]:
    """The events of an entry, oldest first."""
    return [
        event
        for event in witness.history
        if event.kind in ("entry_put", "entry_deleted")
        and (event.data["namespace"], event.data["key"]) == (namespace, key)
    ]


def _written(witness: Witness, found: Entry, story: list[Event]) -> str:
    """Who wrote an entry last, when, and for which task."""
    last = story[-1] if story else None
    task = f" for {found.task_id}, attempt {found.fence}" if found.task_id else ""
    return f"{found.agent_id} wrote version {found.version} at {since(witness, last, found.updated_us)}{task}"


def _end(witness: Witness, found: Entry) -> str:
    """When an entry will be gone."""
    if found.expires_us is None:
        return "it has no TTL, so it stays until somebody deletes it"
    left = words(found.expires_us - witness.now_us)
    return f"it expires at {witness.at(found.expires_us)}, {left} from now"


def _absence(witness: Witness, namespace: str, key: str, story: list[Event]) -> str:
    """Why an entry is not there."""
    last = story[-1] if story else None
    if last is None:
        there = witness.board.blackboard.list("", limit=PAGE).entries
        same_key = [place(entry.namespace, entry.key) for entry in there if entry.key == key]
        if same_key:
            return f"nobody ever put it there; is {same_key[0]} meant?"
        near = alike(place(namespace, key), (place(entry.namespace, entry.key) for entry in there))
        return f"nobody ever put it; {near}" + (f" ({witness.gap})" if witness.gap else "")
    if last.kind == "entry_deleted":
        return f"{last.agent_id} deleted version {last.data['version']} at {since(witness, last, last.at_us)}"
    end = last.data.get("expires_us", 0)
    ago = words(witness.now_us - end)
    return f"it expired at {witness.at(end)}, {ago} ago: {last.agent_id} put it with a TTL of {words(end - last.at_us)}"
