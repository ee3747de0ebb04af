"""A scripted agent for the demo: a process of its own that works the board through MCP alone.

It knows no board API. Like an agent in an editor it starts the server (`python -m agentmesh.cli run`)
as its child and calls tools; what it does on a task stands in the task's payload.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

from agentmesh.cli.line_client import CallFailed, LineClient

_WAIT_SEC: Final = 2
_WORK_SEC: Final = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Work until the plan is done."""
    options = _read(arguments)
    server = [sys.executable, "-m", "agentmesh.cli", "run"]
    server += ["--agent", options.name, "--board", options.board]
    try:
        with LineClient(server, options.name) as client:
            sys.stdout.write(json.dumps({"server_pid": client.pid}) + "\n")
            sys.stdout.flush()
            work(client, options.plan, options.capability)
    except KeyboardInterrupt:
        return 130
    return 0


def work(client: LineClient, plan: str, capabilities: Sequence[str]) -> None:
    """Claim, work, report; until there is nothing left to wait for."""
    while True:
        claim = client.call("claim_task", plan=plan, capabilities=list(capabilities), wait_sec=_WAIT_SEC)
        if claim["claimed"]:
            try:
                work_on(client, claim["task"])
            except CallFailed as refused:  # such as a lease that was lost: go on with another task
                sys.stderr.write(f"{refused.code}: {refused}\n")
        elif claim["advice"] == "stop":
            return


def work_on(client: LineClient, task: dict[str, Any]) -> None:
    """Do what the payload says, for as long as it says; the server renews the lease meanwhile."""
    script = task.get("payload") or {}
    threading.Event().wait(float(script.get("work_sec", _WORK_SEC)))
    if "fails_first" in script and task["fence"] == 1:
        kind, error = script["fails_first"], "the test machine was restarted"
        client.call("fail_task", task_id=task["id"], error=error, kind=kind)
    else:
        client.call("complete_task", task_id=task["id"], result={"done": task["title"]})


def _read(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A scripted agent for the demo.")
    parser.add_argument("name")
    parser.add_argument("--board", required=True)
    parser.add_argument("--plan", required=True)
    parser.add_argument("--capability", action="append", default=[])
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
