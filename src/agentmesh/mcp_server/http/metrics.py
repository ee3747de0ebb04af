"""What /metrics tells: the calls of this server, and the board as it is at that moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agentmesh.board.facade import Board
from agentmesh.limits import PUSD
from agentmesh.mcp_server import about
from agentmesh.mcp_server.protocol import Message

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
TOKENS: Final = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens")


class BoardCollector(Collector):
    """The board's own figures, read anew for each scrape."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def collect(self) -> Iterator[Metric]:
        """Read them."""
        status = self._board.status()
        tasks = GaugeMetricFamily("agentmesh_tasks", "Tasks by state.", labels=["state"])
        for state, count in status.counts.items():
            tasks.add_metric([state], count)
        yield tasks
        yield GaugeMetricFamily("agentmesh_leases", "Attempts under way.", status.counts["in_progress"])
        yield GaugeMetricFamily("agentmesh_leases_due", "Of these, those whose lease ran out.", status.leases_due)
        yield CounterMetricFamily("agentmesh_events", "Events in the board's history.", status.last_seq)
        used = self._board.ledger.report(limit=1).total
        yield CounterMetricFamily("agentmesh_cost_usd", "Cost of all recorded usage.", used.cost_pusd / PUSD)
        yield CounterMetricFamily("agentmesh_wasted_usd", "Of this, by attempts that failed.", used.wasted_pusd / PUSD)
        yield CounterMetricFamily("agentmesh_unpriced_entries", "Usage entries without a price.", used.unpriced)
        tokens = CounterMetricFamily("agentmesh_tokens", "Tokens of all recorded usage.", labels=["kind"])
        for name in TOKENS:
            tokens.add_metric([name.removesuffix("_tokens")], getattr(used, name))
        yield tokens


class Metrics:
    """A registry of its own: what else runs in the process does not show."""

    def __init__(self, board: Board) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self._calls = Counter(
            "agentmesh_calls",
            "Calls of tools; `outcome` is ok, cancelled, or the code of an error.",
            ["tool", "outcome"],
            registry=registry,
        )
        self._seconds = Histogram(
            "agentmesh_call_seconds",
            "How long calls took; `waits` are those with wait_sec.",
            ["tool", "waits"],
            registry=registry,
            buckets=BUCKETS,
        )
        self._claims = Counter("agentmesh_claims", "Claims by what they gave.", ["gave"], registry=registry)
        self._refused = Counter("agentmesh_http_refused", "HTTP requests turned away.", ["code"], registry=registry)
        Info("agentmesh_build", "Which AgentMesh this is.", registry=registry).info({"version": about.VERSION})
        registry.register(BoardCollector(board))

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Show a figure that is asked for at each scrape."""
        Gauge(name, about, registry=self._registry).set_function(value)

    def called(self, tool: str, result: Message | None, seconds: float, waits: bool) -> None:  # noqa: FBT001 - `Observe` has it
        """Count a call; None is the result of one that was cancelled."""
        document = result["structuredContent"] if result is not None else {}
        outcome = "cancelled" if result is None else document["code"] if result["isError"] else "ok"
        self._calls.labels(tool, outcome).inc()
        self._seconds.labels(tool, str(waits).lower()).observe(seconds)
        if tool == "claim_task" and outcome == "ok":
            self._claims.labels("task" if document["claimed"] else "nothing").inc()

    def refused(self, code: str) -> None:
        """Count a request that was turned away."""
        self._refused.labels(code).inc()

    def text(self) -> bytes:
        """All figures, as Prometheus reads them."""
        return generate_latest(self._registry)
