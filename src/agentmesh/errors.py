"""Everything AgentMesh raises on purpose: one sentence for people, one code for machines, one next step.

No message carries foreign text (titles, results, notes): those come from agents and may be hostile. Ids are quoted,
they hold no white space and no control characters; so are paths that hold none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

PATH_SHOWN = 12


class AgentMeshError(Exception):
    """Base of all. `code` is stable, `hint` is the one safe next step."""

    code: ClassVar[str] = "error"
    hint: str = "Read the message; nothing was changed."

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if hint is not None:
            self.hint = hint


class InvalidArgument(AgentMeshError):
    """An argument is out of its limits; nothing was written."""

    code = "invalid_argument"

    def __init__(self, field: str, problem: str, *, hint: str | None = None) -> None:
        super().__init__(f"{field}: {problem}", hint=hint or f"Correct {field} and call again.")
        self.field = field
        self.problem = problem


class NotFound(AgentMeshError):
    """What was named is not on this board."""

    code = "not_found"

    def __init__(self, what: str, name: str) -> None:
        super().__init__(
            f"There is no {what} {name!r} on this board.", hint=f"List what is there, then name {_a(what)} that exists."
        )
        self.what = what
        self.name = name


class Pruned(NotFound):
    """The task has ended and was pruned: how it ended is all that is known of it."""

    code = "pruned"

    def __init__(self, task_id: str, state: str) -> None:
        AgentMeshError.__init__(
            self,
            f"Task {task_id!r} was pruned after it ended as {state}.",
            hint="Go on without it: it is over for good.",
        )
        self.what = "task"
        self.name = self.task_id = task_id
        self.state = state


def shown(pattern: str) -> str:
    """A path pattern as a sentence of ours may name it: with blanks in it, it could be a sentence of another's."""
    return "a path" if " " in pattern else repr(pattern)


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


class ImportRefused(AgentMeshError):
    """A line of an export is not as an export has it; no board was made."""

    code = "import_refused"
    hint = "Export the board anew, or take another export; no board was made."

    def __init__(self, line: int, problem: str, *, field: str | None = None, hint: str | None = None) -> None:
        place = f"Line {line}" + (f", {field}" if field else "")
        super().__init__(f"{place}: {problem}.", hint=hint)
        self.line = line
        self.field = field


class Conflict(AgentMeshError):
    """The board is in a state that does not allow the call."""

    code = "conflict"


class AlreadyClaimed(Conflict):
    """Another agent holds the task, or another session of the same agent (`own`)."""

    code = "already_claimed"
    hint = "Claim another task, or wait until this one is free."

    def __init__(self, task_id: str, holder: str, lease_expires_us: int, *, own: bool = False) -> None:
        hint = "If no other session of yours works on it, claim it with resume=true and take_over=true."
        super().__init__(f"Task {task_id!r} is held by {holder!r}.", hint=hint if own else None)
        self.task_id = task_id
        self.holder = holder
        self.lease_expires_us = lease_expires_us


class LeaseLost(Conflict):
    """The attempt is over, or the token is not its own; another agent may hold the task now."""

    code = "lease_lost"
    hint = "Stop work on this task and claim another one."

    def __init__(self, task_id: str, fence: int, outcome: str | None = None) -> None:
        why = f"attempt {fence} ended as {outcome}" if outcome else f"the token is not that of attempt {fence}"
        super().__init__(f"The lease on task {task_id!r} is lost: {why}.")
        self.task_id = task_id
        self.fence = fence
        self.outcome = outcome


class TaskCancelled(LeaseLost):
    """The task was cancelled while it was held."""

    code = "cancelled"

    def __init__(self, task_id: str, fence: int) -> None:
        super().__init__(task_id, fence, "cancelled")


class LeaseUnknown(Conflict):
    """No lease is known for this task in this session."""

    code = "lease_unknown"
    hint = "Give `lease` as the claim returned it, or claim the task by its id with resume=true to get a new one."

    def __init__(self, task_id: str) -> None:
        super().__init__(f"This session holds no lease on task {task_id!r}.")
        self.task_id = task_id


class HoldExhausted(Conflict):
    """The attempt has been held for as long as its task allows."""

    code = "max_hold_reached"
    hint = "Complete, fail or release the task now."

    def __init__(self, task_id: str) -> None:
        super().__init__(f"Task {task_id!r} has reached its max_hold_sec: its lease cannot be renewed again.")
        self.task_id = task_id


class WrongState(Conflict):
    """The task's state does not allow this."""

    code = "wrong_state"

    def __init__(self, task_id: str, state: str, problem: str, *, hint: str | None = None) -> None:
        super().__init__(f"Task {task_id!r} is {state}: {problem}.", hint=hint or "Look at the task, then decide.")
        self.task_id = task_id
        self.state = state


class DuplicateId(Conflict):
    """A task of this id exists already, or did until it was pruned: an id never stands for two tasks."""

    code = "duplicate_id"
    hint = "Look at the task that exists before you add another, without an id or with a new one."

    def __init__(self, task_id: str, *, pruned: bool = False) -> None:
        if pruned:
            super().__init__(
                f"Task {task_id!r} was pruned.", hint="Leave the id out to get a new one, or choose another."
            )
        else:
            super().__init__(f"Task {task_id!r} exists already.")
        self.task_id = task_id


class CycleRefused(Conflict):
    """The edge would close a cycle; `path` names it from end to end."""

    code = "cycle"
    hint = "Leave this edge out."

    def __init__(self, path: Sequence[str]) -> None:
        shown = list(path) if len(path) <= PATH_SHOWN else [*path[: PATH_SHOWN // 2], "...", *path[-PATH_SHOWN // 2 :]]
        super().__init__(
            "The edge would close a cycle: " + " -> ".join(repr(i) if i != "..." else i for i in shown) + "."
        )
        self.path = tuple(path)


class PathsHeld(Conflict):
    """A pattern overlaps one that a running attempt holds."""

    code = "paths_held"
    hint = "Wait for the holder to finish, or work on other paths."

    def __init__(self, pattern: str, held: str, task_id: str, holder: str) -> None:
        super().__init__(f"{shown(pattern)} overlaps {shown(held)}, held by {holder!r} for task {task_id!r}.")
        self.pattern = pattern
        self.held = held
        self.task_id = task_id
        self.holder = holder


class VersionConflict(Conflict):
    """The entry is at another version than the caller believes; 0 stands for a missing one."""

    code = "version_conflict"
    hint = "Get the entry anew, then decide."

    def __init__(self, namespace: str, key: str, version: int, expected: int) -> None:
        there = f"is at version {version}" if version else "is not there"
        wanted = f"version {expected}" if expected else "none"
        super().__init__(f"Entry {key!r} in namespace {namespace!r} {there}; {wanted} was expected.")
        self.namespace = namespace
        self.key = key
        self.version = version
        self.expected = expected


class WrongKind(Conflict):
    """The entry's value is not of the kind that the call needs."""

    code = "wrong_kind"
    hint = "Get the entry, and put another value or use another key."

    def __init__(self, namespace: str, key: str, needed: str) -> None:
        super().__init__(f"Entry {key!r} in namespace {namespace!r} is not {needed}.")
        self.namespace = namespace
        self.key = key


class RequestConflict(Conflict):
    """The request_id was used before with another call or other arguments."""

    code = "request_conflict"
    hint = "Use a new request_id for a new call."

    def __init__(self, request_id: str) -> None:
        super().__init__(f"request_id {request_id!r} was already used for a call with other arguments.")
        self.request_id = request_id


class SourceConflict(Conflict):
    """The source key stands for usage that contradicts what was counted under it before."""

    code = "source_conflict"
    hint = "One key stands for one reply of one model: give each reply its own source key, such as its vendor's id."

    def __init__(self, source: str, field: str, problem: str) -> None:
        super().__init__(f"source {source!r} was counted before, and {field} {problem}.")
        self.source = source
        self.field = field


class CursorExpired(Conflict):
    """The cursor points before the oldest event kept, or past the newest."""

    code = "cursor_expired"

    def __init__(self, after: int, first: int, last: int) -> None:
        super().__init__(
            f"Cursor {after} is outside the history kept here ({first} to {last}).",
            hint=f"Read the board's state anew, then go on from cursor {last}.",
        )
        self.after = after
        self.first = first


class StoreError(AgentMeshError):
    """The store could not do its work."""

    code = "store_error"
    hint = "Run `agentmesh check`; the call had no effect."


class Busy(StoreError):
    """The write lock was not to be had in time."""

    code = "busy"
    hint = "Try again in a moment; the call had no effect."


class OutcomeUnknown(StoreError):
    """The commit failed, and whether it took effect cannot be told: a write or a sync of the disk failed."""

    code = "outcome_unknown"
    hint = "Look whether the call took effect, or repeat it with the same request_id, and check the disk."


class ResourcesExhausted(StoreError):
    """A limit of the process or of the system is used up: open files, memory."""

    code = "resources_exhausted"
    hint = "Close what is open in this process or raise its limit (`ulimit -n`), then call again."


class SumTooLarge(StoreError):
    """A sum of tokens, time or money is more than the board can hold."""

    code = "sum_too_large"
    hint = "Look for an entry of the ledger or an estimate that is far too large; the call had no effect."


class DiskFull(StoreError):
    """No space is left for the board."""

    code = "disk_full"
    hint = "Free space on its disk, then call again; the board is intact."


class ReadOnly(StoreError):
    """The board or its folder may not be written."""

    code = "read_only"
    hint = "Give this user write access to the board file and to the folder it is in."


class OnTestClock(StoreError):
    """The board goes by a test's clock, and was to be written by another; or the other way round."""

    code = "on_test_clock"
    hint = "Only read it, or write it on its own clock: start the server with --test-clock."


class ClockOver(StoreError):
    """A call waits on the clock of a test that is over."""

    code = "clock_over"
    hint = "Let the clock move while agents wait: `with mesh_clock.autojump():`, or mesh_clock.advance()."


class Corrupt(StoreError):
    """The board file is damaged."""

    code = "corrupt"
    hint = "Stop all agents and restore a backup with `agentmesh restore`; do not write to this file."


class NewerSchema(StoreError):
    """The board was written by a newer AgentMesh; it was left untouched."""

    code = "newer_schema"
    hint = "Upgrade AgentMesh on this machine."


class ForeignFile(StoreError):
    """The file is not an AgentMesh board; it was left untouched."""

    code = "foreign_file"
    hint = "Name another file, or create a board with `agentmesh init`."


class UnsupportedFileSystem(StoreError):
    """The file system cannot hold a board that several processes share."""

    code = "unsupported_file_system"
    hint = "Put the board on a local disk (or a named container volume), or use PostgreSQL."


class AliasedBoard(StoreError):
    """The board file has a second name, under which it would have a second log."""

    code = "aliased_board"
    hint = "Stop all agents, find the names (`find / -samefile`), and keep one: that with a -wal file beside it."


class BoardNotFound(StoreError):
    """There is no board at that place."""

    code = "board_not_found"
    hint = "Create one with `agentmesh init`, or name it with --board or AGENTMESH_BOARD."


class BoardExists(StoreError):
    """A board is there already."""

    code = "board_exists"
    hint = "Use the board that is there; nothing was changed."


class BoardReplaced(StoreError):
    """A file of this open board (database, log, shared memory, gate) was deleted or replaced."""

    code = "board_replaced"
    hint = (
        "End every process that has the board open, then open it again; `agentmesh restore` puts a backup in its place."
    )


class MismatchedLog(StoreError):
    """The log beside the board file belongs to another file: the board was replaced by hand and its log was left."""

    code = "mismatched_log"
    hint = "Use `agentmesh restore` to put a backup in place; or move the -wal and -shm files away to keep this file."


class BoardInUse(StoreError):
    """The board is open, so its file cannot be replaced."""

    code = "board_in_use"
    hint = "Stop every agent and server that uses the board, then restore again; the board is as it was."


class BoardClosed(StoreError):
    """The board object was closed."""

    code = "board_closed"
    hint = "Open the board again."


class ForkedBoard(StoreError):
    """The board was opened before this process was forked."""

    code = "forked_board"
    hint = "Open the board anew in the child process."


class Overloaded(AgentMeshError):
    """As many calls wait on this server as it lets wait."""

    code = "overloaded"
    hint = "Call again without wait_sec, or a little later."

    def __init__(self, waiting: int) -> None:
        super().__init__(f"{waiting} calls wait on this server already, and no more may.")


class MissingExtra(AgentMeshError):
    """What a command needs was not installed with AgentMesh."""

    code = "missing_extra"

    def __init__(self, extra: str, needed: str) -> None:
        super().__init__(
            f"This needs {needed}, which is not installed here.",
            hint=f"Install it: pip install 'pytest-agentmesh[{extra}]'",
        )


class UnsafeTokens(AgentMeshError):
    """The file with the tokens cannot be trusted; nobody is let in by it."""

    code = "unsafe_tokens"
    hint = "Let only yourself read it (chmod 600), or delete it and add the tokens anew."


class ConfigurationRefused(AgentMeshError):
    """A client's configuration file is not edited: it is broken, or what it says is not ours to change."""

    code = "configuration_refused"

    def __init__(self, path: str, problem: str, *, hint: str | None = None) -> None:
        super().__init__(
            f"{path!r} was left as it is: {problem}.",
            hint=hint or "Correct the file and call again, or add the entry by hand: --print shows it.",
        )
        self.path = path
