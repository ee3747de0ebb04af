"""The calls of the soak, as plain data: another process can read what was called, and call it again.

A call is a verb and its arguments in JSON; a lease among them is `[task_id, token]`. The answer is reduced to what must
be the same when the call is repeated with its `request_id`.
"""

from pathlib import Path
from typing import Any, NamedTuple

from agentmesh import Board
from agentmesh.errors import AgentMeshError, OutcomeUnknown, StoreError
from agentmesh.model import Lease

DONE, REFUSED, FAILED, UNKNOWN = "done", "refused", "failed", "unknown"
"""How a call ended: with its effect, refused by a rule, failed in the store without effect, or nobody knows."""


class Call(NamedTuple):
    """The n-th call of a worker."""

    n: int
    verb: str
    args: dict[str, Any]


class Outcome(NamedTuple):
    """How a call ended; `answer` is what it gave, or the code of its error."""

    how: str
    answer: Any


def perform(board, call):
    """Make a call; its reduced answer."""
    args = dict(call.args)
    if args.get("lease"):
        args["lease"] = Lease.from_token(*args["lease"])
    return VERBS[call.verb](board, args)


def attempt(board, call):
    """Make a call; how it ended. Only an error of AgentMesh is an outcome, any other is raised."""
    try:
        return Outcome(DONE, perform(board, call))
    except OutcomeUnknown as error:
        return Outcome(UNKNOWN, error.code)
    except StoreError as error:
        return Outcome(FAILED, f"{error.code}: {error}")
    except AgentMeshError as error:
        return Outcome(REFUSED, error.code)


def _claim(board, args):
    claim = board.claim_task(**args)
    return [claim.task.id, claim.lease.token] if claim else None


def _entry(entry):
    return [entry.key, entry.version, entry.value]


def _record(board, args):
    entry = board.ledger.record(**args).entry
    return [entry.id, entry.output_tokens, entry.cost_pusd]


def _backup(board, args):
    path = Path(args["path"])
    board.backup(path)
    with Board.open(path, create=False, durability="normal") as copy:
        found = [finding for finding in copy.check() if finding.verdict == "violated"]
        assert not found, f"the backup breaks {found}"
    for end in ("", "-wal", "-shm", ".gate"):
        path.with_name(path.name + end).unlink(missing_ok=True)


def _held(verb):
    return lambda board, args: getattr(board, verb)(**args).id


def _read(verb):
    def call(board, args):
        getattr(board, verb)(**args)

    return call


VERBS = {
    "create_task": _held("create_task"),
    "create_tasks": lambda board, args: [task.id for task in board.create_tasks(**args)],
    "claim_task": _claim,
    "heartbeat": lambda board, args: board.heartbeat(**args).fence,
    "complete_task": _held("complete_task"),
    "fail_task": _held("fail_task"),
    "release_task": _held("release_task"),
    "split_task": lambda board, args: [task.id for task in board.split_task(**args)],
    "hold_paths": _held("hold_paths"),
    "note": lambda board, args: [(note := board.note(**args)).fence, note.text],
    "cancel_task": _held("cancel_task"),
    "reopen_task": _held("reopen_task"),
    "update_task": _held("update_task"),
    "add_dependency": _held("add_dependency"),
    "remove_dependency": _held("remove_dependency"),
    "put": lambda board, args: _entry(board.blackboard.put(**args)),
    "delete": lambda board, args: board.blackboard.delete(**args),
    "increment": lambda board, args: _entry(board.blackboard.increment(**args)),
    "append": lambda board, args: _entry(board.blackboard.append(**args)),
    "record": _record,
    "set_budget": lambda board, args: board.budgets.set(**args).name,
    "clear_budget": lambda board, args: board.budgets.clear(**args),
    "pause": lambda board, args: board.pause(**args).name,
    "resume": lambda board, args: board.resume(**args),
    "prune": _read("prune"),
    "reclaim_zombies": _read("reclaim_zombies"),
    "backup": _backup,
    "get_task": _read("get_task"),
    "list_tasks": _read("list_tasks"),
    "events": _read("events"),
    "status": _read("status"),
    "explain": _read("explain"),
    "check": _read("check"),
    "report": lambda board, args: board.ledger.report(**args) and None,
}
"""Each verb as a function of a board and its arguments."""
READS = ("get_task", "list_tasks", "events", "status", "explain", "check", "report")
