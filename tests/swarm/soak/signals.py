"""A signal handler raises at a random instant of each call, and the process goes on with the same board object.

Every strike is followed by the same call with the same `request_id`, and by a write of another process: nothing may
stay taken, and the call has its effect once.
"""

import random
import signal

from agentmesh import Board
from tests.swarm.soak import journal
from tests.swarm.soak.calls import FAILED, UNKNOWN, attempt
from tests.swarm.soak.campaign import Broken, Campaign
from tests.swarm.soak.mix import Mix

STRIKES_OF_A_PHASE = 140
CALLS_OF_A_BOARD = 25
"""Then the victim closes it and opens it again, which may be struck as well."""


class Strike(BaseException):
    """What a handler raises that nothing may catch."""


class Late(Exception):
    """What a time limit raises."""


RAISED = (Strike, Late, KeyboardInterrupt)


class Striker:
    """Raises once, at a random instant of a block: its delay is a random part of what such blocks lasted lately."""

    def __init__(self, chance):
        self._chance = chance
        self._armed = False
        self._longest = {}
        self.struck = 0
        signal.signal(signal.SIGALRM, self._strike)

    def during(self, what, act):
        """Run `act`, struck if the instant lies within it; its answer and whether it was struck."""
        delay = self._chance.random() * self._longest.get(what, 0.001)
        try:
            self._armed = True
            signal.setitimer(signal.ITIMER_REAL, max(delay, 0.000_001))
            answer = act()
            self._armed = False
        except RAISED:
            self._longest[what] = max(self._longest.get(what, 0.001) * 0.9, 0.000_05)
            self.struck += 1
            return None, True
        finally:
            self._armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
        self._longest[what] = min(self._longest.get(what, 0.001) * 1.2, 0.1)
        return answer, False

    def _strike(self, *_):
        if self._armed:
            self._armed = False
            raise self._chance.choice(RAISED)


def run(folder, limit, seed, report):
    """The campaign: strikes until the limit."""
    with Campaign(folder, seed, leases_sec=(60,)) as campaign:
        while not limit.over:
            campaign.open_phase()
            most = min(STRIKES_OF_A_PHASE, limit.count - limit.struck)
            victim = campaign.hire(_be_struck, most)
            while (word := victim.hear()) != "done":
                limit.struck += 1
                step = f"phase {campaign.phase}, strike {limit.struck} during {word}"
                campaign.gate_is_let_go(step)
                campaign.outsider_writes(step)
                victim.tell("go on")
            if code := victim.end():
                raise Broken(f"phase {campaign.phase}: the victim ended with {code}")
            campaign.reconcile()
            report(f"{campaign.calls} calls")


def _be_struck(line, place, most):
    mix, log = Mix(place), journal.Journal(place.journal)
    striker = Striker(random.Random(f"{place.seed}-{place.phase}"))

    def during(what, act):
        if striker.struck >= most:
            return act(), False
        answer, struck = striker.during(what, act)
        if struck:
            line.send(what)
            line.recv()
        return answer, struck

    def opened():
        return Board.open(place.path, create=False, durability="normal", clock=place.clock)

    while striker.struck < most:
        board, struck = during("open", opened)
        if struck:
            board = opened()
        for _ in range(CALLS_OF_A_BOARD):
            _call(board, mix, log, during)
        during("close", board.close)
        board.close()
    log.close()
    line.send("done")


def _call(board, mix, log, during):
    """Make a call that may be struck, and if it was, make it again."""
    call = mix.next()
    log.calling(call)
    outcome, struck = during(call.verb, lambda: attempt(board, call))
    if struck:
        outcome = attempt(board, call)
    if outcome.how in (FAILED, UNKNOWN):
        raise Broken(f"{call}, {'after a strike' if struck else 'without a strike'}: {outcome}")
    log.ended(call, outcome)
    mix.learn(call, outcome)
