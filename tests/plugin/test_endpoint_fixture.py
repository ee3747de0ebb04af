"""The fixture `mesh_model`: scripts that were not said to the end fail the test, in its body's place."""

import textwrap
from pathlib import Path

import pytest

from tests.plugin import golden

PAGE = Path(__file__).parents[2] / "docs" / "testing-model.md"
AGENT = """
import json
import os
from urllib.request import Request, urlopen

import pytest
from pytest_agentmesh import call, text


def ask(**more):
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}], **more}).encode()
    key = {"X-Api-Key": os.environ["ANTHROPIC_API_KEY"]}
    with urlopen(Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body, key)) as answer:
        return json.load(answer)["content"][0]["text"]
"""


@pytest.fixture
def outcome(pytester):
    """Runs a test of somebody's agent."""

    def run(body):
        pytester.makepyfile(AGENT + body)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error")

    return run


def test_an_agent_finds_its_model_by_the_environment(outcome, monkeypatch):
    """Whatever was in the environment before is back after the test."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://somewhere.invalid")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid")
    outcome("""
def test_agent(mesh_model, mesh_board):
    mesh_model.script(text("hello"))
    assert ask() == "hello"
    assert "HTTPS_PROXY" not in os.environ
    assert mesh_board.ledger.report().total.tokens > 0

def test_after():
    assert os.environ["ANTHROPIC_BASE_URL"] == "https://somewhere.invalid"
    assert os.environ["HTTPS_PROXY"] == "http://proxy.invalid"
""").assert_outcomes(passed=2)


def test_a_script_that_was_not_said_to_the_end_fails_the_test(outcome):
    """As a failure of the test, not as an error of its teardown."""
    told = outcome("""
def test_agent(mesh_model):
    mesh_model.script(text("hello"), text("bye"))
    assert ask() == "hello"
""")
    told.assert_outcomes(failed=1)
    told.stdout.fnmatch_lines(
        ['E*AssertionError: mesh_model: agent "default" and its script did not agree, in 1 request']
    )


def test_what_the_model_missed_stands_beside_the_tests_own_failure(outcome):
    """The agent was told an error; the section says why."""
    told = outcome("""
def test_agent(mesh_model):
    mesh_model.script(call("claim_task"))
    ask()
""")
    told.assert_outcomes(failed=1)
    told.stdout.fnmatch_lines(
        ["E*HTTPError: HTTP Error 500*", "*Captured agentmesh expectations call*", "*the agent offered no tools*"]
    )


def test_the_page_shows_a_message_as_it_is():
    """To the letter."""
    message = (golden.HERE / "endpoint" / "stopped_after_words.txt").read_text("utf-8")
    assert textwrap.indent(message, "    ") in PAGE.read_text("utf-8")
