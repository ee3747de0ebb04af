"""What a made-up plan tells: a feature on its way from design to release.

In a title, `{feature}` is what the plan builds, `{aspect}` a part of it, `{component}` where it belongs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FEATURES: Final = (
    "address validation",
    "audit trail",
    "bulk import",
    "CSV export",
    "custom domains",
    "data retention",
    "email digests",
    "feature flags",
    "full-text search",
    "gift cards",
    "invoice PDFs",
    "live collaboration",
    "multi-currency prices",
    "offline mode",
    "passkey login",
    "price alerts",
    "saved searches",
    "session revocation",
    "single sign-on",
    "soft deletion",
    "team invitations",
    "two-factor login",
    "usage limits",
    "webhook retries",
)


@dataclass(frozen=True, slots=True)
class Phase:
    """A step on a feature's way. `whole` is its title where it is one task, `part` where several share it."""

    name: str
    whole: str
    part: str
    place: str
    done: tuple[str, ...]


PHASES: Final = (
    Phase(
        "design",
        "Design {feature} for {component}",
        "Design the {aspect} of {feature} for {component}",
        "design",
        ("Open questions are answered or listed", "Two alternatives are weighed", "The limits are given as numbers"),
    ),
    Phase(
        "schema",
        "Write the tables for {feature} in {component}",
        "Write the tables for the {aspect} of {feature} in {component}",
        "schema",
        ("The migration runs twice without harm", "It can be rolled back", "Each query has its index"),
    ),
    Phase(
        "api",
        "Build the API of {feature} in {component}",
        "Build the {aspect} of {feature} in {component}",
        "source",
        ("The contract of the design is kept", "Errors have a code and a sentence", "Old clients work unchanged"),
    ),
    Phase(
        "tests",
        "Test {feature} in {component} from end to end",
        "Test the {aspect} of {feature} in {component}",
        "tests",
        ("Each promise of the design has a test", "No test waits by the wall clock", "Failure paths are covered"),
    ),
    Phase(
        "review",
        "Review {feature} in {component}",
        "Review the {aspect} of {feature} in {component}",
        "review",
        ("Each finding names a file and a line", "Security and limits are looked at", "The verdict is one word"),
    ),
    Phase(
        "release",
        "Release {feature} in {component}",
        "Release the {aspect} of {feature} in {component}",
        "changes",
        ("The changelog says it in the user's words", "It can be switched off", "The dashboard is green for an hour"),
    ),
)
ASPECTS: Final = (
    "access rules",
    "admin page",
    "archive",
    "audit log",
    "background jobs",
    "bulk edits",
    "caching",
    "confirmation mail",
    "data import",
    "empty state",
    "error pages",
    "file upload",
    "filters",
    "help texts",
    "history view",
    "input checks",
    "list view",
    "metrics",
    "mobile view",
    "notifications",
    "paging",
    "permissions",
    "public links",
    "quotas",
    "rate limits",
    "retries",
    "search box",
    "settings page",
    "sorting",
    "time zones",
    "tracing",
    "undo",
)
