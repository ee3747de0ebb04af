"""Which board a command means."""

import os
import subprocess
from pathlib import Path

import pytest

from agentmesh.cli.discover import discover, find
from agentmesh.errors import BoardNotFound, InvalidArgument


def make_board(folder: Path) -> Path:
    """Something that looks like a board to the walk."""
    (folder / ".agentmesh").mkdir(parents=True)
    board = folder / ".agentmesh" / "board.db"
    board.touch()
    return board


def git(folder: Path, *args: str) -> None:
    """Run git without the settings of this machine."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["git", *identity, *args], cwd=folder, env=environment, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path):
    """A git checkout with one commit."""
    main = tmp_path / "main"
    main.mkdir()
    git(main, "init", "-q")
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    return main


def test_the_nearest_board_wins(tmp_path):
    """A board further up is not looked at."""
    make_board(tmp_path)
    near = make_board(tmp_path / "a")
    (tmp_path / "a" / "b").mkdir()

    assert discover(tmp_path / "a" / "b").target == str(near)


def test_the_walk_ends_at_the_root_of_a_checkout(tmp_path, checkout):
    """A project never ends up on the board of the folder around it."""
    make_board(tmp_path)

    with pytest.raises(BoardNotFound):
        discover(checkout)


def test_a_worktree_shares_the_board_of_the_main_checkout(tmp_path, checkout):
    """Agents in parallel worktrees meet on one board."""
    board = make_board(checkout)
    git(checkout, "worktree", "add", "-q", str(tmp_path / "linked"))

    found = discover(tmp_path / "linked")
    assert (found.target, found.source) == (str(board), "main checkout")


def test_a_worktree_with_a_board_of_its_own_uses_it(tmp_path, checkout):
    """The nearest wins here too."""
    make_board(checkout)
    git(checkout, "worktree", "add", "-q", str(tmp_path / "linked"))
    own = make_board(tmp_path / "linked")

    assert discover(tmp_path / "linked").target == str(own)


def test_a_worktree_inside_its_main_checkout_finds_the_same_board(checkout):
    """The place of a worktree does not matter."""
    board = make_board(checkout)
    git(checkout, "worktree", "add", "-q", "trees/feature")
    (checkout / "trees" / "feature" / "deep").mkdir()

    assert discover(checkout / "trees" / "feature" / "deep").target == str(board)


def test_a_worktree_whose_main_checkout_has_no_board_finds_none(tmp_path, checkout):
    """A board above the main checkout is a stranger's."""
    make_board(tmp_path)
    git(checkout, "worktree", "add", "-q", "trees/feature")

    with pytest.raises(BoardNotFound):
        discover(checkout / "trees" / "feature")


def test_a_git_file_that_is_no_worktree_ends_the_walk(tmp_path):
    """A submodule, or a broken file, does not lead anywhere."""
    make_board(tmp_path)
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / ".git").write_text("gitdir: ../.git/modules/part\n")

    with pytest.raises(BoardNotFound):
        discover(tmp_path / "part")


def test_a_link_to_a_folder_leads_to_the_folders_board(tmp_path, monkeypatch):
    """The current folder counts as what it is, not as how one came there."""
    board = make_board(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path / "link")

    assert find(None, None).target == str(board)


def test_a_strangers_board_is_not_picked_up(tmp_path, monkeypatch):
    """Another user may have planted it in a folder above."""
    make_board(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    with pytest.raises(BoardNotFound, match="another user"):
        discover(tmp_path)


def test_a_named_board_goes_before_a_found_one(tmp_path):
    """First --board, then AGENTMESH_BOARD, then the walk."""
    make_board(tmp_path)

    assert find("/a.db", "/b.db", tmp_path).target == "/a.db"
    assert find(None, "/b.db", tmp_path).target == "/b.db"
    assert find(None, "", tmp_path).source == "discovered"


@pytest.mark.parametrize("named", ["", "."])
def test_a_name_that_is_no_file_is_refused(named):
    """An empty path or a folder is a mistake, not a board."""
    with pytest.raises(InvalidArgument):
        find(named, None)


def test_a_found_board_is_named_on_stderr(call):
    """Nobody works on a board unawares; who named it, or asked for quiet, is spared."""
    assert call("status").stderr == f"board: {call.board_path}\n"
    assert call("status", "--json").stderr == f"board: {call.board_path}\n"
    assert call("status", "--quiet").stderr == ""
    assert call("status", "--board", str(call.board_path)).stderr == ""


@pytest.mark.parametrize(
    ("source", "args", "env"),
    [
        ("discovered", [], {}),
        ("option", ["--board", ".agentmesh/board.db"], {}),
        ("environment", [], {"AGENTMESH_BOARD": ".agentmesh/board.db"}),
    ],
)
def test_where_says_which_board_and_why(call, source, args, env):
    """The choice is never a riddle."""
    answer = call.json("where", *args, env=env)
    assert answer == {"board": str(call.board_path), "source": source, "exists": True}


def test_no_board_is_an_error(mesh):
    """It has a code, a next step, and nothing on stdout."""
    result = mesh("status")

    assert (result.exit_code, result.stdout) == (28, "")
    assert "agentmesh init" in result.stderr


def test_a_missing_board_is_not_made_by_looking(mesh, tmp_path):
    """Only init makes a board."""
    assert mesh("status", "--board", str(tmp_path / "none.db")).exit_code == 28
    assert not (tmp_path / "none.db").exists()
