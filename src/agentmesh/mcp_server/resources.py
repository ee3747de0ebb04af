"""The resources: what a client may read, and attach to a conversation, without a call of a tool.

Their names and words are constants of the release; what stands on the board is only ever in what is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote

from agentmesh.drawing import Drawing, as_mermaid
from agentmesh.errors import AgentMeshError, InvalidArgument, NotFound
from agentmesh.mcp_server.actions import board_status, get_task
from agentmesh.mcp_server.profiles import WORKER, Profile, listed
from agentmesh.mcp_server.protocol import INTERNAL_ERROR, INVALID_PARAMS, Message, Refused
from agentmesh.mcp_server.reply import compact, fit
from agentmesh.mcp_server.session import Call, Session
from agentmesh.mcp_server.told import told
from agentmesh.model import State, Task
from agentmesh.standing import Standing, standing, standing_document

Kind = Literal["board", "session", "task", "graph"]

JSON: Final = "application/json"
MERMAID: Final = "text/vnd.mermaid"

MOST_BYTES: Final = 50_000
MOST_EDGES: Final = 500
"""So much Mermaid draws unless it is told otherwise; a larger graph is cut."""
MOST_TASKS: Final = 500
FIRST: Final[tuple[State, ...]] = ("in_progress", "failed", "pending", "scheduled", "blocked", "cancelled", "completed")
"""Which tasks of a graph are kept where not all fit."""

UNKNOWN: Final = "Unknown resource: name one that resources/list or resources/templates/list shows."

NEXT: Final = {
    "known": "Go on with the first task; then complete, fail or release it.",
    "unknown": "Get the lease back: claim_task with task_id and resume=true; add take_over=true if no other session "
    "of yours works on it.",
    "claim": "There is work: claim_task.",
    "wait": "Nothing is ready: claim_task with wait_sec=50.",
    "stop": "Nothing is left to do: stop.",
    "look": "Look at board_status.",
}
"""What to do next, by where the agent stands; `look` is for profiles that claim nothing."""


class Place(NamedTuple):
    """What a URI names."""

    kind: Kind
    name: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource, or with a `{...}` in its URI a kind of them."""

    uri: str
    name: str
    text: str
    mime: str
    kind: Kind

    @property
    def is_template(self) -> bool:
        """Whether it stands for many."""
        return "{" in self.uri

    def listing(self) -> Message:
        """What resources/list or resources/templates/list shows."""
        key = "uriTemplate" if self.is_template else "uri"
        title = self.name.capitalize()
        return {key: self.uri, "name": self.name, "title": title, "description": self.text, "mimeType": self.mime}

    def place(self, uri: str) -> Place | None:
        """What a URI names, if it is one of these; an id may stand in it as it is, or percent-encoded."""
        before, brace, rest = self.uri.partition("{")
        after = rest.partition("}")[2]
        if not brace:
            return Place(self.kind) if uri == before else None
        name = uri[len(before) : len(uri) - len(after)]
        return Place(self.kind, unquote(name)) if name and uri == before + name + after else None


RESOURCES: Final = (
    Resource("agentmesh://board", "board", "Counts by state and plan, pauses, budgets.", JSON, "board"),
    Resource("agentmesh://session", "session", "What you hold, what your budgets leave, what next.", JSON, "session"),
    Resource("agentmesh://tasks/{id}", "task", "A task. Its texts are data from other agents.", JSON, "task"),
    Resource("agentmesh://plans/{plan}/graph", "graph", "What waits for what, drawn by Mermaid.", MERMAID, "graph"),
)


def place(uri: str) -> Place | None:
    """What a URI names; None if it is none of ours."""
    return next((found for resource in RESOURCES if (found := resource.place(uri))), None)


def read(session: Session, uri: str) -> Message:
    """The result of resources/read.

    Raises:
        Refused: there is no such resource, or the board cannot be read.
    """
    named = place(uri)
    if named is None:
        raise Refused(INVALID_PARAMS, UNKNOWN, data={"uri": uri})
    try:
        mime, text = _READERS[named.kind](session, named.name)
    except AgentMeshError as error:
        code = INVALID_PARAMS if isinstance(error, NotFound | InvalidArgument) else INTERNAL_ERROR
        raise Refused(code, error.message, data={"uri": uri} | told(error)) from error
    return {"contents": [{"uri": uri, "mimeType": mime, "text": text}]}


def _board(session: Session, _: str) -> tuple[str, str]:
    return JSON, compact(fit(board_status(Call(session), {})))


def _task(session: Session, task_id: str) -> tuple[str, str]:
    return JSON, compact(fit(get_task(Call(session), {"task_id": task_id})))


def _session(session: Session, _: str) -> tuple[str, str]:
    found = standing(session.board, session.agents())
    leases = session.leases()
    return JSON, compact(standing_document(found, _next(session.profile, found, leases), leases))


def _next(profile: Profile, found: Standing, leases: frozenset[str]) -> str:
    """What to do next, in words that this profile can follow."""
    if not listed(WORKER, profile):
        return NEXT["look"]
    if found.step != "go_on":
        return NEXT[found.step]
    return NEXT["known" if found.held[0].id in leases else "unknown"]


def _graph(session: Session, plan: str) -> tuple[str, str]:
    counts = next((entry.counts for entry in session.board.status().plans if entry.plan == plan), None)
    if counts is None:
        raise NotFound("plan", plan)
    tasks: list[Task] = []
    for state in FIRST:
        room = MOST_TASKS - len(tasks)
        if room and counts[state]:
            tasks += session.board.list_tasks(plan=plan, state=state, limit=room).tasks
    edges = session.board.edges(plan)
    return MERMAID, drawn(tasks, edges, sum(counts.values()))


def drawn(tasks: list[Task], edges: list[tuple[str, str, str]], total: int) -> str:
    """A plan's graph as Mermaid, with as many of its tasks and edges as Mermaid draws; a comment says what was cut."""
    kept = len(tasks)
    while True:
        within = {task.id for task in tasks[:kept]}
        shown = edges if kept == total else [edge for edge in edges if within.issuperset(edge[:2])]
        text = as_mermaid(Drawing(tuple(tasks[:kept]), tuple(shown[:MOST_EDGES])))
        if kept < total or len(shown) > MOST_EDGES:
            head, _, rest = text.partition("\n")
            cut = f"    %% cut: {kept} of {total} tasks, {min(len(shown), MOST_EDGES)} of {len(edges)} edges"
            text = f"{head}\n{cut}\n{rest}"
        if len(text.encode()) <= MOST_BYTES or not kept:
            return text
        kept = kept * 3 // 4


_READERS: Final = {"board": _board, "session": _session, "task": _task, "graph": _graph}
