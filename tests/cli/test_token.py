"""Tokens from a shell: shown once, listed by their ids, taken away again."""

import stat


def test_a_token_is_shown_once(call):
    """`--quiet` prints nothing but the token, and no list holds it."""
    secret = call("token", "add", "ada", "--quiet").stdout.strip()
    assert secret.startswith("agentmesh_")
    assert stat.S_IMODE(call.board_path.with_name("board.db.tokens").stat().st_mode) == 0o600
    listed = call("token", "list").stdout
    assert "ada" in listed
    assert "worker" in listed
    assert secret not in listed + call("token", "list", "--json").stdout


def test_a_token_as_a_document(call):
    """What was made, what there is, what is gone: by the same keys, without the hash."""
    made = call.json("token", "add", "ada", "--profile", "lead")
    assert sorted(made) == ["agent", "created_at", "id", "profile", "token"]
    del made["token"]
    assert call.json("token", "list") == {"tokens": [made]}
    assert call.json("token", "revoke", made["id"]) == {"revoked": [made]}
    assert call.json("token", "list") == {"tokens": []}


def test_what_cannot_be_revoked_is_an_error(call):
    """Nobody believes a token to be gone that is not."""
    done = call("token", "revoke", "nobody")
    assert (done.exit_code, done.stdout) == (5, "")


def test_tokens_need_a_board(mesh):
    """A typing error does not become a file of tokens for a board that is not there."""
    assert mesh("token", "add", "ada", "--board", "typo.db").exit_code == 28


def test_a_file_of_tokens_that_is_open_to_others_is_refused(call):
    """With an exit code of its own."""
    call("token", "add", "ada")
    call.board_path.with_name("board.db.tokens").chmod(0o644)
    done = call("token", "list")
    assert done.exit_code == 39
    assert "chmod 600" in done.stderr
