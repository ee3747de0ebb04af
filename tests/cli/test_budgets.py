"""Budgets and caps from a shell: set, seen, taken away, and what a claim says of them."""

import json
import re

import pytest

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def tight(call, board):
    """A plan whose budget is used up but for a little, and a task that is estimated at more."""
    board.create_task("t", id="t", plan="shop", estimate_usd="0.50")
    board.create_task("small", id="small", plan="shop", estimate_usd="0.05", estimate_tokens=100)
    board.budgets.set(plan="shop", usd="1", tokens=1_000)
    board.ledger.record("ann", task_id="t", input_tokens=10, cost_usd="0.85")
    return call


def test_a_budget_is_set_and_seen(call):
    """Of the board, an agent's day, a task; in USD, tokens or both."""
    call.json("add", "t", "--id", "t")
    whole = call.json("budget", "set", "--usd", "5.000000000001")
    assert (whole["scope"], whole["limit_usd"], whole["left_usd"]) == ("board", "5.000000000001", "5.000000000001")
    daily = call.json("budget", "set", "--agent", "ann", "--period", "day", "--tokens", "1000", "--strict")
    assert (daily["scope"], daily["name"], daily["period"], daily["strict"]) == ("agent", "ann", "day", True)
    assert call("budget", "set", "--task", "t", "--usd", "1", "--tokens", "9").stdout == (
        "Set. task t: 1.00 USD left, 9 tokens left\n"
    )
    assert [(b["scope"], b["period"]) for b in call.json("budget", "list")["budgets"]] == [
        ("agent", "day"),
        ("board", "lifetime"),
        ("task", "lifetime"),
    ]
    assert call("budget", "set", "--usd", "1", "-q").stdout == ""
    assert call("budget", "set", "--period", "day", "--usd", "1").stdout == "Set. the board, daily: 1.00 USD left\n"


def test_the_list_tells_how_each_stands(tight):
    """A row for each limit: spent, reserved, left, and a meter; less than nothing is left when it is over."""
    tight("claim", "small", "--agent", "ben")
    usd, tokens = tight("budget", "list").stdout.splitlines()[1:]
    assert usd.split() == ["plan", "shop", "1.00", "USD", "0.8500", "0.0500", "0.1000", "██████▒░", "85%"]
    assert tokens.split() == ["plan", "shop", "1.00k", "tokens", "10", "100", "890", "█░░░░░░░", "1%"]
    tight("ledger", "record", "--task", "small", "--agent", "ann", "--cost-usd", "1.5")
    assert " -1.3500 " in tight("budget", "list").stdout


def test_over_is_red_and_nearly_is_yellow(tight, terminal):
    """By what is spent."""
    terminal(100)
    assert re.search(r"\x1b\[33m█+░+ 85%", tight("budget", "list").stdout)
    tight("ledger", "record", "--task", "small", "--cost-usd", "1")
    assert "\x1b[1;31m-" in tight("budget", "list").stdout


def test_what_is_unpriced_is_told(tight):
    """As a number, and when a strict budget hands out nothing because of it."""
    tight("ledger", "record", "--task", "small", "--input-tokens", "1")
    usd, tokens = tight("budget", "list").stdout.splitlines()[1:]
    assert usd.endswith("1 unpriced")
    assert "unpriced" not in tokens
    shown = tight("budget", "set", "--plan", "shop", "--usd", "9", "--strict").stdout
    assert "strict, with 1 unpriced: hands out nothing" in shown
    assert "hands out nothing" in tight("budget", "list").stdout
    assert tight("claim", "--agent", "ben").exit_code == 3


def test_a_budget_is_taken_away(call):
    """Once; by its name and period."""
    call("budget", "set", "--agent", "=x", "--usd", "1")
    assert call.json("budget", "clear", "--agent", "=x", "--period", "day") == {"cleared": False}
    assert call("budget", "clear", "--agent", "=x").stdout == "Cleared.\n"
    assert call("budget", "clear", "--agent", "=x").stdout == "There is no such budget.\n"
    assert call("budget", "list").stdout == "There is no budget.\n"
    assert call.json("budget", "list") == {"budgets": []}


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["budget", "set"], 2),
        (["budget", "set", "--usd", "lots"], 2),
        (["budget", "set", "--usd", "-1"], 2),
        (["budget", "set", "--tokens", "1.5"], 2),
        (["budget", "set", "--usd", "1", "--plan", "p", "--agent", "a"], 2),
        (["budget", "set", "--usd", "1", "--plan", "nobody"], 5),
        (["budget", "set", "--usd", "1", "--task", "nobody"], 5),
        (["budget", "set", "--usd", "1", "--period", "week"], 2),
        (["budget", "clear", "--task", "a", "--plan", "b"], 2),
        (["cap", "set"], 2),
        (["cap", "set", "0"], 2),
        (["cap", "set", "x"], 2),
        (["cap", "set", "1", "--agent", "a b"], 2),
    ],
    ids=str,
)
def test_each_refusal_has_its_exit_code(call, args, code):
    """And one document on stderr."""
    result = call(*args, "--json")
    assert (result.exit_code, result.stdout) == (code, "")
    assert json.loads(result.stderr)["exit_code"] == code


def test_nobody_is_limited_by_the_environment(call):
    """AGENTMESH_AGENT says who acts, not whom a budget or a cap is of."""
    env = {"AGENTMESH_AGENT": "ann"}
    assert call.json("budget", "set", "--usd", "1", env=env)["scope"] == "board"
    assert call.json("cap", "set", "1", env=env) == {"most": 1}


def test_a_claim_tells_what_budgets_leave(tight):
    """After its own reservation."""
    shown = tight("claim", "--agent", "ben", "small").stdout
    assert re.search(r"^  budget +plan shop: 0.10 USD left, 890 tokens left$", shown, re.MULTILINE)


@pytest.mark.parametrize("args", [["claim", "t", "--agent", "ben"], ["claim", "--agent", "ben", "--plan", "shop"]])
def test_a_claim_that_no_budget_allows_says_so(tight, args):
    """Exit 3, with the way on."""
    tight("cancel", "small")
    result = tight(*args)
    assert result.exit_code == 3
    assert "`agentmesh budget list`" in result.stdout
    answer = tight.json(*args)
    assert (answer["reason"], answer["advice"]) == ("budget", "blocked_by")


def test_next_and_why_name_the_budget(tight):
    """Exit 3 for a script; the sentence for people."""
    tight("cancel", "small")
    sentence = "Plan shop's budget leaves less than task t is estimated at."
    shown = tight("next", "--agent", "ben")
    assert (shown.exit_code, sentence in shown.stdout) == (3, True)
    assert sentence in tight.json("next")["summary"]
    assert tight("next", "--quiet").exit_code == 3
    assert f"budget: t is ready, but not handed out: {sentence}" in tight("why").stdout
    assert sentence in tight("why", "t").stdout


def test_a_daily_budget_says_until_when(call, board):
    """Midnight UTC."""
    board.create_task("t", id="t")
    board.ledger.record("a", output_tokens=5)
    call("budget", "set", "--period", "day", "--tokens", "5")
    assert re.search(r"Until \d{4}-\d\d-\d\d 00:00:00Z\.", call("why").stdout)
    assert re.search(r"Time alone may change this at \d{4}-\d\d-\d\d 00:00:00Z\.", call("claim", "--agent", "a").stdout)


def test_the_status_names_the_tightest_budget(tight):
    """Measured by what is spent and reserved."""
    tight("budget", "set", "--usd", "100")
    told = "used: 10 tokens, 0.85 USD; tightest budget: plan shop: 0.15 USD left, 990 tokens left\n"
    assert told in tight("status").stdout
    tight("budget", "set", "--agent", "ann", "--tokens", "5")
    assert "tightest budget: agent ann: over by 5 tokens\n" in tight("status").stdout


def test_a_budget_alone_is_told_too(call):
    """Before anything is used."""
    call("budget", "set", "--usd", "100")
    assert "\ntightest budget: the board: 100.00 USD left\n" in call("status").stdout


def test_caps_are_set_seen_and_taken_away(call):
    """That of everybody, and those of single agents."""
    assert call("cap", "list").stdout == "There is no cap.\n"
    assert call("cap", "set", "1").stdout == "each agent may hold 1 task at once.\n"
    assert call.json("cap", "set", "3", "--agent", "ann") == {"agent_id": "ann", "most": 3}
    assert call.json("cap", "list") == {"caps": [{"most": 1}, {"agent_id": "ann", "most": 3}]}
    assert call("cap", "list").stdout.splitlines()[1:] == ["each agent      1", "ann             3"]
    assert call("cap", "clear", "--agent", "ann").stdout == "Cleared.\n"
    assert call("cap", "clear", "--agent", "ann").stdout == "There is no such cap.\n"
    assert call.json("cap", "clear") == {"cleared": True}


def test_a_capped_agent_is_told_so(call, board):
    """By claim, by next, and by why for this agent."""
    for name in "ab":
        board.create_task(name, id=name)
    call("cap", "set", "1", "--agent", "ann")
    call("claim", "--agent", "ann")
    result = call("claim", "--agent", "ann")
    assert (result.exit_code, "`agentmesh cap list`" in result.stdout) == (3, True)
    assert call.json("claim", "b", "--agent", "ann")["reason"] == "claim_cap"
    assert "ann holds 1 tasks, and may hold 1" in call("next", "--agent", "ann").stdout
    assert "claim_cap: b is ready" in call("why", "b", "--agent", "ann").stdout
    assert call("next", "--agent", "ben").exit_code == 0


def test_a_storm_is_told_with_its_end(call, board):
    """And how to end it at once."""
    for number in range(6):
        board.create_task("t", id=f"t{number}", plan="p")
    for _ in range(5):
        board.claim_task("ann").fail("down", kind="quota")
    result = call("claim", "--agent", "ann")
    assert (result.exit_code, "`agentmesh unpause --plan NAME`" in result.stdout) == (3, True)
    assert call.json("claim", "--agent", "ann")["reason"] == "storm"
    assert "storm of infra and quota failures" in call("next").stdout
    assert re.search(r"storm: t5 .* Until \d{4}", call("why", "t5").stdout)
    assert re.search(r"breaker_opened +t\d +until=\d{4}-.*storms=1", call("events").stdout)
    assert call("unpause", "--plan", "p").stdout == "Resumed: plan 'p'.\n"
    assert call("next").exit_code == 0
