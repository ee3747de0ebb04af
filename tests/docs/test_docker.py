"""The image and its compose file: no root, no open port, no surprise; there is no engine here to build them with."""

import json
import re
import subprocess
import sys
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

ROOT = Path(__file__).parents[2]
PORT = "8765"


@pytest.fixture
def compose():
    """The compose file, as the engine reads it."""
    yaml = pytest.importorskip("yaml", reason="the dev extra has it")
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


@pytest.fixture
def service(compose):
    """The server in it."""
    return compose["services"]["agentmesh"]


def instructions():
    """The Dockerfile's instructions, each a word and what follows, on one line."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def last(word):
    """What the last instruction of this name says: it is the one in force."""
    return [rest for name, rest in instructions() if name == word][-1]


def check_command():
    """The health check, as the engine would run it."""
    return json.loads(last("HEALTHCHECK").partition("CMD ")[2])


def test_the_image_is_made_from_a_named_python_that_we_support():
    """The same for building and running, so that the wheels fit."""
    bases = {rest.split()[0] for word, rest in instructions() if word == "FROM"}
    [version] = [re.fullmatch(r"python:(\d+\.\d+)-slim", base)[1] for base in bases]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert f"Programming Language :: Python :: {version}" in project["classifiers"]


def test_it_runs_as_nobody_in_particular():
    """By number, so that an engine can tell; the board's folder is this user's alone."""
    words = [word for word, _ in instructions()]
    [run] = [rest for word, rest in instructions() if word == "RUN" and "/board" in rest]

    assert last("USER") == "10001:10001"
    assert words[::-1].index("USER") < words[::-1].index("RUN")
    assert "install -d -m 0700 -o 10001 -g 10001 /board" in run


def test_it_serves_the_board_in_the_volume():
    """Any other command of ours can be run in its place."""
    assert json.loads(last("ENTRYPOINT")) == ["agentmesh"]
    assert json.loads(last("CMD")) == ["serve", "--host", "0.0.0.0", "--port", PORT]
    assert last("EXPOSE") == PORT
    assert json.loads(last("VOLUME")) == ["/board"]
    assert "AGENTMESH_BOARD=/board/board.db" in last("ENV").split()


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_health_check_tells_well_from_ill(status, code):
    """Run as it is written, on another port."""

    class Health(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_):
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Health) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        python, *rest = check_command()
        asked = [part.replace(PORT, str(server.server_port)) for part in rest]
        done = subprocess.run([sys.executable, *asked], capture_output=True, check=False)
        thread.join()
    assert (python, done.returncode) == ("python", code)


def test_the_build_sees_what_it_copies_and_nothing_else():
    """No board, no secret, no history of the checkout gets into an image."""
    first, *rest = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] != "#"]
    copied = {name for word, line in instructions() if word == "COPY" for name in line.split()[:-1]}

    assert first == "*"
    assert {line[1:] for line in rest if line[0] == "!"} == copied
    assert all((ROOT / name).exists() for name in copied)
    assert "**/*.db*" in rest


def test_compose_keeps_the_board_in_a_named_volume(compose, service):
    """It outlives the container; nothing else can be written but a folder in memory."""
    assert service["volumes"] == ["board:/board"]
    assert list(compose["volumes"]) == ["board"]
    assert (service["read_only"], service["tmpfs"]) == (True, ["/tmp"])


def test_compose_lets_in_this_machine_only(service):
    """With no right that it does not need."""
    assert service["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "user", "network_mode", "pid"} & service.keys()


def test_compose_asks_after_its_health_as_the_image_does(service):
    """One check, wherever it is read."""
    assert service["build"] == "."
    assert service["healthcheck"]["test"] == ["CMD", *check_command()]
