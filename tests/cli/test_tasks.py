"""Adding, listing, showing and ending tasks."""

import json

import pytest


def test_a_task_is_added_with_all_that_was_said(call):
    """Every option arrives on the board."""
    call("add", "first", "--id", "first")
    options = "--id x --plan p -d text -p 7 --depends-on first:finished --requires gpu --tag a --tag b"
    paths = "--writes src/** --reads docs/* --estimate-usd 0.25 --lease-timeout-sec 9 --max-attempts 2"
    call("add", "title", *options.split(), *paths.split(), "--payload", '{"n": [1, "123"]}')

    task = call.json("show", "x")["task"]
    assert (task["plan"], task["priority"], task["description"], task["tags"]) == ("p", 7, "text", ["a", "b"])
    assert task["depends_on"] == [{"id": "first", "condition": "finished"}]
    assert (task["requires"], task["writes"], task["reads"]) == (["gpu"], ["src/**"], ["docs/*"])
    assert (task["payload"], task["lease_timeout_sec"], task["max_attempts"]) == ({"n": [1, "123"]}, 9, 2)
    assert task["estimate_usd"] == "0.25"


def test_adding_again_with_the_same_key_adds_nothing(call):
    """An agent whose parser failed may call again."""
    first = call.json("add", "once", "--request-id", "k1")
    again = call.json("add", "once", "--request-id", "k1")

    assert first["id"] == again["id"]
    assert len(call.json("list")["tasks"]) == 1


def test_adding_with_the_key_of_an_open_task_shows_that_one(call, board):
    """And says so; `--json` has `existing`."""
    added = call.json("add", "Nightly", "--key", "nightly")
    again = call.json("add", "Nightly", "--key", "nightly")
    assert (added["key"], again["id"], again["existing"]) == ("nightly", added["id"], True)
    assert "existing" not in added
    assert call("add", "Nightly", "--key", "nightly").stdout.startswith("Found ")
    assert len(board.list_tasks().tasks) == 1


def test_quiet_add_prints_the_id(call):
    """For `id=$(agentmesh add -q ...)`."""
    assert call("add", "x", "--id", "x1", "-q").stdout == "x1\n"


def test_a_title_may_begin_with_a_dash(call):
    """After `--` it is no option, whatever it says."""
    assert json.loads(call("add", "--json", "--", "-rf").stdout)["title"] == "-rf"
    assert call("add", "--", "--json").stdout.startswith("Added ")


@pytest.mark.parametrize("text", ["{", "NaN", '{"a":1,"a":2}', "done", "[" * 100_000])
def test_json_that_is_none_is_refused(call, text):
    """Exit 2, and nothing is added."""
    assert call("add", "x", "--payload", text).exit_code == 2
    assert call.json("list")["tasks"] == []


def test_json_may_come_from_a_file_or_from_stdin(call, tmp_path):
    """`@FILE` and `@-`."""
    (tmp_path / "p.json").write_text('{"from": "file"}')

    assert call.json("add", "x", "--id", "a", "--payload", f"@{tmp_path / 'p.json'}")["id"] == "a"
    assert call.json("add", "x", "--id", "b", "--payload", "@-", input='{"from": "stdin"}')["id"] == "b"
    assert call.json("show", "a")["task"]["payload"] == {"from": "file"}
    assert call.json("show", "b")["task"]["payload"] == {"from": "stdin"}
    assert call("add", "x", "--payload", "@nowhere").exit_code == 2


def test_a_list_is_paged_and_filtered(call, board):
    """The cursor of a page leads to the next."""
    board.create_tasks([{"title": "t", "id": f"t{n}", "tags": ["odd"] if n % 2 else []} for n in range(5)])
    first = call.json("list", "--limit", "3")
    rest = call.json("list", "--limit", "3", "--cursor", str(first["cursor"]))

    assert [t["id"] for t in first["tasks"] + rest["tasks"]] == ["t0", "t1", "t2", "t3", "t4"]
    assert "cursor" not in rest
    assert [t["id"] for t in call.json("list", "--tag", "odd")["tasks"]] == ["t1", "t3"]
    assert call.json("list", "--state", "failed") == {"tasks": []}


def test_a_task_or_a_plan_is_cancelled(call, board):
    """One of the two is named, never both or neither."""
    board.create_task("a", id="a")
    board.create_task("b", id="b", plan="p")

    assert call.json("cancel", "a", "--reason", "no")["state"] == "cancelled"
    assert call.json("cancel", "--plan", "p") == {"plan": "p", "cancelled": 1}
    assert call("cancel").exit_code == 2
    assert call("cancel", "a", "--plan", "p").exit_code == 2


def test_a_task_that_ended_is_reopened(call, board):
    """The way back is an operator's act."""
    board.create_task("a", id="a")
    board.cancel_task("a")

    assert call.json("reopen", "a")["state"] == "pending"


def test_dependencies_come_and_go(call, board):
    """And an edge that would close a cycle is refused with the path."""
    board.create_tasks([{"title": "a", "id": "a"}, {"title": "b", "id": "b"}])

    assert call.json("depends", "add", "b", "a", "--condition", "finished")["state"] == "blocked"
    cycle = call("depends", "add", "a", "b")
    assert cycle.exit_code == 14
    assert "'a'" in cycle.stderr
    assert call.json("depends", "remove", "b", "a")["state"] == "pending"


def test_a_pause_holds_work_back(call, board):
    """Of the board, a plan or an agent; AGENTMESH_AGENT does not narrow it."""
    board.create_task("a", id="a", plan="p")

    assert call.json("pause", "--reason", "lunch", env={"AGENTMESH_AGENT": "ada"})["scope"] == "board"
    assert call("next", "-q").exit_code == 3
    assert "lunch" in call("status").stdout
    assert call.json("unpause") == {"resumed": True}
    assert call.json("unpause") == {"resumed": False}
    assert call.json("pause", "--plan", "p")["name"] == "p"
    assert call("next", "-q").exit_code == 3


def test_a_task_that_reached_a_ceiling_is_shown_with_the_way_out(call, board):
    """`status` and `why` name it; the command that `why` prints works as it stands."""
    board.create_task("a", id="a")
    for number in range(20):
        board.claim_task(f"x{number}").release()
    assert "paused: task a" in call("status").stdout
    shown = call("why", "a").stdout
    assert "agents gave it back 20 times" in " ".join(shown.split())
    assert "agentmesh unpause --task a" in shown
    assert call.json("claim", "a", "--agent", "ada")["reason"] == "paused"
    assert call.json("unpause", "--task", "a") == {"resumed": True}
    assert call.json("claim", "a", "--agent", "ada")["claimed"] is True


def test_a_task_is_paused_by_hand_until_a_time(call, board):
    """It keeps the reason and its end."""
    board.create_task("a", id="a")
    found = call.json("pause", "--task", "a", "--reason", "look", "--until", "2999-01-01T00:00:00Z")
    assert (found["scope"], found["name"], found["until_at"]) == ("task", "a", "2999-01-01T00:00:00Z")
    shown = " ".join(call("status").stdout.split())
    assert "paused: task a" in shown
    assert "until 2999" in shown
    assert call("next", "-q").exit_code == 3
    assert call("pause", "--until", "2001-01-01T00:00:00Z").exit_code == 2


def test_show_tells_the_whole_story(call, board):
    """Texts, attempts, errors and notes."""
    board.create_task("the title", id="a", description="line one\nline two", payload={"n": 1})
    claim = board.claim_task("ada")
    board.note(claim.lease, "half way")
    board.fail_task(claim.lease, "boom", kind="infra")
    shown = call("show", "a").stdout

    assert all(word in shown for word in ("the title", "    line two", "half way", "boom", "failed (infra)", "ada"))


def test_show_does_not_show_a_lease_secret(call, board):
    """A token is its holder's alone."""
    board.create_task("a", id="a")
    secret = board.claim_task("ada").lease.secret

    for args in (["show", "a"], ["list"], ["events"], ["watch", "--once"]):
        assert secret not in call(*args).stdout + call(*args, "--json").stdout
