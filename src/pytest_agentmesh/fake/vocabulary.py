"""What software teams give to LLM agents, as tables: projects, work, faults, models, and the words for them.

In a text, `{component}` is a part of a product, `{module}` a part of it, `{language}` what it is written in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Layout:
    """Where projects in one language keep the files of a component, and how they test it."""

    language: str
    places: Mapping[str, str]
    command: str
    libraries: tuple[str, ...]


LAYOUTS: Final = (
    Layout(
        "python",
        {
            "source": "src/{component}/{module}.py",
            "tree": "src/{component}/**",
            "tests": "tests/{component}/test_{module}.py",
            "all_tests": "tests/{component}/test_*.py",
            "fixtures": "tests/{component}/fixtures/*.json",
            "schema": "migrations/{component}/{module}.sql",
            "manifest": "src/{component}/pyproject.toml",
            "design": "docs/{component}/design/{module}.md",
            "docs": "docs/{component}/{module}.md",
            "review": "docs/{component}/reviews/{module}.md",
            "changes": "changelog.d/{component}/{module}.md",
        },
        "pytest tests/{component}",
        ("pydantic", "httpx", "SQLAlchemy", "FastAPI", "celery", "boto3", "cryptography", "Django"),
    ),
    Layout(
        "typescript",
        {
            "source": "packages/{component}/src/{module}.ts",
            "tree": "packages/{component}/src/**",
            "tests": "packages/{component}/test/{module}.test.ts",
            "all_tests": "packages/{component}/test/*.test.ts",
            "fixtures": "packages/{component}/test/fixtures/",
            "schema": "packages/{component}/prisma/{module}.prisma",
            "manifest": "packages/{component}/package.json",
            "design": "packages/{component}/docs/design/{module}.md",
            "docs": "packages/{component}/docs/{module}.md",
            "review": "packages/{component}/docs/reviews/{module}.md",
            "changes": "packages/{component}/.changes/{module}.md",
        },
        "pnpm --filter {component} test",
        ("React", "zod", "Next.js", "axios", "Prisma", "vitest", "tRPC", "Express"),
    ),
    Layout(
        "go",
        {
            "source": "internal/{component}/{module}.go",
            "tree": "internal/{component}/**",
            "tests": "internal/{component}/{module}_test.go",
            "all_tests": "internal/{component}/*_test.go",
            "fixtures": "internal/{component}/testdata/**",
            "schema": "db/{component}/{module}.sql",
            "manifest": "internal/{component}/go.mod",
            "design": "docs/{component}/design/{module}.md",
            "docs": "docs/{component}/{module}.md",
            "review": "docs/{component}/reviews/{module}.md",
            "changes": "changes/{component}/{module}.md",
        },
        "go test ./internal/{component}/...",
        ("grpc-go", "pgx", "chi", "zap", "testify", "sarama", "viper", "otel"),
    ),
)

COMPONENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "accounts": ("signup", "profile", "deletion", "preferences", "avatars"),
    "auth": ("login", "tokens", "sessions", "passkeys", "permissions"),
    "billing": ("invoices", "subscriptions", "credits", "taxes", "dunning"),
    "cart": ("items", "discounts", "stock", "totals", "merge"),
    "catalog": ("products", "categories", "prices", "images", "variants"),
    "chat": ("messages", "channels", "presence", "mentions", "uploads"),
    "checkout": ("address", "shipping", "payment", "summary", "confirmation"),
    "dashboard": ("charts", "filters", "widgets", "layout", "sharing"),
    "email": ("templates", "bounces", "digests", "unsubscribe", "delivery"),
    "exports": ("csv", "pdf", "schedule", "columns", "archive"),
    "gateway": ("routing", "limits", "cache", "headers", "health"),
    "imports": ("parser", "mapping", "preview", "rollback", "duplicates"),
    "ingest": ("consumer", "batches", "schema", "backfill", "dedup"),
    "inventory": ("warehouses", "reservations", "counts", "transfers", "alerts"),
    "jobs": ("scheduler", "retries", "queue", "workers", "locks"),
    "notifications": ("push", "inbox", "rules", "sms", "quiet_hours"),
    "orders": ("returns", "status", "history", "splitting", "cancellation"),
    "payments": ("webhook", "refunds", "cards", "disputes", "payouts"),
    "reports": ("queries", "pivots", "totals", "formats", "snapshots"),
    "search": ("index", "ranking", "synonyms", "suggest", "facets"),
    "storage": ("upload", "thumbnails", "retention", "quota", "links"),
    "support": ("tickets", "macros", "assignment", "surveys", "escalation"),
    "tenants": ("provisioning", "isolation", "limits", "domains", "migration"),
    "webhooks": ("signing", "delivery", "replay", "secrets", "log"),
}


@dataclass(frozen=True, slots=True)
class Work:
    """A kind of single task: how it is called, whom it needs, what it touches, what it is worth and when it is done.

    `places` and `reads` name places of a layout; `priorities` and `cents` are ranges.
    """

    kind: str
    titles: tuple[str, ...]
    requires: tuple[str, ...]
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    priorities: tuple[int, int]
    cents: tuple[int, int]
    done: tuple[str, ...]


WORKS: Final = (
    Work(
        "bug",
        ("Fix {symptom} in {component} {module}", "Find the cause of {symptom} in {component} {module}"),
        ("{language}",),
        ("source", "tests"),
        ("docs",),
        (4, 9),
        (10, 150),
        (
            "A test fails without the fix and passes with it",
            "The fix changes no public signature",
            "The cause is named in the commit message",
            "No retry, sleep or broad exception handler hides the symptom",
        ),
    ),
    Work(
        "feature",
        ("Add {addition} to {component} {module}", "Let users of {component} {module} have {addition}"),
        ("{language}",),
        ("source", "tests", "docs"),
        ("manifest",),
        (2, 7),
        (30, 400),
        (
            "Old clients work unchanged",
            "The behaviour is documented with an example",
            "Errors name the field and the limit",
            "It can be switched off by configuration",
        ),
    ),
    Work(
        "refactor",
        (
            "Split {module} out of {component}",
            "Remove dead code from {component} {module}",
            "Give {component} {module} strict types",
            "Replace globals in {component} {module} with arguments",
        ),
        ("{language}",),
        ("tree",),
        ("all_tests",),
        (0, 4),
        (20, 300),
        (
            "No test is changed",
            "No function is longer than 40 lines",
            "The public interface stays as it is",
            "The type checker is silent",
        ),
    ),
    Work(
        "tests",
        (
            "Cover {component} {module} with property tests",
            "Write regression tests for {symptom} in {component} {module}",
            "Make the tests of {component} {module} run in parallel",
        ),
        ("testing", "{language}"),
        ("tests", "fixtures"),
        ("source",),
        (1, 6),
        (10, 120),
        (
            "Each test fails when its subject is broken",
            "No test waits by the wall clock",
            "The tests pass in random order",
            "Branch coverage of the module is at least 90 %",
        ),
    ),
    Work(
        "docs",
        ("Document {component} {module}", "Write a runbook for {symptom} in {component} {module}"),
        ("docs",),
        ("docs",),
        ("source",),
        (0, 3),
        (5, 60),
        (
            "Every example runs",
            "A newcomer can follow it without asking",
            "Limits and error codes are listed",
            "Links lead somewhere",
        ),
    ),
    Work(
        "upgrade",
        ("Upgrade {library} in {component}", "Drop the pin on {library} in {component}"),
        ("{language}",),
        ("manifest",),
        ("tree",),
        (1, 5),
        (5, 90),
        (
            "The lock file resolves",
            "No deprecation warning is left",
            "The licence is still allowed",
            "The changelog of the library was read for breaking changes",
        ),
    ),
    Work(
        "security",
        ("Stop {component} {module} from leaking {secret}", "Validate the input of {component} {module}"),
        ("security", "{language}"),
        ("source", "tests"),
        ("docs",),
        (6, 10),
        (20, 250),
        (
            "A test replays the report",
            "Nothing sensitive is in logs or error messages",
            "The limit is enforced on the server",
            "Two people have read the change",
        ),
    ),
    Work(
        "speed",
        ("Halve the p99 latency of {component} {module}", "Remove the N+1 queries from {component} {module}"),
        ("{language}",),
        ("source",),
        ("tests",),
        (2, 6),
        (20, 300),
        (
            "A benchmark shows the gain",
            "Memory use does not grow",
            "Results are the same as before, byte for byte",
            "The query plan is in the description of the change",
        ),
    ),
)

SYMPTOMS: Final = (
    "a flaky retry",
    "a memory leak",
    "a race between two workers",
    "a deadlock under load",
    "an off-by-one in paging",
    "a stale cache",
    "duplicate rows",
    "a time zone drift",
    "a silent timeout",
    "lost updates",
    "a rounding error",
    "an unclosed connection",
    "a swallowed exception",
    "garbled umlauts",
    "a wrong sort order",
    "an endless redirect",
    "a 500 on empty input",
    "double submission",
    "a broken rollback",
    "a slow cold start",
)
ADDITIONS: Final = (
    "pagination",
    "an audit trail",
    "a dry run",
    "bulk actions",
    "rate limits",
    "soft deletion",
    "idempotency keys",
    "structured logs",
    "a health check",
    "keyboard shortcuts",
    "a retry policy",
    "OpenTelemetry spans",
    "a dark theme",
    "full-text filters",
    "optimistic locking",
    "localised messages",
)
SECRETS: Final = (
    "API keys",
    "session tokens",
    "e-mail addresses",
    "card numbers",
    "internal host names",
    "stack traces",
)

ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "coder": ("go", "python", "sql", "typescript"),
    "tester": ("go", "python", "testing", "typescript"),
    "reviewer": ("go", "python", "review", "security", "typescript"),
    "writer": ("docs",),
    "planner": ("design", "docs"),
}
"""What an agent of each role can do; between them they can do every kind of work."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model that vendors sell. `cache_writes`: whether its vendor counts them; speed in tokens a second."""

    vendor: Literal["openai", "anthropic", "google"]
    tokens_per_sec: int
    cache_writes: bool = False


MODELS: Final[Mapping[str, Model]] = {
    "claude-haiku-4-5": Model("anthropic", 150, cache_writes=True),
    "claude-opus-4-1": Model("anthropic", 40, cache_writes=True),
    "claude-opus-4-5": Model("anthropic", 60, cache_writes=True),
    "claude-sonnet-4-5": Model("anthropic", 75, cache_writes=True),
    "gpt-4.1": Model("openai", 90),
    "gpt-4.1-mini": Model("openai", 110),
    "gpt-5": Model("openai", 70),
    "gpt-5-codex": Model("openai", 70),
    "gpt-5-mini": Model("openai", 120),
    "o4-mini": Model("openai", 130),
    "gemini-2.5-flash": Model("google", 200),
    "gemini-2.5-flash-lite": Model("google", 300),
    "gemini-2.5-pro": Model("google", 90),
}

ErrorKind = Literal["task", "infra", "quota"]
ERRORS: Final[Mapping[ErrorKind, tuple[str, ...]]] = {
    "task": (
        "{file}: {count} tests failed, {symptom} remains",
        "{file}: the patch does not apply to commit {commit}",
        "{file}: the type checker found {count} errors",
        "Stopped after {count} turns without progress on {file}",
        "The acceptance criteria contradict each other; asked {person} and got no answer",
    ),
    "infra": (
        "Connection to {host}:5432 was reset during a query",
        "No space left on {host} while cloning the repository",
        "The build container on {host} was evicted after {count} minutes",
        "TLS handshake with {host} timed out after {count} s",
    ),
    "quota": (
        "429 Too Many Requests from {model}; retry after {count} s",
        "The daily token limit of the organisation for {model} is used up",
        "402 Payment Required: the credit for {model} is used up",
    ),
}
NOTES: Final = (
    "Reproduced {symptom} in {file}; it needs {count} requests at once",
    "Half way: {file} is done, its tests are next",
    "Asked {person} whether {file} may change; went on with the rest",
    "Commit {commit} introduced it, see the change in {file}",
    "Tried to widen the lock first, which cost {count} % throughput; reverted",
    "The cause is not in {component}: it gets the wrong data from its caller",
)
SUMMARIES: Final = (
    "Removed {symptom} from {file}",
    "Rewrote {file}; {count} tests cover it now",
    "Found and fixed {symptom}, with a regression test",
    "{file} does what the acceptance criteria say; nothing else was touched",
)


def usd(cents: int) -> str:
    """An amount as a task's estimate is written: `1.05`."""
    return f"{cents // 100}.{cents % 100:02}"


def slug(text: str) -> str:
    """The ASCII letters and digits of a text in lower case, with hyphens between its words; 80 characters at most."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80].rstrip("-")
