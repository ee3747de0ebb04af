"""Workers are killed at random instants; a call in flight is there wholly or not at all, every other one is there."""

import multiprocessing.connection
import signal

from tests.support.patience import until
from tests.swarm.soak.campaign import Broken, Campaign, rest, work

WORKERS = 3
KILLS_OF_A_PHASE = 25
LATEST_SEC = 0.004
"""Within this time after some call of the victim the kill strikes; a call takes about a tenth of it."""


def run(folder, limit, seed, report):
    """The campaign: kills until the limit."""
    with Campaign(folder, seed) as campaign:
        while not limit.over:
            campaign.open_phase()
            workers = [campaign.hire(work) for _ in range(WORKERS)]
            for _ in range(KILLS_OF_A_PHASE):
                if limit.over:
                    break
                victim = workers.pop(campaign.chance.randrange(len(workers)))
                _kill(campaign, victim)
                limit.struck += 1
                campaign.outsider_writes(f"phase {campaign.phase}, kill {limit.struck}")
                workers.append(campaign.hire(work))
            rest(workers)
            campaign.reconcile()
            report(f"{campaign.calls} calls")


def _kill(campaign, victim):
    """Let it make some calls, then kill it within one of the next."""
    wanted = victim.written() + campaign.chance.randrange(4_000)
    until(lambda: victim.written() >= wanted or not victim.process.is_alive())
    multiprocessing.connection.wait([victim.process.sentinel], campaign.chance.random() * LATEST_SEC)
    victim.process.kill()
    words = victim.last_words()
    if victim.end() != -signal.SIGKILL:
        raise Broken(f"a worker ended by itself: {words}")
