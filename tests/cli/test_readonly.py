"""Commands of a user who may only read the board."""

import json

import pytest
from click.testing import CliRunner

from agentmesh import Board
from agentmesh.cli.main import cli
from tests.support.nobody import become_nobody, only_root, shared_folder
from tests.support.processes import results

READING = ("list", "show a", "status", "why a", "events", "memory list", "check", "ledger report", "graph", "next")
WRITING = ("add t", "claim --agent x", "cancel a", "pause")


def _calls(line, path, spare, _number):
    Board.open(spare).close()
    with Board.open(spare) as board:
        board.create_task("t", id="a")
    for words in (*READING, *WRITING, "doctor"):  # loads what nobody might not be able to read
        CliRunner().invoke(cli, [*words.split(), "--board", str(spare)])
    become_nobody()
    done = {}
    for words in (*READING, *WRITING):
        result = CliRunner().invoke(cli, [*words.split(), "--board", str(path)])
        done[words] = (result.exit_code, result.stderr)
    found = CliRunner().invoke(cli, ["doctor", "--deep", "--json", "--board", str(path)])
    line.send((done, found.exit_code, json.loads(found.stdout)))


@pytest.mark.multiproc
@only_root
def test_what_reads_works_and_what_writes_says_who_refuses(tmp_path):
    """Exit 23 names the file; a doctor finds the board sound, and says that it is only read."""
    with shared_folder() as folder:
        path = folder / "board.db"
        with Board.open(path) as board:
            board.create_task("t", id="a")
        path.chmod(0o644)
        [(done, exit_code, seen)] = results(1, _calls, path, tmp_path / "spare.db")
        assert sorted(file.name for file in folder.iterdir()) == ["board.db", "board.db.gate"]
    assert {words: done[words] for words in READING if done[words][0]} == {}
    for words in WRITING:
        exit_with, said = done[words]
        assert (words, exit_with) == (words, 23)
        assert f"may not write {path}" in said
    assert (exit_code, seen["ok"]) == (0, True)
    assert [one["name"] for one in seen["observations"] if one["verdict"] == "warning"] == ["file_mode", "write_access"]
