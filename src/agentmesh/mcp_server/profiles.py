"""The roles of sessions. A profile lists what its role needs; what it does not list is not there at all.

So an agent does not pay for tools it never uses, and what could do harm in a role is not refused, but unknown.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, get_args

Profile = Literal["worker", "lead", "observer", "all"]
PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)
DEFAULT: Final[Profile] = "all"
"""For a session that was given none: what a client's configuration does not restrict is not restricted."""

WORKER: Final[tuple[Profile, ...]] = ("worker",)
LEAD: Final[tuple[Profile, ...]] = ("lead",)
HANDS: Final[tuple[Profile, ...]] = ("worker", "lead")
EYES: Final[tuple[Profile, ...]] = ("lead", "observer")
EVERY: Final[tuple[Profile, ...]] = ("worker", "lead", "observer")

ADOPTING: Final[frozenset[Profile]] = frozenset({"worker"})
"""Profiles whose session, if it was given no agent, speaks for the one that its first call names: its tools ask no
second time."""


def listed(among: Collection[Profile], profile: Profile) -> bool:
    """Whether a profile lists what is for these; `all` lists everything."""
    return profile == "all" or profile in among
