"""What an agent can do, as data: a call of the board, or time that passes; both print as a test would write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

from agentmesh.model import FailureKind, Json

_BARE: Final = frozenset({"plan", "model", "namespace", "key", "value", "text", "result", "error", "subtasks", "verb"})
_WRITTEN: Final = {"cost_usd": "usd"}


@dataclass(frozen=True, slots=True, repr=False)
class Call:
    """One call of the board: the `word` an agent's script has for it, the `verb` of the board, what it is given.

    Its agent signs it with its name, its lease and a request_id when it is made. In texts, `{task}` and `{agent}`
    stand for the task in hand and the agent's name. A claim that `waits` is asked again until there is something.
    """

    word: str
    verb: str
    options: Mapping[str, object] = field(default_factory=dict)
    waits: bool = False

    def __repr__(self) -> str:
        """As a test would write it: `put('notes', 'key/{task}', 1, ttl_sec=60)`."""
        shown = [repr(self.verb)] if self.word == "do" else []
        for name, value in self.options.items():
            bare = name in _BARE and self.word != "do"
            shown.append(repr(value) if bare else f"{_WRITTEN.get(name, name)}={value!r}")
        if self.verb == "claim_task" and not self.waits:
            shown.append("wait=False")
        return f"{self.word}({', '.join(shown)})"


@dataclass(frozen=True, slots=True, repr=False)
class Work:
    """Board time that passes for an agent, with a heartbeat every `beat_every` seconds if that is given."""

    sec: float
    beat_every: float | None = None

    def __repr__(self) -> str:
        """As a test would write it: `work(minutes=4, beat_every=20)`."""
        minutes, rest = divmod(self.sec, 60)
        took = f"sec={self.sec:g}" if rest else f"minutes={minutes:g}"
        return f"work({took})" if self.beat_every is None else f"work({took}, beat_every={self.beat_every:g})"


Step = Call | Work


def _given(**options: object) -> dict[str, object]:
    return {name: value for name, value in options.items() if value is not None}


def claim(
    plan: str | None = None,
    *,
    task_id: str | None = None,
    capabilities: Iterable[str] = (),
    tags: Iterable[str] = (),
    resume: bool = False,
    take_over: bool = False,
    wait: bool = True,
) -> Call:
    """Get a task; `wait` until there is one, else go on with nothing. When the board says stop, the agent stops."""
    options = _given(
        plan=plan,
        task_id=task_id,
        capabilities=tuple(capabilities) or None,
        tags=tuple(tags) or None,
        resume=resume or None,
        take_over=take_over or None,
    )
    return Call("claim", "claim_task", options, wait)


def work(minutes: float = 0, *, sec: float = 0, beat_every: float | None = None) -> Work:
    """Let board time pass, with a heartbeat every `beat_every` seconds.

    Raises:
        ValueError: a time is negative, or no time passes between two heartbeats.
    """
    if minutes < 0 or sec < 0 or (beat_every is not None and beat_every <= 0):
        raise ValueError("work takes no negative time, and some time passes between two heartbeats")
    return Work(minutes * 60 + sec, beat_every)


def heartbeat() -> Call:
    """Renew the lease."""
    return Call("heartbeat", "heartbeat")


def spend(
    model: str | None = None,
    *,
    usd: str | float | Decimal | None = None,
    input_tokens: int = 0,
    cached_input_tokens: int = 0,
    cache_write_tokens: int = 0,
    output_tokens: int = 0,
    duration_ms: float = 0,
) -> Call:
    """Record usage, on the task in hand or, after its end, on the one before."""
    counts = {
        "input_tokens": input_tokens,
        "cached_input_tokens": cached_input_tokens,
        "cache_write_tokens": cache_write_tokens,
        "output_tokens": output_tokens,
        "duration_ms": duration_ms,
    }
    used = {name: number for name, number in counts.items() if number}
    return Call("spend", "record_usage", _given(model=model, cost_usd=usd) | used)


def put(
    namespace: str, key: str, value: Json | bytes, *, ttl_sec: float | None = None, if_version: int | None = None
) -> Call:
    """Put an entry on the blackboard, signed with the lease if there is one."""
    told = {"namespace": namespace, "key": key, "value": value}
    return Call("put", "put_entry", told | _given(ttl_sec=ttl_sec, if_version=if_version))


def get(namespace: str, key: str) -> Call:
    """Read an entry of the blackboard."""
    return Call("get", "get_entry", {"namespace": namespace, "key": key})


def note(text: str) -> Call:
    """Leave a remark on the attempt."""
    return Call("note", "note", {"text": text})


def complete(result: Json = None) -> Call:
    """Finish the task."""
    return Call("complete", "complete_task", _given(result=result))


def fail(error: str, *, kind: FailureKind = "task", retry: bool = True, retry_after_sec: float | None = None) -> Call:
    """Report that the attempt failed."""
    other = ({"kind": kind} if kind != "task" else {}) | _given(retry_after_sec=retry_after_sec)
    return Call("fail", "fail_task", {"error": error} | other | ({} if retry else {"retry": False}))


def release(*, delay_sec: float = 0) -> Call:
    """Give the task back undone."""
    return Call("release", "release_task", {"delay_sec": delay_sec} if delay_sec else {})


def split(subtasks: Sequence[Mapping[str, Any]]) -> Call:
    """Create subtasks, for which the task then waits."""
    return Call("split", "split_task", {"subtasks": list(subtasks)})


def do(verb: str, /, **options: object) -> Call:
    """Call any other verb of the board by its name, with its options: `do("cancel_task", task_id="t1")`."""
    return Call("do", verb, options)


class Lost(Exception):
    """No answer came: whether the call took effect, its caller cannot know. `again` is the same call once more."""

    def __init__(self, step: Call, request_id: str) -> None:
        super().__init__(f"{step!r} got no answer.")
        self.again = replace(step, options={**step.options, "request_id": request_id})
