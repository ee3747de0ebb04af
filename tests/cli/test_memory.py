"""The blackboard from a shell: values and bytes in and out, exit codes, authors."""

import base64
import json

import pytest

HOSTILE = "\x1b[31mred\u202e"


def test_a_value_goes_in_and_comes_out(call):
    """With its type; `--quiet` gives it alone."""
    put = call.json("memory", "put", "a/b", "k", '{"n": [1, "2"]}', "--agent", "ann")
    assert (put["namespace"], put["key"], put["version"], put["agent_id"]) == ("a/b", "k", 1, "ann")
    assert call.json("memory", "get", "a/b", "k")["value"] == {"n": [1, "2"]}
    assert call("memory", "get", "a/b", "k", "--quiet").stdout == '{"n": [1, "2"]}\n'
    assert "a/b k" in call("memory", "get", "a/b", "k").stdout


@pytest.mark.parametrize("value", ["null", '""', "0", "false", '"123"', "[]"])
def test_what_is_empty_is_a_value(call, value):
    """Null too, and in the root."""
    assert call("memory", "put", "", "0", value).exit_code == 0
    found = call.json("memory", "get", "", "0")
    assert json.dumps(found["value"]) == value


def test_bytes_go_from_file_to_file(call, tmp_path):
    """Unchanged, with their type; over standard streams too."""
    data = bytes(range(256))
    there, back = tmp_path / "there", tmp_path / "back"
    there.write_bytes(data)
    put = call.json("memory", "put", "art", "x", "--file", there, "--content-type", "image/png")
    assert (put["size"], put["content_type"], base64.b64decode(put["value"])) == (256, "image/png", data)
    shown = call.json("memory", "get", "art", "x", "--output", back)
    assert (back.read_bytes(), shown["output"], "value" in shown) == (data, str(back), False)
    assert call("memory", "put", "art", "y", "--file", "-", input=data).exit_code == 0
    assert call("memory", "get", "art", "y", "--output", "-").stdout_bytes == data
    assert "application/octet-stream" in call("memory", "get", "art", "y").stdout


def test_a_json_value_is_written_as_text(call, tmp_path):
    """Readable, with a line feed at its end."""
    call("memory", "put", "a", "k", '{"é": 1}')
    assert call("memory", "get", "a", "k", "--output", tmp_path / "v").exit_code == 0
    assert json.loads((tmp_path / "v").read_text()) == {"é": 1}


def test_counters_lists_and_deletions(call):
    """Each gives what there is now."""
    assert call.json("memory", "increment", "a", "n")["value"] == 1
    assert call.json("memory", "increment", "a", "n", "--by", "-5")["value"] == -4
    assert call.json("memory", "append", "a", "l", '"x"')["value"] == ["x"]
    assert call.json("memory", "append", "a", "l", "[1]", "--ttl", "60")["expires_at"]
    assert call.json("memory", "delete", "a", "l") == {"deleted": True}
    assert call.json("memory", "delete", "a", "l") == {"deleted": False}
    assert call("memory", "delete", "a", "n").stdout == "Deleted: a n.\n"


def test_entries_are_listed_in_pages(call):
    """Names, sizes, and how to go on."""
    for namespace in ("", "a", "a/b", "ab"):
        call("memory", "put", namespace, "key", "1")
    assert call("memory", "list", "--quiet").stdout == "key\na key\na/b key\nab key\n"
    assert call("memory", "list", "a", "-q").stdout == "a key\na/b key\n"
    assert call("memory", "list", "a", "--flat", "-q").stdout == "a key\n"
    page = call.json("memory", "list", "--limit", "1")
    assert (len(page["entries"]), page["cursor"]) == (1, "key")
    assert "--cursor 'key'" in call("memory", "list", "--limit", "1").stdout
    assert len(call.json("memory", "list", "--cursor", page["cursor"])["entries"]) == 3
    assert call.json("memory", "list", "nothing") == {"entries": []}
    assert call("memory", "list", "nothing").stdout == "No entry is like that.\n"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["get", "a", "missing"], 5),
        (["put", "a", "k", "1", "--if-version", "7"], 18),
        (["delete", "a", "text", "--if-version", "7"], 18),
        (["increment", "a", "text"], 19),
        (["append", "a", "text", "1"], 19),
        (["put", "a/", "k", "1"], 2),
        (["put", "a", "k", "plain"], 2),
        (["put", "a", "k"], 2),
        (["put", "a", "k", "1", "--file", "x"], 2),
        (["put", "a", "k", "1", "--content-type", "text/plain"], 2),
        (["put", "a", "k", "1", "--ttl", "0"], 2),
        (["put", "a", "k", "1", "--lease", "1.x"], 2),
        (["put", "a", "k", "1", "--task", "t"], 2),
        (["put", "a", "k", "1", "--task", "t", "--lease", "1.x"], 5),
        (["put", "a", "k", "--file", "not-there"], 33),
        (["get", "a", "text", "--output", "no/such/folder"], 33),
        (["get", "a", "text", "--output", "-"], 2),
    ],
    ids=str,
)
def test_each_refusal_has_its_exit_code(call, args, code):
    """And one document on stderr."""
    call("memory", "put", "a", "text", '"x"')
    result = call("memory", *args, "--json")
    assert (result.exit_code, result.stdout) == (code, "")
    assert json.loads(result.stderr)["exit_code"] == code


def test_a_conflict_names_the_version_that_is_there(call):
    """For the script that tries again."""
    call("memory", "put", "a", "k", "1")
    error = json.loads(call("memory", "put", "a", "k", "1", "--if-version", "0", "--json").stderr)
    assert (error["code"], error["version"]) == ("version_conflict", 1)


def test_a_lease_signs(call, board, monkeypatch):
    """From the option or the environment, where without a task it signs nothing."""
    board.create_task("t", id="t")
    token = board.claim_task("ann").lease.token
    signed = call.json("memory", "put", "a", "k", "1", "--task", "t", "--lease", token)
    assert (signed["agent_id"], signed["task_id"], signed["fence"]) == ("ann", "t", 1)
    assert "t, attempt 1" in call("memory", "get", "a", "k").stdout
    monkeypatch.setenv("AGENTMESH_LEASE", token)
    assert call.json("memory", "increment", "a", "n", "--task", "t")["agent_id"] == "ann"
    assert call.json("memory", "increment", "a", "n", "--agent", "bob")["agent_id"] == "bob"


def test_a_repeated_call_writes_once(call):
    """By its key."""
    first = call.json("memory", "append", "a", "l", "1", "--request-id", "r")
    assert call.json("memory", "append", "a", "l", "1", "--request-id", "r") == first


def test_a_hostile_value_does_nothing_to_a_terminal(call, board):
    """It is shown escaped, and printed in ASCII for scripts."""
    board.blackboard.put("a", "k", HOSTILE)
    shown = call("memory", "get", "a", "k").stdout + call("memory", "get", "a", "k", "--quiet").stdout
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_null_is_shown(call, board):
    """As the value it is."""
    board.blackboard.put("a", "k", None)
    assert call("memory", "get", "a", "k", "-q").stdout == "null\n"
