"""Making clients start our server: into which file the entry goes, and what is said about it."""

import json
import os
import sys
import tomllib
from pathlib import Path

import click
import pytest

from agentmesh.cli import install as commands
from agentmesh.cli.clients import CLIENTS, Client, Machine

PLACES = {
    ("claude-desktop", "user"): "home/.config/Claude/claude_desktop_config.json",
    ("claude-code", "project"): "project/.mcp.json",
    ("claude-code", "user"): "home/.claude.json",
    ("cursor", "project"): "project/.cursor/mcp.json",
    ("cursor", "user"): "home/.cursor/mcp.json",
    ("codex", "user"): "home/.codex/config.toml",
    ("codex", "project"): "project/.codex/config.toml",
}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """No test sees the home folder of whoever runs it, nor what is installed there."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "platform", "linux")
    return home


@pytest.fixture
def cursor(in_an_empty_folder):
    """Cursor's file in this project, with a server of somebody else in it."""
    file = in_an_empty_folder / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{\n  // theirs\n  "mcpServers": {\n    "other": {"url": "x"}\n  }\n}\n')
    return file


def servers(file):
    """What a client reads from its file."""
    text = "\n".join(line for line in file.read_text().splitlines() if not line.strip().startswith("//"))
    return tomllib.loads(text)["mcp_servers"] if file.suffix == ".toml" else json.loads(text)["mcpServers"]


def expected(board, *more):
    """The entry that starts our server."""
    return {"command": sys.executable, "args": ["-P", "-m", "agentmesh.cli", "run", "--board", str(board), *more]}


@pytest.mark.parametrize(("client", "scope"), PLACES)
def test_the_entry_goes_into_the_file_of_the_client_and_scope(mesh, tmp_path, client, scope):
    """For its user alone, with the board by its whole path; and out of it again."""
    answer = mesh.json("install", client, "--scope", scope)
    file = tmp_path / PLACES[client, scope]

    assert (answer["client"], answer["scope"], answer["config"]) == (client, scope, str(file))
    assert servers(file) == {"agentmesh": expected(mesh.board_path)}
    assert file.stat().st_mode & 0o777 == 0o600
    assert mesh.json("uninstall", client, "--scope", scope)["changed"] is True
    assert "agentmesh" not in file.read_text()


@pytest.mark.parametrize("client", CLIENTS)
def test_the_first_scope_is_the_usual_one(mesh, tmp_path, client):
    """What belongs to a project stays there, where the client allows it."""
    usual = next(place for (name, _), place in PLACES.items() if name == client)
    assert mesh.json("install", client)["config"] == str(tmp_path / usual)


@pytest.mark.parametrize(
    ("client", "platform", "variables", "file"),
    [
        ("claude-desktop", "darwin", {}, "Library/Application Support/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", {}, "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", {"APPDATA": "/r"}, "/r/Claude/claude_desktop_config.json"),
        ("claude-desktop", "linux", {"XDG_CONFIG_HOME": "/x"}, "/x/Claude/claude_desktop_config.json"),
        ("claude-desktop", "linux", {"XDG_CONFIG_HOME": "x"}, ".config/Claude/claude_desktop_config.json"),
        ("claude-code", "win32", {}, ".claude.json"),
        ("claude-code", "darwin", {"CLAUDE_CONFIG_DIR": "/c"}, "/c/.claude.json"),
        ("cursor", "win32", {}, ".cursor/mcp.json"),
        ("codex", "darwin", {"CODEX_HOME": "/c"}, "/c/config.toml"),
    ],
)
def test_each_platform_and_variable_has_its_place(home, client, platform, variables, file):
    """The file of the user, as the clients' own documentation has it."""
    machine = Machine(platform, home, home / "project", variables)
    assert CLIENTS[client].places["user"](machine) == home / file


def test_packaged_claude_desktop_reads_a_folder_of_its_own(home):
    """On Windows, where it is installed as a package; the newer place is asked first."""
    machine = Machine("win32", home, home, {})
    for place in ("Packages/Claude_abc/LocalCache/Roaming/Claude", "Claude-Data/Claude_abc"):
        packaged = home / "AppData/Local" / place
        packaged.mkdir(parents=True)
        assert CLIENTS["claude-desktop"].places["user"](machine).parent == packaged


def test_another_client_is_another_row(mesh, tmp_path, monkeypatch):
    """A name, a file and what in it holds the servers: nothing else knows the clients."""
    row = Client("fifth", "Fifth", "fifth", lambda m: m.home, {"user": lambda m: m.home / "f.json"}, "Go.", "servers")
    monkeypatch.setitem(CLIENTS, "fifth", row)
    monkeypatch.setattr(commands.install.params[0], "type", click.Choice(tuple(CLIENTS)))

    assert mesh("install", "fifth").stdout.splitlines()[-1] == "Go."
    assert json.loads((tmp_path / "home" / "f.json").read_text()) == {
        "servers": {"agentmesh": expected(mesh.board_path)}
    }


def test_a_second_time_changes_nothing(mesh, cursor):
    """No byte, no copy, no word too many."""
    mesh("install", "cursor")
    before = (cursor.read_bytes(), cursor.stat().st_ino, sorted(cursor.parent.iterdir()))
    answer = mesh.json("install", "cursor")

    assert (answer["changed"], "backup" in answer) == (False, False)
    assert (cursor.read_bytes(), cursor.stat().st_ino, sorted(cursor.parent.iterdir())) == before


def test_other_options_update_our_entry_alone(mesh, cursor):
    """The other server and the comment stay."""
    mesh("install", "cursor")
    result = mesh("install", "cursor", "--agent", "ada", "--profile", "worker")

    assert result.stdout.startswith("Updated in ")
    assert servers(cursor) == {
        "other": {"url": "x"},
        "agentmesh": expected(mesh.board_path, "--agent", "ada", "--profile", "worker"),
    }
    assert "  // theirs\n" in cursor.read_text()


def test_the_agent_of_this_shell_is_not_written_down(mesh, cursor):
    """Only what was asked for goes into a file that stays."""
    mesh("install", "cursor", env={"AGENTMESH_AGENT": "me"})
    assert servers(cursor)["agentmesh"] == expected(mesh.board_path)


def test_several_entries_have_several_names(mesh, cursor):
    """Each client of a swarm may speak for its own agent; each entry goes alone."""
    for name in ("ada", "ben"):
        mesh("install", "cursor", "--name", name, "--agent", name)
    before = cursor.read_text()
    mesh("install", "cursor")
    mesh("uninstall", "cursor")

    assert cursor.read_text() == before
    assert list(servers(cursor)) == ["other", "ada", "ben"]


def test_uninstalling_what_is_not_there_changes_nothing(mesh, cursor, tmp_path):
    """And makes no file."""
    before = cursor.read_bytes()

    assert mesh("uninstall", "cursor").stdout == f"There is no agentmesh in {cursor}\n"
    assert mesh.json("uninstall", "codex")["changed"] is False
    assert cursor.read_bytes() == before
    assert not (tmp_path / "home" / ".codex").exists()


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_an_entry_of_another_server_is_not_touched(mesh, cursor, command):
    """Whatever it is called."""
    before = cursor.read_bytes()
    result = mesh(command, "cursor", "--name", "other")

    assert result.exit_code == 40
    assert "--name" in result.stderr
    assert cursor.read_bytes() == before


@pytest.mark.parametrize("command", [("install",), ("uninstall",)])
def test_a_broken_file_is_left_alone(mesh, cursor, command):
    """The error says where it is broken; no board is made for it either."""
    cursor.write_text('{\n  "mcpServers": {\n    oops\n')
    result = mesh(*command, "cursor")

    assert result.exit_code == 40
    assert f"'{cursor}' was left as it is: line 3, column 5: " in result.stderr
    assert cursor.read_text() == '{\n  "mcpServers": {\n    oops\n'
    assert list(cursor.parent.iterdir()) == [cursor]
    assert not mesh.board_path.exists()


def test_print_shows_the_entry_and_changes_nothing(mesh, cursor, tmp_path):
    """Not even a broken file is in its way: where it belongs is said on stderr."""
    cursor.write_text("{")
    result = mesh("install", "cursor", "--print", "--agent", "ada")
    toml = mesh("install", "codex", "--print")

    assert json.loads(result.stdout) == {"mcpServers": {"agentmesh": expected(mesh.board_path, "--agent", "ada")}}
    assert str(cursor) in result.stderr
    assert tomllib.loads(toml.stdout) == {"mcp_servers": {"agentmesh": expected(mesh.board_path)}}
    assert cursor.read_text() == "{"
    assert not mesh.board_path.exists()
    assert not (tmp_path / "home" / ".codex").exists()


def test_every_answer_has_its_document(mesh, cursor):
    """With what was done, and where."""
    entry = expected(mesh.board_path)
    place = {"client": "cursor", "scope": "project", "config": str(cursor), "name": "agentmesh"}
    added = mesh.json("install", "cursor")

    assert added == place | entry | {"board": str(mesh.board_path), "made": True, "changed": True} | {
        "backup": added["backup"]
    }
    assert mesh.json("install", "cursor", "--print") == place | entry
    assert mesh.json("uninstall", "cursor").keys() == {*place, "changed", "backup"}
    assert mesh.json("install").keys() == {"clients"}


def test_quiet_says_nothing(mesh):
    """The exit code is enough."""
    assert [mesh(word, "cursor", "-q").output for word in ("install", "install", "uninstall", "uninstall")] == [""] * 4


def test_a_file_elsewhere_is_named(mesh, tmp_path):
    """For a client with another home, or one that is not in the table."""
    file = tmp_path / "sub" / "other.json"
    answer = mesh.json("install", "claude-desktop", "--config", str(file))

    assert (answer["config"], "scope" in answer) == (str(file), False)
    assert servers(file) == {"agentmesh": expected(mesh.board_path)}


def test_the_project_is_the_nearest_folder_with_a_board_or_a_repository(mesh, in_an_empty_folder, monkeypatch):
    """From wherever in it one calls."""
    (in_an_empty_folder / ".git").mkdir()
    below = in_an_empty_folder / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)

    answer = mesh.json("install", "claude-code")
    assert answer["config"] == str(in_an_empty_folder / ".mcp.json")
    assert answer["board"] == str(mesh.board_path)


def test_the_board_is_the_one_that_is_meant_here(call, cursor, tmp_path):
    """Found, named by an option relative to this folder, or by the environment; made where it is missing."""
    assert call.json("install", "cursor")["made"] is False
    named = call.json("install", "cursor", "--board", "other.db")
    assert (named["board"], named["made"]) == (str(cursor.parents[1] / "other.db"), True)
    assert (cursor.parents[1] / "other.db").is_file()
    assert servers(cursor)["agentmesh"] == expected(named["board"])
    from_env = call.json("install", "cursor", env={"AGENTMESH_BOARD": str(tmp_path / "e.db")})
    assert servers(cursor)["agentmesh"] == expected(from_env["board"]) == expected(tmp_path / "e.db")


def test_a_board_of_another_user_is_not_served(call, cursor, monkeypatch):
    """Nor is one made in its place."""
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    before = cursor.read_bytes()

    assert call("install", "cursor").exit_code == 28
    assert cursor.read_bytes() == before


def test_a_typing_error_in_the_board_makes_no_folders(mesh, cursor):
    """And the client's file stays as it was."""
    before = cursor.read_bytes()

    assert mesh("install", "cursor", "--board", "no/such/board.db").exit_code == 2
    assert cursor.read_bytes() == before


@pytest.mark.parametrize(
    "wrong",
    [
        ("cursor", "--name", ""),
        ("cursor", "--name", "a b"),
        ("cursor", "--agent", ""),
        ("cursor", "--profile", "boss"),
        ("cursor", "--board", "${HOME}.db"),
        ("cursor", "--board", os.fsdecode(b"\xff.db")),
        ("claude-desktop", "--scope", "project"),
        ("emacs",),
    ],
)
def test_what_no_client_could_use_is_a_wrong_call(mesh, cursor, wrong):
    """Nothing is written, and no board made."""
    before = cursor.read_bytes()

    assert mesh("install", *wrong).exit_code == 2
    assert cursor.read_bytes() == before
    assert not mesh.board_path.exists()


def test_a_link_out_of_the_project_is_not_followed(mesh, in_an_empty_folder, tmp_path):
    """A checkout does not choose which file of its user is edited; the user may."""
    outside = tmp_path / "home" / "precious.json"
    outside.write_text("{}")
    (in_an_empty_folder / ".mcp.json").symlink_to(outside)

    assert mesh("install", "claude-code").exit_code == 40
    assert outside.read_text() == "{}"
    assert mesh("install", "claude-code", "--config", str(outside)).exit_code == 0


def test_the_list_says_who_is_here_and_where_our_server_is_in(mesh, tmp_path, home):
    """Also of a file that cannot be read."""
    mesh("install", "cursor")
    (home / ".claude.json").write_text("{")
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.touch(0o755)
    (home / ".cursor").mkdir()
    rows = {(row["client"], row["scope"]): row for row in mesh.json("install", "--list")["clients"]}

    assert {key: Path(row["config"]) for key, row in rows.items()} == {k: tmp_path / v for k, v in PLACES.items()}
    assert {client for (client, _), row in rows.items() if row["found"]} == {"claude-code", "cursor"}
    assert [key for key, row in rows.items() if row["installed"]] == [("cursor", "project")]
    assert "line 1, column 2" in rows["claude-code", "user"]["problem"]
    assert [line.split()[3] for line in mesh("install").stdout.splitlines()].count("broken") == 1
