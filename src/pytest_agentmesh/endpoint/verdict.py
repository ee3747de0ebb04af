"""What a test is told when an agent and its script did not agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from agentmesh.printable import one_line
from pytest_agentmesh.endpoint.script import Exchange, Failure, Line, Script
from pytest_agentmesh.replies import SHOWN, Answer, Refusal, Turn

ROWS: Final = 12
"""How many requests of an agent are shown, the newest."""


def of_script(script: Script) -> str | None:
    """What is wrong with an agent and its script; None if nothing is."""
    left = script.unsaid
    if not (left or script.failures):
        return None
    asked = len(script.exchanges)
    title = f'mesh_model: agent "{script.agent}" and its script did not agree, in {asked} request{"s" * (asked != 1)}'
    told = [title, *_rows(script.exchanges, left)]
    for failure in script.failures:
        told += of_failure(failure)
    if left:
        told += [
            f"  {len(left)} of {len(script.lines)} scripted replies left unsaid",
            f"  likely: {_why_left(script)}",
        ]
    return "\n".join(told)


def of_failure(failure: Failure) -> Iterator[str]:
    """A failure, and what may have caused it."""
    yield f"  {'' if failure.number is None else f'request {failure.number}: '}{one_line(failure.what)}"
    if failure.likely:
        yield f"  likely: {failure.likely}"


def _rows(exchanges: Sequence[Exchange], left: Sequence[Line]) -> Iterator[str]:
    """A row for each request with its reply, then one for each reply that was never asked for."""
    if len(exchanges) > ROWS:
        yield f"  ... {len(exchanges) - ROWS} earlier requests"
    shown = [(str(each.turn.number), _said(each.line), _heard(each.turn)) for each in exchanges[-ROWS:]]
    shown += [("-", str(line), "unsaid") for line in left if not line.answered]
    width = min(max((len(said) for _, said, _ in shown), default=0), SHOWN)
    for number, said, heard in shown:
        yield f"  {number:>3}  {_short(said):<{width}}  <- {heard}"


def _said(line: Line | None) -> str:
    return "nothing" if line is None else str(line)


def _heard(turn: Turn) -> str:
    """What came: by whose API, for which model, and what was said last."""
    role = turn.messages[-1].role if turn.messages else "nobody"
    return f"{turn.dialect} {one_line(turn.model)}, {role}: {_short(repr(turn.last_text))}"


def _why_left(script: Script) -> str:
    """Why the agent may have stopped asking."""
    if script.failures and script.failures[-1].number == len(script.exchanges):
        return f"request {len(script.exchanges)} failed, and that ended the agent"
    last = next((each.line for each in reversed(script.exchanges) if each.line), None)
    if last is None:
        return "the agent never reached this endpoint: its client needs the url and the key of its model, or env()"
    if not last.is_done:
        return f"the agent did not try again after {last}"
    if isinstance(last.reply, Refusal):
        return f"the agent gave up after {last}"
    if isinstance(last.reply, Answer) and not last.reply.calls:
        return f"{_short(str(last))} calls no tool, which ends the loop of most agents"
    return f"the agent stopped by itself after {_short(str(last))}"


def _short(told: str) -> str:
    return told if len(told) <= SHOWN else told[: SHOWN - 3] + "..."
