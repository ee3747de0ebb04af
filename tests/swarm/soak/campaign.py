"""What all campaigns share: a board, a process that has it open all along, workers, and the comparison at the end."""

import contextlib
import fcntl
import random
import time
from pathlib import Path

from agentmesh import Board
from agentmesh.errors import Busy
from agentmesh.model import FINAL
from pytest_agentmesh.history import History
from tests.support.boards import rows, violations
from tests.support.patience import PATIENCE_SEC, until
from tests.support.processes import Worker
from tests.swarm.soak import journal
from tests.swarm.soak.account import Account, end_states, lost
from tests.swarm.soak.calls import DONE, FAILED, UNKNOWN, attempt
from tests.swarm.soak.mix import Mix, Place

SAMPLE = 20
"""How many acknowledged calls of a phase are repeated."""
PHASES_OF_A_BOARD = 10
"""After this many a new board is made: the whole history of a board is looked at after each."""
ANSWERED_ANEW = ("claim_task", "resume", "clear_budget", "delete", "set_budget")
"""A repeated claim tells what is held now, a set budget how it stands now (`not_found` once it was cleared), and of the
others "nothing to do" is not kept."""


class Broken(Exception):
    """A promise that was not kept; it names the step."""


class Limit:
    """Stops a campaign: after some strikes, or when its time is over."""

    def __init__(self, count, minutes=60.0):
        self.count = count
        self.struck = 0
        self._end = time.monotonic() + minutes * 60

    @property
    def over(self):
        """Whether it is enough."""
        return self.struck >= self.count or time.monotonic() > self._end


class Hired(Worker):
    """A worker with a journal."""

    def __init__(self, act, place, *args):
        super().__init__(act, place, *args)
        self._journal = place.journal

    def written(self):
        """How long its journal is."""
        return self._journal.stat().st_size if self._journal.exists() else 0


class Campaign:
    """A board in a folder of its own, one phase after another."""

    def __init__(self, folder, seed, clock=None, **place):
        self.folder = Path(folder)
        self.seed = seed
        self.clock = clock
        self.chance = random.Random(seed)
        self.phase = -1
        self.calls = 0
        self._place = place
        self._left = contextlib.ExitStack()
        self._ended = {}
        self._numbers = 0
        self.board = self.path = self.bystander = self._door = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._left.close()

    def open_phase(self):
        """Begin a plan, on a new board now and then."""
        self.phase += 1
        self._numbers = 0
        if self.phase % PHASES_OF_A_BOARD == 0:
            self._left.close()
            self._ended = {}
            self.path = self.folder / f"board-{self.phase}" / "board.db"
            self.path.parent.mkdir(parents=True)
            self.board = self._left.enter_context(Board.open(self.path, durability="normal", clock=self.clock))
            self.bystander = Worker(_write_when_told, self.path, self.clock)
            self._left.callback(_dismiss, self.bystander)
            self._door = self._left.enter_context(self.path.with_name("board.db.gate").open("r+b"))

    def hire(self, act, *args):
        """A worker that runs `act(line, place, *args)`."""
        self._numbers += 1
        place = Place(self.path, self.clock, self.seed, self.phase, self._numbers, **self._place)
        return Hired(act, place, *args)

    def outsider_writes(self, step):
        """The process that has the board open all along writes, within its patience."""
        self.bystander.tell(step)
        if (answer := self.bystander.hear()) != "written":
            raise Broken(f"{step}: a process that has the board open cannot write: {answer}")

    def gate_is_let_go(self, step):
        """The gate is free, at the latest when the slice of the process that had it last is over."""
        try:
            until(self._gate_is_free)
        except AssertionError:
            raise Broken(f"{step}: the gate stays taken") from None

    def _gate_is_free(self):
        try:
            fcntl.flock(self._door, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        fcntl.flock(self._door, fcntl.LOCK_UN)
        return True

    def newcomer_writes(self, step):
        """A new process opens the board and writes."""
        newcomer = Worker(_open_and_write, self.path, self.clock, step)
        if (answer := newcomer.hear()) != "written":
            raise Broken(f"{step}: a new process cannot write: {answer}")
        if newcomer.end():
            raise Broken(f"{step}: a new process cannot close the board")

    def reconcile(self, *, repeat=True, failures=False):
        """All workers have ended: the calls in flight are repeated, and the board is compared with the account.

        Args:
            repeat: whether acknowledged calls are repeated, which the board remembers for a day.
            failures: whether calls may have failed in the store.
        """
        step = f"phase {self.phase}"
        self.outsider_writes(f"{step}, reconciling")
        self.newcomer_writes(f"{step}, reconciling")
        account, said = Account(f"p{self.phase}"), self._read()
        for one in said:
            self.calls += len(one.calls)
            if not failures and (wrong := journal.wrong(one)):
                raise Broken(f"{step}: calls of {one.agent} failed: {wrong[:3]}")
            for call, answer in journal.acknowledged(one):
                account.add(one.agent, call, answer)
        for one in said:
            if one.unsettled:
                self._repeat_unsettled(account, one, step)
        if found := account.differences(self.board) + lost(self.board, self._ended):
            raise Broken(f"{step}: " + "; ".join(found[:10]))
        if repeat:
            self._repeat_some(said, step)
        self._check(step)
        self._close_phase()

    def _read(self):
        return [journal.read(file) for file in sorted(self.path.parent.glob(f"w{self.phase}-*.journal"))]

    def _repeat_unsettled(self, account, said, step):
        call = said.unsettled
        outcome = attempt(self.board, call)
        if outcome.how == DONE:
            account.add(said.agent, call, outcome.answer)
            if call.args.get("request_id"):
                self._repeat(call, outcome.answer, f"{step}, {said.agent}, in flight")
        if call.verb == "claim_task" and not outcome.answer:
            account.maybe[said.agent] += 1

    def _repeat_some(self, said, step):
        """Acknowledged calls give their answers again, and have no effect; the last ones of each worker and a few."""
        tokens = {
            (answer[0], answer[1].partition(".")[0]): answer[1]
            for one in said
            for call, answer in journal.acknowledged(one)
            if call.verb == "claim_task" and answer
        }
        done = [(one.agent, call, answer) for one in said for call, answer in journal.acknowledged(one)]
        last = [(one.agent, *journal.acknowledged(one)[-1]) for one in said if journal.acknowledged(one)]
        for agent, call, answer in last + self.chance.sample(done, min(SAMPLE, len(done))):
            lease = call.args.get("lease")
            current = lease is None or tokens.get((lease[0], lease[1].partition(".")[0]), lease[1]) == lease[1]
            if (
                call.args.get("request_id")
                and call.verb not in ANSWERED_ANEW
                and current
                and "ttl_sec" not in call.args
            ):
                self._repeat(call, answer, f"{step}, {agent}")

    def _repeat(self, call, answer, step):
        before = self.board.status().last_seq
        again = attempt(self.board, call)
        if call.verb not in ANSWERED_ANEW and (again.how, again.answer) != (DONE, answer):
            raise Broken(f"{step}: {call} gave {answer}, and when repeated {again}")
        if call.verb not in ANSWERED_ANEW and self.board.status().last_seq != before:
            raise Broken(f"{step}: {call} had an effect once more when it was repeated")

    def _check(self, step):
        if found := violations(self.board):
            raise Broken(f"{step}: check() finds {found}")
        try:
            History(self.board).check()
        except AssertionError as error:
            raise Broken(f"{step}: the history is not as promised: {error}") from error
        if (integrity := rows(self.board, "PRAGMA integrity_check")) != [("ok",)]:
            raise Broken(f"{step}: SQLite finds {integrity[:3]}")

    def _close_phase(self):
        """Cancel what is left; the next phase prunes some of it, and what it prunes must have ended as it did."""
        plan = f"p{self.phase}"
        if any(listed.plan == plan for listed in self.board.status().plans):
            self.board.cancel_plan(plan)
        self._ended = end_states(self.board, plan)
        assert set(self._ended.values()) <= FINAL
        for pause in self.board.status().pauses:
            self.board.resume(agent=pause.name)


def work(line, place):
    """A worker: it makes calls until it is told to stop."""
    mix, log = Mix(place), journal.Journal(place.journal)
    with Board.open(place.path, create=False, durability="normal", clock=place.clock) as board:
        while not line.poll():
            make_a_call(board, mix, log)
    log.close()


def make_a_call(board, mix, log, *, again=0):
    """The next call of a mix, written down before and after; while its outcome is unknown, repeated `again` times."""
    call = mix.next()
    log.calling(call)
    began = time.monotonic()
    outcome = attempt(board, call)
    while outcome.how == UNKNOWN and again and call.args.get("request_id"):
        repeated, again = attempt(board, call), again - 1
        if repeated.how != FAILED:  # that says nothing of the first time
            outcome = repeated
    if time.monotonic() - began > call.args.get("wait_sec", 0) + PATIENCE_SEC:
        raise Broken(f"{call} took {time.monotonic() - began:.0f} s")
    log.ended(call, outcome)
    mix.learn(call, outcome)
    return outcome


def rest(workers):
    """Tell workers to stop after the call they are in, and wait for their ends."""
    for worker in workers:
        worker.tell("stop")
    for worker in workers:
        if words := worker.last_words():
            raise Broken(f"a worker says {words}")
        if code := worker.end():
            raise Broken(f"a worker ended with {code}")


def _write_when_told(line, path, clock):
    with Board.open(path, durability="normal", clock=clock) as board:
        for step in iter(line.recv, None):
            line.send(_write(board, step))


def _open_and_write(line, path, clock, step):
    with Board.open(path, create=False, durability="normal", clock=clock) as board:
        line.send(_write(board, step))


def _write(board, step):
    try:
        board.blackboard.put("outside", "step", step, agent_id="outsider")
    except Busy as busy:
        return str(busy)
    return "written"


def _dismiss(bystander):
    bystander.tell(None)
    bystander.end()
