"""What /metrics tells."""

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.mcp_server.live import ACCEPT
from tests.support.boards import put

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text()


def samples(live):
    """All samples by name and labels."""
    text = live.client().ask("GET", "/metrics").body.decode()
    families = text_string_to_metric_families(text)
    return {(s.name, *sorted(s.labels.values())): s.value for family in families for s in family.samples}


def test_calls_are_counted_by_what_came_of_them(live):
    """By tool and outcome, with how long they took; claims also by what they gave."""
    put(live.board, "task")
    client = live.client()
    for _ in range(2):
        client.tool("claim_task", agent_id="ada")
    client.tool("heartbeat", agent_id="bob", task_id="task")
    found = samples(live)
    assert found["agentmesh_calls_total", "claim_task", "ok"] == 2
    assert found["agentmesh_calls_total", "heartbeat", "lease_unknown"] == 1
    assert found["agentmesh_call_seconds_count", "claim_task", "false"] == 2
    assert found["agentmesh_claims_total", "task"] == found["agentmesh_claims_total", "nothing"] == 1


def test_the_board_is_told_as_it_is(live, clock):
    """Tasks by state, leases, and what was spent."""
    put(live.board, "one", "two: one")
    live.client().tool("claim_task", agent_id="ada")
    live.client().tool("record_usage", agent_id="ada", model="claude-sonnet-4-5", input_tokens=1000, output_tokens=10)
    clock.advance(3600)
    found = samples(live)
    assert found["agentmesh_tasks", "in_progress"] == found["agentmesh_tasks", "blocked"] == 1
    assert found["agentmesh_leases",] == found["agentmesh_leases_due",] == 1
    assert found["agentmesh_tokens_total", "input"] == 1000
    assert found["agentmesh_cost_usd_total",] == 0.00315


def test_the_server_is_told_as_it_is(live):
    """Sessions, requests under way, and what was turned away."""
    client = live.client()
    client.greet()
    client.ask("POST", "/mcp", "{}", ACCEPT | {"Host": "evil.example"})
    found = samples(live)
    assert found["agentmesh_http_sessions",] == 1
    assert found["agentmesh_http_exchanges",] == 1
    assert found["agentmesh_http_refused_total", "wrong_host"] == 1


def test_no_name_comes_from_outside(live):
    """Neither unknown tools nor unknown paths make new series."""
    client = live.client()
    client.begin_tool("no_such_tool")
    assert "error" in client.end().message
    client.ask("GET", "/no/such/path")
    assert not [key for key in samples(live) if "no_such_tool" in key or "/no/such/path" in key]


def test_every_name_is_documented(live):
    """The page lists what there is, and nothing else."""
    live.client().tool("claim_task", agent_id="ada")
    live.client().ask("GET", "/no/such")
    told = {name for name, *_ in samples(live) if not name.endswith("_created")}  # when a counter began
    names = {re.sub(r"_(bucket|count|sum)$", "", name) for name in told}
    assert names == set(re.findall(r"^\| `(agentmesh_\w+)", PAGE, re.MULTILINE))
