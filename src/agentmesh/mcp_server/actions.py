"""What each tool does: a function from the call and its checked arguments to a JSON object.

No protocol and no SDK is known here. What is raised on purpose are the board's own errors.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from agentmesh.documents import document
from agentmesh.errors import InvalidArgument, LeaseLost, LeaseUnknown, NotFound, Pruned
from agentmesh.mcp_server import reply
from agentmesh.mcp_server.arguments import Argument, Arguments, checked
from agentmesh.mcp_server.session import AT_ONCE_US, Call
from agentmesh.model import Budget, Json, Lease, NoClaim, Task, UsageLine

if TYPE_CHECKING:
    from agentmesh.board.claim import Claim

Document = dict[str, Json]

FIELDS: Final = (
    Argument("description", blank=True),
    Argument("priority", "integer"),
    Argument("requires", "strings", "capabilities"),
    Argument("tags", "strings"),
    Argument("writes", "strings", "paths, e.g. src/**"),
    Argument("reads", "strings"),
    Argument("payload", "json"),
    Argument("estimate_usd", "number"),
    Argument("estimate_tokens", "integer"),
    Argument("lease_timeout_sec", "number"),
    Argument("max_hold_sec", "number"),
    Argument("max_attempts", "integer"),
    Argument("not_before", about="RFC 3339"),
)
TASK: Final = (
    Argument("title", required=True),
    Argument("id"),
    Argument("key", about="one open task at most"),
    Argument("plan"),
    Argument("depends_on", "strings", 'ids; or "ID:failed", "ID:finished"'),
    *FIELDS,
)
"""What a task is made of, also within `create_tasks` and `split_task`."""
SHOWN: Final = ("title", "id", "description", "depends_on", "writes")
PARTS: Final = tuple(replace(argument, about="") for argument in TASK if argument.name in SHOWN)
"""What a list of tasks shows of them: an object of which nothing is shown is filled with nothing by some clients."""

NAME_IT: Final = "Call heartbeat with this task_id before you begin: its lease is renewed from then on."
RESUME_IT: Final = "You hold these tasks: claim one by its task_id with resume=true, then do it."
BUDGETS_SHOWN: Final = 20
PAUSES_SHOWN: Final = 20
RARE: Final = frozenset({"reserved_usd", "reserved_tokens", "unpriced"})
"""What is said of a budget only where there is any."""


def create_task(call: Call, arguments: Arguments) -> Document:
    """Put one task on the board."""
    return document(call.board.create_task(arguments.pop("title"), **arguments))


def create_tasks(call: Call, arguments: Arguments) -> Document:
    """Put several tasks on the board, or none."""
    given = arguments.pop("tasks")
    tasks = [checked(TASK, spec, "a task", f"tasks[{i}].") for i, spec in enumerate(given)]
    return {"tasks": [_brief(task) for task in call.board.create_tasks(tasks, **arguments)]}


def update_task(call: Call, arguments: Arguments) -> Document:
    """Change what is given."""
    return document(call.board.update_task(arguments.pop("task_id"), **arguments))


def claim_task(call: Call, arguments: Arguments) -> Document:
    """Hand a task out, and remember its lease."""
    agent_id, session = arguments.pop("agent_id"), call.session
    began_us = session.now_us()
    with session.waiting(call.client, agent_id) as ended:
        claim = call.board.claim_task(agent_id, cancel=lambda: call.given_up() or ended(), **arguments)
    heard = session.now_us() - began_us < AT_ONCE_US
    if not isinstance(claim, NoClaim):
        if "request_id" not in arguments and not claim.resumed:
            call.undo = partial(_give_back, call, claim)
        session.remember(agent_id, claim, heard=heard)
        return document(claim) if heard else document(claim) | {"hint": NAME_IT}
    unheard = session.unheard(agent_id)
    lost = [task_id for task_id in claim.holds if task_id in unheard]
    return document(claim) | ({"advice": "resume", "holds": lost, "hint": RESUME_IT} if lost else {})


def heartbeat(call: Call, arguments: Arguments) -> Document:
    """Renew a lease."""
    return document(call.board.heartbeat(call.session.lease(arguments)))


def complete_task(call: Call, arguments: Arguments) -> Document:
    """End the attempt: done."""
    lease = call.session.lease(arguments)
    return _end(call, lease, call.board.complete_task(lease, **arguments))


def fail_task(call: Call, arguments: Arguments) -> Document:
    """End the attempt: it did not work."""
    lease = call.session.lease(arguments)
    return _end(call, lease, call.board.fail_task(lease, **arguments))


def release_task(call: Call, arguments: Arguments) -> Document:
    """End the attempt: somebody else shall do it."""
    lease = call.session.lease(arguments)
    return _end(call, lease, call.board.release_task(lease, **arguments))


def split_task(call: Call, arguments: Arguments) -> Document:
    """End the attempt: the task now waits for its parts."""
    lease = call.session.lease(arguments)
    given = arguments.pop("subtasks")
    parts = [checked(TASK, spec, "a task", f"subtasks[{i}].") for i, spec in enumerate(given)]
    created = call.board.split_task(lease, parts, **arguments)
    call.session.ended(lease)
    return {"task_id": lease.task_id, "subtasks": [_brief(task) for task in created]}


def hold_paths(call: Call, arguments: Arguments) -> Document:
    """Add paths to the running attempt."""
    return document(call.board.hold_paths(call.session.lease(arguments), **arguments))


def note(call: Call, arguments: Arguments) -> Document:
    """Leave a remark."""
    return document(call.board.note(call.session.lease(arguments), **arguments))


def get_task(call: Call, arguments: Arguments) -> Document:
    """Show one task with its attempts and notes, or a further part of one long field."""
    task_id = arguments["task_id"]
    task = document(call.board.get_task(task_id))
    if (name := arguments.get("field")) is not None:
        return reply.part(task.get(name), name, arguments.get("offset", 0))
    return task | {
        "attempts": [document(attempt) for attempt in call.board.attempts(task_id)],
        "notes": [document(remark) for remark in call.board.notes(task_id)],
    }


def list_tasks(call: Call, arguments: Arguments) -> Document:
    """Show one page of tasks, a shorter one when it would be too large."""
    page = call.board.list_tasks(**arguments)
    fitting = reply.fitting([document(task) for task in page.tasks])
    if fitting < len(page.tasks):
        page = call.board.list_tasks(**arguments | {"limit": fitting})
    return document(page)


def board_status(call: Call, _: Arguments) -> Document:
    """Show the counts and the budgets."""
    budgets = call.board.budgets.list()
    found = document(call.board.status())
    if len(pauses := found.get("pauses", ())) > PAUSES_SHOWN:
        found |= {"pauses": pauses[:PAUSES_SHOWN], "more_pauses": len(pauses) - PAUSES_SHOWN}
    if budgets:
        found["budgets"] = [_stand(budget) for budget in budgets[:BUDGETS_SHOWN]]
    if len(budgets) > BUDGETS_SHOWN:
        found["more_budgets"] = len(budgets) - BUDGETS_SHOWN
    return found


def explain(call: Call, arguments: Arguments) -> Document:
    """Say what holds things up."""
    return document(call.board.explain(arguments.pop("task_id", None), **arguments))


def add_dependency(call: Call, arguments: Arguments) -> Document:
    """Make a task wait for another."""
    ids = arguments.pop("task_id"), arguments.pop("depends_on")
    return document(call.board.add_dependency(*ids, **arguments))


def remove_dependency(call: Call, arguments: Arguments) -> Document:
    """Make a task wait no longer."""
    ids = arguments.pop("task_id"), arguments.pop("depends_on")
    return document(call.board.remove_dependency(*ids, **arguments))


def cancel_task(call: Call, arguments: Arguments) -> Document:
    """Take a task off the plan."""
    return document(call.board.cancel_task(arguments.pop("task_id"), **arguments))


def reclaim_zombies(call: Call, _: Arguments) -> Document:
    """Take back what dead agents hold."""
    reclaimed = call.board.reclaim_zombies()
    return {"count": len(reclaimed), "reclaimed": [document(attempt) for attempt in reclaimed]}


def read_events(call: Call, arguments: Arguments) -> Document:
    """Read on in the history."""
    after = arguments.pop("after", 0)
    events = call.board.events(after, cancel=call.given_up, **arguments)
    shown = [document(event) for event in events]
    shown = shown[: reply.fitting(shown)]
    return {"events": shown, "cursor": shown[-1]["seq"] if shown else after}


def wait_for(call: Call, arguments: Arguments) -> Document:
    """Wait until a task or a plan is final."""
    wait_sec = arguments.pop("wait_sec", 0)  # a call that does not say so does not wait
    found = call.board.wait_for(**arguments, wait_sec=wait_sec, cancel=call.given_up)
    return document(found) | {"final": found.final}


def put_entry(call: Call, arguments: Arguments) -> Document:
    """Write an entry; bytes come as base64, which their content type tells from JSON."""
    value = arguments.pop("value")
    if "content_type" in arguments:
        value = _bytes(value)
    place = arguments.pop("namespace", ""), arguments.pop("key")
    entry = document(call.board.blackboard.put(*place, value, **_signed(call, arguments)))
    del entry["value"]  # whoever sent it knows it
    return entry


def get_entry(call: Call, arguments: Arguments) -> Document:
    """Show an entry, or a further part of its value."""
    namespace, key = arguments.get("namespace", ""), arguments["key"]
    entry = call.board.blackboard.get(namespace, key)
    if entry is None:
        raise NotFound("entry", key)
    found = document(entry)
    if "offset" in arguments:
        return reply.part(found["value"], "value", arguments["offset"]) | {"version": entry.version}
    return found


def list_entries(call: Call, arguments: Arguments) -> Document:
    """Show one page of entries, a shorter one when it would be too large."""
    page = call.board.blackboard.list(**arguments)
    fitting = reply.fitting([document(entry) for entry in page.entries])
    if fitting < len(page.entries):
        page = call.board.blackboard.list(**arguments | {"limit": fitting})
    return document(page)


def delete_entry(call: Call, arguments: Arguments) -> Document:
    """Take an entry away."""
    place = arguments.pop("namespace", ""), arguments.pop("key")
    return {"deleted": call.board.blackboard.delete(*place, **_signed(call, arguments))}


def record_usage(call: Call, arguments: Arguments) -> Document:
    """Write usage down for the attempt whose lease the session knows, else for agent and task as they are named."""
    named = {name: arguments[name] for name in ("agent_id", "task_id") if name in arguments}
    try:
        receipt = call.board.ledger.record(**_signed(call, arguments))
    except (LeaseUnknown, LeaseLost, Pruned):  # the money was spent all the same
        receipt = call.board.ledger.record(**arguments | named)
    entry = document(receipt.entry)
    found: Document = {name: entry[name] for name in ("id", "task_id", "fence", "cost_usd") if name in entry}
    if receipt.entry.cost_pusd is None:
        found["unpriced"] = True
    if receipt.budgets:
        found["budgets"] = [document(budget) for budget in receipt.budgets]
    if receipt.unknown:
        found["unknown"] = list(receipt.unknown)
    return found


def usage_report(call: Call, arguments: Arguments) -> Document:
    """Sum usage up, in as many lines as fit."""
    report = call.board.ledger.report(agent_id=arguments.pop("agent", None), **arguments)
    lines = [_sums(line) for line in report.lines]
    shown = lines[: reply.fitting(lines)]
    found: Document = {"by": report.by, "lines": shown, "total": _sums(report.total)}
    if more := report.more + len(lines) - len(shown):
        found |= {"more": more, "next_offset": arguments.get("offset", 0) + len(shown)}
    return found


def set_budget(call: Call, arguments: Arguments) -> Document:
    """Limit what may be used, or take the limit away."""
    limits = [name for name in ("usd", "tokens", "strict") if name in arguments]
    if arguments.pop("clear", False):
        if limits:
            raise InvalidArgument(limits[0], "is for a new limit, and clear takes one away")
        return {"cleared": call.board.budgets.clear(**arguments)}
    if not {"usd", "tokens"} & set(limits):
        raise InvalidArgument("usd", "give a limit, in usd, in tokens, or both", hint="Give usd, tokens or both.")
    return document(call.board.budgets.set(**arguments))


def pause(call: Call, arguments: Arguments) -> Document:
    """Stop hand-outs."""
    return document(call.board.pause(**arguments))


def resume(call: Call, arguments: Arguments) -> Document:
    """Let hand-outs go on."""
    return {"resumed": call.board.resume(**arguments)}


def _signed(call: Call, arguments: Arguments) -> Arguments:
    """The arguments with the lease of the task that is named, if one is."""
    if "task_id" in arguments:
        return {"lease": call.session.lease(arguments), **arguments}
    if "lease" in arguments:
        raise InvalidArgument("task_id", "is required with lease: name the task it is for")
    return arguments


def _stand(budget: Budget) -> Document:
    """How a budget stands, without a word about what is not there."""
    return {name: value for name, value in document(budget).items() if value not in (0, "0") or name not in RARE}


def _sums(line: UsageLine) -> Document:
    """A line of a report without what is zero."""
    zeros: dict[str, Any] = {field.name: None for field in fields(line) if getattr(line, field.name) == 0}
    return document(replace(line, **zeros))


def _bytes(value: Json) -> bytes:
    """What base64 stands for."""
    try:
        return b64decode(value, validate=True)
    except (TypeError, ValueError):  # no text, or no base64
        raise InvalidArgument("value", "must be base64 when content_type is given") from None


def _brief(task: Task) -> Document:
    brief: Document = {"id": task.id, "title": task.title, "state": task.state}
    return brief | {"existing": True} if task.existing else brief


def _end(call: Call, lease: Lease, task: Task) -> Document:
    call.session.ended(lease)
    return document(task)


def _give_back(call: Call, claim: Claim) -> None:
    """Release a claim whose answer went nowhere, so that nobody waits for its lease to run out."""
    call.session.ended(claim.lease)
    call.board.give_back(claim)
