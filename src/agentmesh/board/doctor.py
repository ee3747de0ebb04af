"""The health of a board: what the engine sees of it, and how much there is of everything."""

from __future__ import annotations

import os

from agentmesh.errors import StoreError
from agentmesh.loading import loading
from agentmesh.model import STATES
from agentmesh.rules import STEP_US
from agentmesh.store.base import Store, StoreOptions, Transaction
from agentmesh.store.connect import examine
from agentmesh.store.observations import judged, trouble
from agentmesh.upkeep import Observation

DISTRIBUTION = "pytest-agentmesh"


def of_board(store: Store, *, deep: bool) -> list[Observation]:
    """An open board; what cannot be read of it is an error among the observations."""
    found = [_version(), *store.examine(deep=deep)]
    if any(seen.name == "schema" and seen.verdict != "ok" for seen in found):
        return found  # the tables of an older board are not those that are counted below
    try:
        return found + store.read(_contents)
    except StoreError as error:
        return [*found, trouble(error)]


def of_stranger(target: str | os.PathLike[str], options: StoreOptions, error: StoreError) -> list[Observation]:
    """A file that could not be opened as a board."""
    return [_version(), *examine(target, options), trouble(error)]


def _version() -> Observation:
    with loading():
        from importlib import metadata  # noqa: PLC0415 - it costs more than all else that a short command imports

    try:
        return Observation("agentmesh", metadata.version(DISTRIBUTION))
    except metadata.PackageNotFoundError:
        return Observation("agentmesh", "not installed as a package")


def _contents(tx: Transaction) -> list[Observation]:
    board = tx.fetch_one("fact", key="board_id") or {}
    tasks = tx.fetch_one("tally_totals") or {}
    attempts = tx.fetch_one("count_attempts") or {}
    due = tx.fetch_one("count_due", now_us=tx.now) or {}
    entries = tx.fetch_one("count_entries", now_us=tx.now) or {}
    kept = tx.fetch_one("count_kept") or {}
    bounds = tx.fetch_one("event_bounds") or {}
    oldest = tx.fetch_all("events_after", after=0, most=1)
    return [
        Observation("board_id", board["value"]),
        Observation("tasks", sum(tasks[state] or 0 for state in STATES)),
        Observation("attempts", attempts["attempts"]),
        Observation("open_leases", attempts["open"]),
        Observation("due_leases", due["due"]),
        Observation("events", bounds["last"] - bounds["first"] + 1 if oldest else 0),
        *(Observation("oldest_event_us", event["at_us"]) for event in oldest),
        *([_newest(tx)] if oldest else []),
        Observation("entries", entries["entries"]),
        Observation("expired_entries", entries["expired"]),
        Observation("entry_tombstones", entries["tombstones"]),
        *(Observation(name, kept[name]) for name in ("task_tombstones", "usage_entries", "requests")),
    ]


def _newest(tx: Transaction) -> Observation:
    """The latest instant on the board, which no clock is behind unless it was set back, or ahead before."""
    newest_us = (tx.fetch_one("newest_instant") or {})["at_us"]
    behind_us = newest_us - tx.now
    hint = (
        f"The clock is {behind_us / 1_000_000:,.0f} s behind the board: it was set back, or was ahead before. Until it "
        "has caught up, leases of dead agents, retry delays and TTLs from before last so much longer; "
        "`agentmesh why` names the tasks. Set the clock right."
    )
    return judged("newest_event_us", newest_us, behind_us < STEP_US, hint, else_="warning")
