"""Asking about the board itself."""

import apsw

from agentmesh import Board


def test_check_tells_each_promise(call, board):
    """Held, violated, or not observable here."""
    board.create_task("a", id="a")
    verdicts = {finding["promise"]: finding["verdict"] for finding in call.json("check")["findings"]}

    assert {f"P{number}" for number in range(1, 13)} <= verdicts.keys()
    assert "violated" not in verdicts.values()
    assert "P1" in call("check").stdout
    assert call("check", "-q").stdout == ""


def test_a_violated_promise_has_an_exit_code(call):
    """A script need not read the text."""
    with Board.open(call.board_path) as board:
        board.create_task("a", id="a")
        board.claim_task("ada")
    connection = apsw.Connection(str(call.board_path))
    connection.execute("UPDATE task SET state = 'completed'")
    connection.close()

    assert call("check", "-q").exit_code == 4
    assert call.json("check")["ok"] is False
    assert "violated" in call("check", "-q").stdout


def test_where_names_a_board_that_is_not_there(mesh):
    """Naming is not making."""
    result = mesh("where", "--board", "later.db")

    assert result.exit_code == 0
    assert "later.db" in result.stdout
    assert "does not exist" in result.stdout
