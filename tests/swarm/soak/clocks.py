"""The wall clock of all processes jumps by up to days, on and back, between any two calls and during waits."""

import time

from tests.support.clock import SharedClock
from tests.support.patience import until
from tests.swarm.soak.campaign import Broken, Campaign, rest, work

WORKERS = 3
JUMPS_OF_A_PHASE = 20
JUMPS_SEC = (-3 * 86_400, -86_400, -3_600, -61, -1, 1, 61, 3_600, 86_400, 3 * 86_400)


class SteppedClock(SharedClock):
    """Goes on as the system's does, and is set by steps that all processes see."""

    def __reduce__(self):
        return SteppedClock, (self._path,)

    def now_us(self):
        """Microseconds since the Unix epoch, UTC."""
        return self._cell[0] + time.monotonic_ns() // 1000


def run(folder, limit, seed, report):
    """The campaign: jumps until the limit."""
    clock = SteppedClock(folder / "steps")
    with Campaign(folder, seed, clock, waits_sec=(0, 0, 0.02, 0.3)) as campaign:
        while not limit.over:
            campaign.open_phase()
            workers = [campaign.hire(work) for _ in range(WORKERS)]
            for _ in range(JUMPS_OF_A_PHASE):
                if limit.over:
                    break
                _jump_after_some_calls(campaign, clock, workers)
                limit.struck += 1
                campaign.outsider_writes(f"phase {campaign.phase}, jump {limit.struck}")
            rest(workers)
            campaign.reconcile(repeat=False)
            report(f"{campaign.calls} calls")


def _jump_after_some_calls(campaign, clock, workers):
    worker = campaign.chance.choice(workers)
    wanted = worker.written() + campaign.chance.randrange(4_000)
    until(lambda: worker.written() >= wanted or not worker.process.is_alive())
    if not worker.process.is_alive():
        raise Broken(f"a worker ended by itself: {worker.last_words()}")
    clock.advance(campaign.chance.choice(JUMPS_SEC) * campaign.chance.random())
