"""`make soak`: strikes against a real board, campaign by campaign, until one breaks a promise or all have passed."""

import argparse
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.support.processes import FORKS
from tests.swarm.soak import clocks, faults, kills, signals
from tests.swarm.soak.campaign import Limit

CAMPAIGNS = {
    "kills": (kills.run, 1_000, "SIGKILLs"),
    "signals": (signals.run, 2_800, "raised signals"),
    "faults": (faults.run, 500, "failing system calls"),
    "clocks": (clocks.run, 400, "clock jumps"),
}
"""Each with how many strikes a full run has, and what they are called."""


def main(arguments=None):
    """Run the campaigns that were asked for; 1 if one of them broke a promise."""
    asked = _parser().parse_args(arguments)
    FORKS.set_forkserver_preload(["tests.swarm.soak.clocks", "tests.swarm.soak.faults", "tests.swarm.soak.signals"])
    seed = random.SystemRandom().randrange(10**6) if asked.seed is None else asked.seed
    for name in asked.campaigns or CAMPAIGNS:
        if not _passes(name, seed, asked):
            return 1
    print(f"All promises were held. Seed: {seed}.")
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="python -m tests.swarm.soak", description=__doc__)
    parser.add_argument(
        "campaigns",
        nargs="*",
        type=_campaign,
        metavar="CAMPAIGN",
        help=f"{', '.join(CAMPAIGNS)}; by default all of them",
    )
    parser.add_argument("--count", type=int, help="strikes of each campaign; by default those of a full run")
    parser.add_argument("--seed", type=int, help="repeats a run, as far as processes can be made to repeat it")
    parser.add_argument("--minutes", type=float, default=20.0, help="the most that a campaign may take (20)")
    return parser


def _campaign(name):
    if name not in CAMPAIGNS:
        raise argparse.ArgumentTypeError(f"there is no campaign {name!r}")
    return name


def _passes(name, seed, asked):
    run, count, strikes = CAMPAIGNS[name]
    limit, began = Limit(asked.count or count, asked.minutes), time.monotonic()

    def report(more):
        line = f"{name}: {limit.struck} of {limit.count} {strikes}, {more}, {time.monotonic() - began:.0f} s"
        print(f"\r{line:<79}", end="" if sys.stdout.isatty() else "\n", flush=True)

    folder = Path(tempfile.mkdtemp(prefix=f"soak-{name}-"))
    try:
        reason = run(folder, limit, seed, report)
    except Exception as error:  # noqa: BLE001 - whatever broke, the run is to be repeated
        traceback.print_exc()
        print(f"\n{name}: BROKEN after {limit.struck} {strikes}: {error}")
        print(f"Repeat it with: make soak ARGS='{name} --seed {seed}'. The board is kept in {folder}.")
        return False
    shutil.rmtree(folder)
    if reason:
        print(f"{name}: left out, {reason}.")
    elif limit.struck < limit.count:
        print(f"\n{name}: the time was over after {limit.struck} of {limit.count} {strikes}.")
        return False
    else:
        print(f"\n{name}: {limit.struck} {strikes}, every promise held.")
    return True


if __name__ == "__main__":
    sys.exit(main())
