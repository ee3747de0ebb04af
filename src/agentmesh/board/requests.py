"""Repeating a call without repeating its effect: a `request_id` is kept with a hash of the arguments.

What is kept of the reply is where to find it (task ids, a fence, a number); the reply itself is built anew from the
rows. Refusals and "nothing to do" are not kept: the call may be tried again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentmesh import limits
from agentmesh.board.change import Change
from agentmesh.errors import RequestConflict
from agentmesh.jsontext import decode, encode

KEPT_US = 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """A call's identity: who repeats it, under which id, with which arguments."""

    request_id: str
    digest: str


def request(request_id: str | None, verb: str, **arguments: Any) -> Request | None:
    """The identity of a call; None when its caller gave none.

    Raises:
        InvalidArgument: the request_id is not a name.
    """
    if request_id is None:
        return None
    limits.name("request_id", request_id)
    text = json.dumps([verb, arguments], sort_keys=True, default=repr)
    return Request(request_id, hashlib.sha256(text.encode("utf-8", "replace")).hexdigest())


def once_in_parts(
    change: Change, agent_id: str, call: Request | None, so_far: int, work: Callable[[], tuple[int, bool]]
) -> tuple[int, bool]:
    """Do one part of a call that takes several transactions and counts something.

    What was counted is kept with each part, so a call that is repeated after it was stopped goes on from there.

    Args:
        change: the write.
        agent_id: the caller.
        call: the call's identity, if it has one.
        so_far: what this call has counted before.
        work: does the part; what it counted, and whether it was the last.

    Returns:
        What was counted in all, and whether the call is over.

    Raises:
        RequestConflict: the request_id was used for another call or other arguments.
    """
    if call is None:
        counted, over = work()
        return so_far + counted, over
    kept = _kept(change, agent_id, call)
    if isinstance(kept, int):
        return kept, True
    counted, over = work()
    total = counted + (kept["so_far"] if kept else 0)
    _keep(change, agent_id, call, total if over else {"so_far": total})
    return total, over


def once(change: Change, agent_id: str, call: Request | None, work: Callable[[], Any]) -> Any:
    """Do the work, or give what it gave before.

    Args:
        change: the write.
        agent_id: the caller.
        call: the call's identity; None does the work without asking.
        work: gives a JSON value from which the reply can be built, None for "nothing to do", which is not kept.

    Raises:
        RequestConflict: the request_id was used for another call or other arguments.
    """
    if call is None:
        return work()
    kept = _kept(change, agent_id, call)
    if kept is not None:
        return kept
    reply = work()
    if reply is not None:
        _keep(change, agent_id, call, reply)
    return reply


def _kept(change: Change, agent_id: str, call: Request) -> Any:
    """What is kept of the reply to a call; None when it is not known."""
    row = change.tx.fetch_one("request_of", agent_id=agent_id, request_id=call.request_id)
    if row is None or change.now - row["created_us"] >= KEPT_US:
        return None
    if row["digest"] != call.digest:
        raise RequestConflict(call.request_id)
    return decode(row["reply"])


def _keep(change: Change, agent_id: str, call: Request, reply: Any) -> None:
    change.tx.execute("sweep_requests", before_us=change.now - KEPT_US, kept_us=KEPT_US)
    change.tx.execute(
        "put_request",
        agent_id=agent_id,
        request_id=call.request_id,
        digest=call.digest,
        reply=encode(reply),
        now_us=change.now,
    )
