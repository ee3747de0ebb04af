"""The file of tokens: what stands in it, and when it is not believed."""

import json
import os
import random
import stat

import pytest

from agentmesh.errors import InvalidArgument, NotFound, UnsafeTokens
from agentmesh.mcp_server import tokens as tokens_module
from agentmesh.mcp_server.tokens import Keyring, TokenFile
from tests.support.processes import results


@pytest.fixture
def file(tmp_path):
    """The tokens of a board that is not there."""
    return TokenFile.beside(tmp_path / "board.db")


@pytest.fixture
def chance():
    """A chance that repeats itself."""
    return random.Random(1)


def add(file, agent, chance, profile="worker"):
    """Add a token; its secret."""
    return file.add(agent, profile, 7, chance)[1]


def test_a_token_is_known_by_its_hash_alone(file, chance):
    """It has 160 random bits behind a prefix; the file does not hold it."""
    secret = add(file, "ada", chance)
    [token] = file.read()
    assert (token.agent, token.profile, token.created_us, len(token.sha256)) == ("ada", "worker", 7, 64)
    assert secret.startswith("agentmesh_")
    assert len(secret) == len("agentmesh_") + 32
    assert secret.removeprefix("agentmesh_") not in file.path.read_text()
    assert Keyring(file).find(secret) == token


@pytest.mark.parametrize("wrong", ["", "x", "agentmesh_", "\ud800", "ü", None])
def test_what_is_no_token_finds_none(file, chance, wrong):
    """Nor does the hash of one, or one that is cut."""
    secret = add(file, "ada", chance)
    presented = wrong if wrong is not None else file.read()[0].sha256
    assert Keyring(file).find(presented) is None
    assert Keyring(file).find(secret[:-1]) is None


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_the_file_is_never_open_to_others(file, chance, umask, monkeypatch):
    """From the moment it exists, and after each change."""
    modes, opened = [], os.open

    def watched(path, flags, mode=0o777, **more):
        modes.append(mode if flags & os.O_CREAT else 0o600)
        return opened(path, flags, mode, **more)

    monkeypatch.setattr(tokens_module.os, "open", watched)
    before = os.umask(umask)
    try:
        add(file, "ada", chance)
        add(file, "bob", chance)
        file.revoke("bob", chance)
    finally:
        os.umask(before)
    assert set(modes) == {0o600}
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [path.name for path in file.path.parent.iterdir()] == ["board.db.tokens"]


def test_a_token_is_revoked_by_its_id_or_with_its_agent(file, chance):
    """The others stay."""
    one, two, three = add(file, "ada", chance), add(file, "ada", chance), add(file, "bob", chance)
    first = Keyring(file).find(one)
    assert file.revoke(first.id, chance) == [first]
    assert [token.agent for token in file.revoke("ada", chance)] == ["ada"]
    ring = Keyring(file)
    assert [ring.find(secret) is not None for secret in (one, two, three)] == [False, False, True]
    with pytest.raises(NotFound):
        file.revoke("ada", chance)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_not_believed(file, chance, mode):
    """Nor is anything added to it: what is in it may be known."""
    add(file, "ada", chance)
    file.path.chmod(mode)
    for use in (file.read, lambda: add(file, "bob", chance), lambda: file.revoke("ada", chance)):
        with pytest.raises(UnsafeTokens):
            use()


def test_a_link_is_not_followed(file, chance, tmp_path):
    """Whoever may write in the folder must not choose the file."""
    other = TokenFile(tmp_path / "other.tokens")
    add(other, "ada", chance)
    file.path.symlink_to(other.path)
    with pytest.raises(UnsafeTokens):
        file.read()


GOOD = {"agent": "ada", "profile": "worker", "sha256": "a" * 64, "created_us": 0}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        '{"version": 1}',
        '{"version": 2, "tokens": []}',
        *(
            json.dumps({"version": 1, "tokens": [GOOD | wrong]})
            for wrong in ({"agent": 1}, {"profile": "root"}, {"sha256": "x"}, {"created_us": "0"}, {"more": 1})
        ),
    ],
)
def test_a_damaged_file_lets_nobody_in(file, text):
    """It is said to be damaged, and stays as it is."""
    file.path.touch(0o600)
    file.path.write_text(text)
    with pytest.raises(UnsafeTokens, match="damaged"):
        file.read()
    assert file.path.read_text() == text


@pytest.mark.parametrize(("agent", "profile"), [("", "worker"), ("a b", "worker"), ("ada", "root")])
def test_nobody_can_be_called_so(file, chance, agent, profile):
    """And no file is made."""
    with pytest.raises(InvalidArgument):
        file.add(agent, profile, 0, chance)
    assert not file.path.exists()


def test_a_keyring_sees_every_change(file, chance):
    """Without being told; a file that goes away does not open the door."""
    ring = Keyring(file)
    assert not ring.needed
    secret = add(file, "ada", chance)
    assert ring.find(secret)
    file.revoke("ada", chance)
    assert ring.find(secret) is None
    file.path.unlink()
    assert ring.tokens() == ()
    assert ring.needed


def _add(line, path, number):
    TokenFile(path).add(f"agent-{number}", "worker", 0, random.Random(number))
    line.send("done")


@pytest.mark.multiproc
def test_tokens_added_at_once_are_all_there(file):
    """Nobody writes over what another has just added."""
    results(6, _add, file.path)
    assert sorted(token.agent for token in file.read()) == [f"agent-{n}" for n in range(6)]
