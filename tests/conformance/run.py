"""The public conformance suite of MCP and the public Inspector, run against our server: `make conformance`.

The suite speaks HTTP only; the Inspector speaks with both fronts, in both eras. What of the suite is not for us, and
why, stands in a file for each revision of the protocol. This ends with 1 after an unexpected failure, and after an
expected one that did not come.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from agentmesh import Board
from agentmesh.mcp_server.offer import offer
from tests.mcp_server.driver import DEADLINE_SEC, run_command

NODE = "node@22"
"""The packages below need it; npm brings it along."""
RELEASED = "@modelcontextprotocol/conformance@0.1.16"
NEWEST = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"

SUITES = (
    ("2025-11-25", RELEASED, "--spec-version"),
    ("2025-11-25", NEWEST, "--requirements"),
    ("2026-07-28", NEWEST, "--requirements"),
)
ASKS = (
    ("--method", "tools/list", "--strict"),
    ("--method", "tools/call", "--tool-name", "board_status"),
)

PASSED = re.compile(r"^✓ ([\w-]+): [1-9]\d* passed", re.MULTILINE)
EXPECTED = re.compile(r"^  - (([\w-]+):[\w-]+)$", re.MULTILINE)
CAME = re.compile(r"^  ~ (\S+)$", re.MULTILINE)


def main():
    """Run everything; whether anything was not as expected."""
    if shutil.which("npx") is None:
        sys.exit("make conformance needs npx, which comes with Node.js.")
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        board_path = folder / "board.db"
        Board.open(board_path).close()
        with serving(board_path) as url:
            for what, good, said in chain(suites(folder, url), inspections(folder, board_path, url)):
                print(f"{'ok' if good else 'FAILED':8}{what}: {said}", flush=True)
                failed |= not good
    return failed


@contextmanager
def serving(board_path):
    """The address of a server on HTTP, on a free port and without tokens."""
    command = [sys.executable, "-m", "agentmesh.cli", "serve", "--board", str(board_path), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stderr.readline()
            if not (found := re.search(r"serving (http://\S+)", line)):
                sys.exit(line)
            yield found[1]
        finally:
            process.terminate()
            process.communicate(timeout=DEADLINE_SEC)


def npx(folder, package, *words):
    """Run the program of a package."""
    command = ["npx", "--yes", "--loglevel=error", f"--package={NODE}", f"--package={package}", *words]
    return subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False
    )


def suites(folder, url):
    """Of each run of the suite: which it is, whether it went as expected, and what to say of it."""
    for revision, package, option in SUITES:
        text = Path(__file__).with_name(f"{revision}.yml").read_text("utf-8")
        checks, scenarios = map(set, zip(*EXPECTED.findall(text), strict=True))
        baseline = folder / "baseline.yml"
        # The released suite knows no checks, it excuses whole scenarios only.
        baseline.write_text(EXPECTED.sub(r"  - \2", text) if package == RELEASED else text, "utf-8")
        words = ("conformance", "server", "--url", url, option, revision, "--expected-failures", str(baseline))
        done = npx(folder, package, *words, "--output-dir", "results")
        passed = set(PASSED.findall(done.stdout)) - scenarios
        # It takes no offence at an expected failure that it never looked for.
        missing = (scenarios if package == RELEASED else checks) - set(CAME.findall(done.stdout))
        good = done.returncode == 0 and bool(passed) and not missing
        said = f"{len(passed)} scenarios pass, {len(scenarios)} need the suite's own server"
        yield f"{revision}, {package}", good, said if good else f"did not come: {missing}\n{done.stdout}{done.stderr}"


def inspections(folder, board_path, url):
    """Of each question to the Inspector: which it is, whether the answer was as expected, and what it was."""
    for front, target in (("stdio", run_command(board_path)), ("HTTP", [url])):
        for era in ("legacy", "modern"):
            for words in ASKS:
                options = ("--cli", "--protocol-era", era, "--format", "json", *words)
                done = npx(folder, INSPECTOR, "mcp-inspector", *options, *target)
                said = done.returncode == 0 and expected_in(json.loads(done.stdout)["result"])
                yield f"{front}, {era}, {INSPECTOR}", said, said or f"\n{done.stdout}{done.stderr}"


def expected_in(result):
    """What a good result has: all our tools, or the counts of the empty board."""
    if "tools" not in result:
        return result["structuredContent"]["total"] == 0 and "board_status answers"
    ours = [tool["name"] for tool in offer("all").lists(None)["tools"]]
    return [tool["name"] for tool in result["tools"]] == ours and f"{len(ours)} tools, no error in their schemas"


if __name__ == "__main__":
    sys.exit(main())
