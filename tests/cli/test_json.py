"""What `--json` promises: one strict document on stdout, whatever stands on the board."""

import json

import pytest

HOSTILE = "".join(map(chr, range(1, 32))) + "\x7f\x9b31m\"\\'\u2028\u2029\u202e\u200b\ufeff\U000e0041 é 漢 🎉"
HOSTILE_NAME = "=\"\\'é漢🎉"
"""Names hold neither blanks nor control characters."""

READERS = {
    "list": (("list",), {"tasks"}),
    "show": (("show", "held"), {"task", "attempts", "notes"}),
    "status": (("status",), {"counts", "plans"}),
    "why": (("why",), {"summary", "causes"}),
    "why-task": (("why", "held"), {"summary", "causes"}),
    "graph": (("graph",), {"tasks", "edges"}),
    "graph-format": (("graph", "--format", "json"), {"tasks", "edges"}),
    "events": (("events",), {"events", "cursor"}),
    "watch": (("watch",), {"status", "running", "events", "cursor"}),
    "watch-once": (("watch", "--once"), {"status", "running", "events", "cursor"}),
    "check": (("check",), {"ok", "findings"}),
    "prune": (("prune", "--dry-run"), {"dry_run", "tasks", "plans", "events", "entry_tombstones"}),
    "where": (("where",), {"board", "source", "exists"}),
    "next": (("next",), {"work"}),
    "memory-get": (("memory", "get", "n", "k"), {"namespace", "key", "version", "value"}),
    "memory-list": (("memory", "list"), {"entries"}),
    "ledger-report": (("ledger", "report"), {"by", "lines", "total", "more"}),
    "ledger-csv": (("ledger", "report", "--format", "csv"), {"by", "lines", "total", "more"}),
    "ledger-entries": (("ledger", "entries"), {"entries"}),
    "budget-list": (("budget", "list"), {"budgets"}),
    "cap-list": (("cap", "list"), {"caps"}),
}


@pytest.fixture
def hostile_call(call, board):
    """A board on which every free text is hostile."""
    fields = {"description": HOSTILE, "payload": {HOSTILE: [HOSTILE]}}
    board.create_task(HOSTILE, id="held", **fields)
    board.create_task("waits", id="waits", depends_on=["held"])
    board.create_task("ends", id="ends")
    lease = board.claim_task("ada", task_id="held").lease
    board.note(lease, HOSTILE)
    board.claim_task("ada", task_id="ends").fail(HOSTILE, retry=False)
    board.pause(agent="ben", reason=HOSTILE)
    board.blackboard.put("n", "k", {HOSTILE: [HOSTILE]})
    board.ledger.record(HOSTILE_NAME, model=HOSTILE_NAME, input_tokens=1)
    board.budgets.set(agent=HOSTILE_NAME, usd=1)
    board.set_claim_cap(1, agent=HOSTILE_NAME)
    return call


def strictly(text: str) -> dict:
    """Read JSON as a strict parser does, and see that nothing in it can act on a terminal."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    assert text.isascii()
    assert all(character.isprintable() for character in text.removesuffix("\n"))
    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("name", READERS)
def test_every_answer_is_one_strict_object(hostile_call, name):
    """Any code point may stand in a text, and every parser can read the answer."""
    args, keys = READERS[name]
    answer = strictly(hostile_call(*args, "--json").stdout)

    assert keys <= answer.keys()


def test_a_text_comes_back_as_it_was(hostile_call):
    """Escaping loses nothing."""
    task = hostile_call.json("show", "held")["task"]

    assert task["description"] == HOSTILE
    assert task["payload"] == {HOSTILE: [HOSTILE]}


@pytest.mark.parametrize(
    "line", [["--json", "plan", "apply"], ["plan", "--json", "apply"], ["plan", "apply", "--json"]]
)
def test_json_may_stand_anywhere(call, line):
    """Before the command, between its words, or at the end."""
    plan = json.dumps({"tasks": [{"id": "a", "title": "A"}]})
    result = call(*line, "-", input=plan)

    assert strictly(result.stdout) == {"plan": "default", "created": ["a"], "updated": [], "unchanged": []}


@pytest.mark.parametrize(
    ("args", "code", "exit_code"),
    [
        (["show", "nobody"], "not_found", 5),
        (["complete", "nobody", "--lease", "x"], "invalid_argument", 2),
        (["list", "--no-such-option"], "usage", 2),
        (["no-such-command"], "usage", 2),
        (["list", "--limit", "many"], "usage", 2),
        (["status", "--board", "/nowhere/board.db"], "board_not_found", 28),
    ],
)
def test_an_error_is_one_document_on_stderr(call, args, code, exit_code):
    """Stdout stays empty; code, sentence and next step go to stderr, and nothing else."""
    result = call(*args, "--json")

    assert (result.exit_code, result.stdout) == (exit_code, "")
    error = strictly(result.stderr)
    assert (error["code"], error["exit_code"]) == (code, exit_code)
    assert error["message"]
    assert error["hint"]


def test_an_empty_claim_is_an_answer_and_no_error(call):
    """It says so on stdout, with an exit code of its own."""
    result = call("claim", "--agent", "ada", "--json")

    assert (result.exit_code, strictly(result.stdout)["claimed"]) == (3, False)


def test_stdout_of_a_process_is_pure(call):
    """Nothing but the document, not even the name of the board."""
    done = call.process("--json", "status")

    assert strictly(done.stdout)["counts"] is not None
    assert done.stderr.startswith("board: ")
