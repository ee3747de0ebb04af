"""The account: what the board must hold, added up from what was acknowledged, call by call, and nothing else."""

from collections import Counter, defaultdict

from agentmesh.errors import Pruned
from agentmesh.model import Lease

PUSD = 10**12
ENDED_BY = {"complete_task": "completed", "fail_task": "failed", "release_task": "released", "split_task": "split"}


class Account:
    """The effects of all acknowledged calls of a phase."""

    def __init__(self, plan):
        self.plan = plan
        self.created = set()
        self.attempts = set()
        self.maybe = Counter()
        self.ends = {}
        self.results = {}
        self.notes = Counter()
        self.priorities = {}
        self.edges = {}
        self.reopened = set()
        self.sum = 0
        self.lists = defaultdict(Counter)
        self.own = {}
        self.used = defaultdict(Counter)
        self.budgets = {}
        self.paused = {}

    def add(self, agent, call, answer):
        """An acknowledged call; a worker's calls are added in their order."""
        act = getattr(self, f"_{call.verb}", None)
        if act is not None:
            act(agent, call.args, answer)
        elif call.verb in ENDED_BY:
            self._end(agent, call, answer)

    def _create_task(self, _agent, args, answer):
        self.created.add(answer)
        self.priorities[answer] = args["priority"]

    def _create_tasks(self, _agent, args, answer):
        self._made(args["specs"], answer)

    def _made(self, specs, answer):
        self.created.update(answer)
        self.priorities.update((spec["id"], spec["priority"]) for spec in specs)

    def _claim_task(self, agent, _args, answer):
        if answer:
            self.attempts.add((answer[0], Lease.from_token(*answer).fence, agent))

    def _end(self, agent, call, answer):
        lease = Lease.from_token(*call.args["lease"])
        self.ends[lease.task_id, lease.fence] = ENDED_BY[call.verb]
        self.attempts.add((lease.task_id, lease.fence, agent))
        if call.verb == "complete_task":
            self.results[lease.task_id, lease.fence] = call.args["result"]
        elif call.verb == "split_task":
            self._made(call.args["subtasks"], answer)

    def _note(self, _agent, args, answer):
        self.notes[args["lease"][0], *answer] += 1

    def _update_task(self, _agent, args, _answer):
        self.priorities[args["task_id"]] = args["priority"]

    def _add_dependency(self, _agent, args, _answer):
        self.edges[args["task_id"], args["depends_on"]] = True

    def _remove_dependency(self, _agent, args, _answer):
        self.edges[args["task_id"], args["depends_on"]] = False

    def _reopen_task(self, _agent, args, _answer):
        self.reopened.add(args["task_id"])

    def _increment(self, _agent, args, _answer):
        self.sum += args["amount"]

    def _append(self, _agent, args, _answer):
        self.lists[args["key"]][args["item"]] += 1

    def _put(self, agent, args, answer):
        if args["key"] == agent:  # the others pass after a time
            self.own[agent] = (args["value"], answer[1])

    def _delete(self, agent, _args, _answer):
        self.own[agent] = None

    def _record(self, agent, args, answer):
        self.used[agent].update(entries=1, tokens=args["output_tokens"], pusd=answer[2])

    def _set_budget(self, agent, args, _answer):
        self.budgets[agent, args["period"]] = args["tokens"]

    def _clear_budget(self, agent, args, _answer):
        self.budgets[agent, args["period"]] = None

    def _pause(self, agent, _args, _answer):
        self.paused[agent] = True

    def _resume(self, agent, _args, _answer):
        self.paused[agent] = False

    def differences(self, board):
        """What the board has that it should not, and what it lacks; nothing when they agree."""
        return [
            difference
            for look in (_tasks, _attempts, _notes, _edges, _entries, _usage, _budgets, _pauses)
            for difference in look(self, board)
        ]


def listed(board, plan):
    """All tasks of a plan."""
    tasks, cursor = [], None
    while True:
        page = board.list_tasks(plan=plan, limit=500, cursor=cursor)
        tasks += page.tasks
        if (cursor := page.cursor) is None:
            return tasks


def _any(what, found):
    if found:
        yield f"{what}: {found!r}"


def _differ(what, is_there, expected):
    if is_there != expected:
        yield f"{what}: the board has {is_there!r}, acknowledged was {expected!r}"


def _tasks(account, board):
    there = {task.id: task for task in listed(board, account.plan)}
    yield from _any("tasks that nobody created", set(there) - account.created)
    yield from _any("tasks that are lost", account.created - set(there))
    for name, task in there.items():
        yield from _differ(f"priority of {name}", task.priority, account.priorities.get(name))
        completed = max((fence for end, fence in account.results if end == name), default=None)
        if completed is not None and name not in account.reopened:
            full = board.get_task(name)
            is_there = (full.state, full.fence, full.result)
            yield from _differ(f"end of {name}", is_there, ("completed", completed, account.results[name, completed]))


def _attempts(account, board):
    there = {task.id: board.attempts(task.id) for task in listed(board, account.plan)}
    all_there = {(name, one.fence, one.agent_id) for name, attempts in there.items() for one in attempts}
    yield from _any("attempts that are lost", account.attempts - all_there)
    extra = all_there - account.attempts
    unexplained = Counter(agent for *_, agent in extra) - account.maybe
    yield from _any(f"attempts that nobody was given, of {sorted(extra)}", dict(unexplained))
    ends = {
        (name, one.fence): one.outcome
        for name, attempts in there.items()
        for one in attempts
        if one.outcome in ENDED_BY.values()
    }
    yield from _any("ends that nobody brought about", dict(ends.items() - account.ends.items()))
    yield from _any("ends that are lost", dict(account.ends.items() - ends.items()))


def _notes(account, board):
    names = [task.id for task in listed(board, account.plan)]
    there = Counter((name, note.fence, note.text) for name in names for note in board.notes(name))
    yield from _any("notes that nobody left", there - account.notes)
    yield from _any("notes that are lost", account.notes - there)


def _edges(account, board):
    there = {edge[:2] for edge in board.edges(account.plan)}
    for edge, is_there in account.edges.items():
        yield from _differ(f"edge {edge}", edge in there, is_there)


def _entries(account, board):
    total = board.blackboard.get(account.plan, "sum")
    yield from _differ("sum", total.value if total else 0, account.sum)
    for key, items in account.lists.items():
        entry = board.blackboard.get(account.plan, key)
        yield from _differ(f"list {key}", Counter(entry.value if entry else ()), items)
    for agent, expected in account.own.items():
        entry = board.blackboard.get(account.plan, agent)
        yield from _differ(f"entry of {agent}", (entry.value, entry.version) if entry else None, expected)


def _usage(account, board):
    lines = {line.agent_id: line for line in _report(board)}
    for agent, used in account.used.items():
        line = lines.get(agent)
        is_there = (line.entries, line.tokens, line.cost_pusd) if line else (0, 0, 0)
        yield from _differ(f"usage of {agent}", is_there, (used["entries"], used["tokens"], used["pusd"]))


def _report(board):
    offset, lines = 0, []
    while page := board.ledger.report(by="agent", limit=500, offset=offset).lines:
        lines += page
        offset += len(page)
    return lines


def _budgets(account, board):
    for (agent, period), tokens in account.budgets.items():
        budget = board.budgets.get(agent=agent, period=period)
        yield from _differ(f"budget of {agent} ({period})", budget.limit_tokens if budget else None, tokens)


def _pauses(account, board):
    there = {pause.name for pause in board.status().pauses if pause.scope == "agent"}
    for agent, paused in account.paused.items():
        yield from _differ(f"pause of {agent}", agent in there, paused)


def end_states(board, plan):
    """How each task of a plan has ended."""
    return {task.id: task.state for task in listed(board, plan)}


def lost(board, ended):
    """Of the tasks of an earlier phase, those that are neither there as they ended nor pruned with that end."""
    missing = []
    for name, state in ended.items():
        try:
            there = board.get_task(name).state
        except Pruned as pruned:
            there = pruned.state
        if there != state:
            missing.append(f"{name} ended as {state}, the board says {there}")
    return missing
