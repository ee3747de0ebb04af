"""The verbs of whoever plans: put tasks on the board, change them, tie them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from agentmesh import limits
from agentmesh.board import dependencies, plans, tasks
from agentmesh.board.change import Change
from agentmesh.board.lookup import task_record
from agentmesh.board.requests import Request, once, request
from agentmesh.board.specs import Spec, TaskDetails, TaskFields, read_spec, refuse_too_many_edges, task_name
from agentmesh.board.verbs.base import Verbs
from agentmesh.errors import InvalidArgument
from agentmesh.model import OPERATOR, Condition, PlanReport, Task


class Planning(Verbs):
    """Tasks, plans and edges."""

    def create_task(
        self, title: str, *, agent_id: str = OPERATOR, request_id: str | None = None, **fields: Unpack[TaskFields]
    ) -> Task:
        """Put a task on the board; see `TaskFields` for what can be said of it.

        Where an open task has its `key`, that one is given back, marked as `existing`, and nothing is created.

        Raises:
            InvalidArgument: a field is out of its limits.
            DuplicateId: the id is taken, or was by a task that was pruned.
            NotFound: it waits for a task that is not on the board.
        """
        spec = read_spec({"title": title, **fields})
        call = request(request_id, "create_task", title=title, **fields)
        agent = limits.name("agent_id", agent_id)

        return self._write(lambda change: _insert(change, [spec], agent, call)[0])

    def create_tasks(
        self,
        specs: Sequence[Mapping[str, Any]],
        *,
        plan: str | None = None,
        agent_id: str = OPERATOR,
        request_id: str | None = None,
    ) -> list[Task]:
        """Put tasks on the board, all or none; each is a mapping of `title` and `TaskFields`, and may name the others.

        Raises:
            InvalidArgument: a field is out of its limits; it is named with its place. Or the tasks have more than
                100,000 dependencies together.
            DuplicateId: an id is taken.
            NotFound: a task waits for one that is neither on the board nor among these.
            CycleRefused: they wait for each other in a circle.
        """
        listed = limits.items("tasks", specs, limits.BATCH)
        if plan is not None:
            limits.name("plan", plan)
        wishes = [
            read_spec(spec, plan=plan, where=f"tasks[{place}].")  # type: ignore[arg-type]  # it checks that itself
            for place, spec in enumerate(listed)
        ]
        refuse_too_many_edges("tasks", wishes)
        call = request(request_id, "create_tasks", specs=listed, plan=plan)
        agent = limits.name("agent_id", agent_id)

        return self._write(lambda change: _insert(change, wishes, agent, call))

    def apply_plan(self, document: Mapping[str, Any], *, agent_id: str = OPERATOR) -> PlanReport:
        """Bring the board in line with a plan, an object: `plan`, `workspace`, `retention_sec`, `defaults`, `tasks`.

        A retention is how long `prune` keeps the plan's tasks after their end; like a workspace it never changes.

        Raises:
            InvalidArgument: the document is not a plan; the place is named.
            WrongState: a listed task is final and was to change, or belongs to another plan.
        """
        terms, specs = plans.read_plan(document)
        agent = limits.name("agent_id", agent_id)
        return self._write(lambda change: plans.apply(change, terms, specs, agent))

    def update_task(
        self,
        task_id: str,
        *,
        title: str | None = None,
        agent_id: str = OPERATOR,
        request_id: str | None = None,
        **fields: Unpack[TaskDetails],
    ) -> Task:
        """Change what a task says of itself; what is not named stays.

        Raises:
            NotFound: it is not on the board.
            WrongState: it is final, or it runs and its paths or capabilities were to change.
        """
        wanted: dict[str, Any] = dict(fields) if title is None else {"title": title, **fields}
        read_spec({"title": "checked only", **wanted})
        for fixed in ("id", "key", "plan", "depends_on"):
            if fixed in wanted:
                raise InvalidArgument(fixed, "cannot change here")
        return self._once(
            agent_id,
            request(request_id, "update_task", task_id=task_id, fields=wanted),
            task_id,
            lambda change, agent: tasks.update(change, task_id, wanted, agent),
        )

    def add_dependency(
        self,
        task_id: str,
        depends_on: str,
        *,
        condition: Condition = "completed",
        agent_id: str = OPERATOR,
        request_id: str | None = None,
    ) -> Task:
        """Let a task wait for another, from now on.

        Raises:
            CycleRefused: the other one waits for it; the path is named.
            WrongState: the task is final or running.
        """
        task_name("depends_on", depends_on)
        limits.choice("condition", condition, ("completed", "failed", "finished"))

        def work(change: Change, agent: str) -> None:
            dependencies.add(change, *dependencies.both_ends(change, task_id, depends_on), condition, agent)

        call = request(request_id, "add_dependency", task_id=task_id, depends_on=depends_on, condition=condition)
        return self._once(agent_id, call, task_id, work)

    def remove_dependency(
        self, task_id: str, depends_on: str, *, agent_id: str = OPERATOR, request_id: str | None = None
    ) -> Task:
        """Let a task no longer wait for another; that it did not is no error.

        Raises:
            WrongState: the task is final.
        """
        task_name("depends_on", depends_on)

        def work(change: Change, agent: str) -> None:
            dependencies.remove(change, *dependencies.both_ends(change, task_id, depends_on), agent)

        call = request(request_id, "remove_dependency", task_id=task_id, depends_on=depends_on)
        return self._once(agent_id, call, task_id, work)


def _insert(change: Change, specs: Sequence[Spec], agent_id: str, call: Request | None) -> list[Task]:
    """Put tasks on the board, at most once per request; those that were there are marked."""

    def act() -> Any:
        made = tasks.insert(change, specs, agent_id)
        return {"ids": made.ids, "existing": sorted(made.existing)} if made.existing else made.ids

    reply = once(change, agent_id, call, act)
    ids, existing = (reply, ()) if isinstance(reply, list) else (reply["ids"], reply["existing"])
    return [replace(task_record(change.tx, name), existing=name in existing) for name in ids]
