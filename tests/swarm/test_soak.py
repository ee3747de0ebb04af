"""A slice of each campaign of `make soak`: strikes at random instants, and every promise is held."""

import pytest

from tests.support.patience import until
from tests.swarm.soak import clocks, faults, kills, shim, signals
from tests.swarm.soak.campaign import Broken, Campaign, Limit, rest, work

pytestmark = [pytest.mark.multiproc, pytest.mark.kill]


def strikes(campaign, tmp_path, count, seed=1):
    """Run a campaign; how many strikes there were."""
    report = []
    limit = Limit(count)
    assert campaign.run(tmp_path, limit, seed, report.append) is None
    assert report
    return limit.struck


def test_killed_workers_lose_nothing_that_was_acknowledged(tmp_path):
    """Each call that was in flight is there wholly or not at all, and repeating it gives its first answer (P5, P6)."""
    assert strikes(kills, tmp_path, 4) == 4


def test_a_handler_that_raises_takes_the_board_from_nobody(tmp_path):
    """After each strike another process writes, and the same board object goes on."""
    assert strikes(signals, tmp_path, 40) == 40


def test_a_clock_that_jumps_breaks_no_promise(tmp_path):
    """By up to three days, on and back, while workers call and wait."""
    assert strikes(clocks, tmp_path, 6) == 6


def test_a_call_whose_file_operation_fails_ends_as_it_says(tmp_path):
    """An unknown outcome is said to be unknown; every other error means that nothing happened."""
    assert strikes(shim, tmp_path, 4) >= 4


def test_a_system_call_that_fails_ends_a_call_as_it_says(tmp_path):
    """The same where the kernel's answer is replaced, on a machine with `strace`."""
    limit = Limit(3)
    reason = faults.run(tmp_path, limit, 1, lambda _: None)
    if reason:
        pytest.skip(reason)
    assert limit.struck >= 3


@pytest.mark.parametrize("lose", [True, False], ids=["lost", "made twice"])
def test_a_write_that_is_not_as_acknowledged_ends_a_campaign(tmp_path, lose):
    """What the worker wrote is changed behind its back."""
    with Campaign(tmp_path, 1) as campaign:
        campaign.open_phase()
        worker = campaign.hire(work)
        until(lambda: campaign.board.blackboard.get("p0", "sum"))
        rest([worker])
        if lose:
            campaign.board.blackboard.delete("p0", "sum")
        else:
            campaign.board.blackboard.increment("p0", "sum")
        with pytest.raises(Broken, match="sum: the board has"):
            campaign.reconcile()
