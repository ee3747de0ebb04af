"""Data such as software teams give to LLM agents, from a seed: tasks, plans of chosen shape, agents, usage.

What it gives is data to look at, not to replay from: another version of Faker has other words. A replay stores what was
chosen, never the seed of a `MeshFake`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Any

from pytest_agentmesh.fake import shapes
from pytest_agentmesh.fake.shapes import Edges, Shape
from pytest_agentmesh.fake.vocabulary import ROLES, ErrorKind, slug

if TYPE_CHECKING:
    from pytest_agentmesh.fake.provider import AgentWork, Spec


class MeshFake:
    """Makes things up; the same things for the same seed.

    The n-th call of a method depends on the seed, n and its arguments alone: not on what else was asked for, here, of
    Faker or of `random`. All plans are one sequence, whatever their shape. An id or the name of an agent is given once:
    the second to wish for it gets a number behind it. One thread uses it.

    Keyword arguments of tasks and plans are fields of `TaskFields` that win over made-up ones, for every task.
    """

    def __init__(self, seed: int = 0) -> None:
        """Make things up from a seed.

        Raises:
            MissingExtra: Faker is not installed.
        """
        if find_spec("faker") is None:
            from agentmesh.errors import MissingExtra

            raise MissingExtra("fake", "faker")
        from faker import Factory  # 0.2 s that only a test with made-up data pays

        from pytest_agentmesh.fake.provider import AgentWork

        self.seed = seed
        self._generator = Factory.create("en_US", use_weighting=False)
        self._provider = AgentWork(self._generator)
        self._calls: Counter[str] = Counter()
        self._given: dict[str, set[str]] = defaultdict(set)

    def task(self, **fields: Any) -> Spec:
        """A task for `board.create_task(**spec)`, with an id, capabilities, path patterns and an estimate.

        What one task writes another may write too, and `requires` is met by an agent of `agent()` in the right role.
        """
        spec = self._work("task").agent_task() | fields
        return spec if "id" in spec else {"id": self._new("task", slug(spec["title"]) or "task"), **spec}

    def tasks(self, n: int, **fields: Any) -> list[Spec]:
        """As many tasks for `board.create_tasks(specs)`; none waits for another."""
        return [self.task(**fields) for _ in range(n)]

    def plan(self, shape: Shape = "diamond", size: int = 6, **fields: Any) -> list[Spec]:
        """A graph of `size` tasks for `board.create_tasks(specs)`, parents first: one feature from design to release.

        The graph alone decides what may run: no task requires a capability, and none wants a path that another one
        holds. What is too small for its shape is a chain.
        """
        return self._plan(shapes.of_size(shape, size), fields)

    def chain(self, n: int, **fields: Any) -> list[Spec]:
        """A plan of `n` tasks, one after the other."""
        return self._plan(shapes.chain(n), fields)

    def diamond(self, width: int, **fields: Any) -> list[Spec]:
        """A plan of one task, `width` that wait for it side by side, and one that waits for all of these."""
        return self._plan(shapes.diamond(width), fields)

    def layered(self, layers: int, width: int, **fields: Any) -> list[Spec]:
        """A plan in layers of `width` tasks, each of which waits for two neighbours in the layer above."""
        return self._plan(shapes.layered(layers, width), fields)

    def fan_out(self, n: int, **fields: Any) -> list[Spec]:
        """A plan of one task and `n` that wait for it."""
        return self._plan(shapes.fan_out(n), fields)

    def fan_in(self, n: int, **fields: Any) -> list[Spec]:
        """A plan of `n` tasks, at most 1,000, and one that waits for all of them."""
        return self._plan(shapes.fan_in(n), fields)

    def agent(self, role: str | None = None) -> dict[str, Any]:
        """An agent for `board.claim_task(**agent)`: its `agent_id`, such as `coder-7f`, and its `capabilities`.

        Without a role it is the turn of the next one. Any five in turn can do every made-up task between them.
        """
        in_turn = list(ROLES)[self._calls["agent"] % len(ROLES)]
        chosen = role or in_turn
        if chosen not in ROLES:
            raise ValueError(f"{role!r} is no role; roles are {', '.join(ROLES)}")
        name = self._work("agent").agent_name(chosen)
        return {"agent_id": self._new("agent", name), "capabilities": list(ROLES[chosen])}

    def agents(self, n: int) -> list[dict[str, Any]]:
        """As many agents, in turn of each role."""
        return [self.agent() for _ in range(n)]

    def model(self) -> str:
        """A model of OpenAI, Anthropic or Google whose price the ledger knows."""
        return self._work("model").agent_model()

    def usage(self, model: str | None = None) -> dict[str, Any]:
        """One call of a model for `board.ledger.record(agent_id, **usage)`: disjoint token counts and a duration."""
        work = self._work("usage")
        return work.agent_usage(model or work.agent_model())

    def result(self) -> dict[str, Any]:
        """What `board.complete_task(lease, result)` may be told: summary, commit, files, size and tests."""
        return self._work("result").agent_result()

    def error(self, kind: ErrorKind = "task") -> str:
        """What `board.fail_task(lease, error, kind=kind)` may be told."""
        return self._work(f"error {kind}").agent_error(kind)

    def note(self) -> str:
        """What `board.note(lease, text)` may be told."""
        return self._work("note").agent_note()

    def entry(self) -> dict[str, Any]:
        """A finding, a decision, a contract or a measurement for `board.blackboard.put(**entry)`."""
        return self._work("entry").agent_entry()

    def artifact(self) -> bytes:
        """A patch, as the value of a blackboard entry with the content type `text/x-diff`."""
        return self._work("artifact").agent_patch().encode()

    def _plan(self, edges: Edges, fields: dict[str, Any]) -> list[Spec]:
        if shaped := sorted({"id", "depends_on"} & set(fields)):
            raise ValueError(f"{shaped[0]} is what the shape decides")
        work = self._work("plan")
        feature = work.agent_feature()
        name = self._new("plan", slug(feature))
        return [spec | fields for spec in work.agent_plan(feature, name, edges)]

    def _work(self, stream: str) -> AgentWork:
        """The provider, at the place that the next call in a stream has for itself."""
        self._calls[stream] += 1
        self._generator.seed_instance(f"{self.seed} {stream} {self._calls[stream]}")
        return self._provider

    def _new(self, stream: str, name: str) -> str:
        """A name that this stream has not given yet: the one wished for, or the same with a number."""
        given = self._given[stream]
        new = next(one for one in _numbered(name) if one not in given)
        given.add(new)
        return new


def _numbered(name: str) -> Iterator[str]:
    yield name
    for number in count(2):
        yield f"{name}-{number}"
