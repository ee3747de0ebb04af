"""A scripted agent for the demo: a process of its own that works the board through MCP alone.

It knows no board API. Like an agent in an editor it starts the server (`python -m agentmesh.cli run`)
as its child and calls tools; what it does on a task stands in the task's payload.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from agentmesh.cli.demo_model import MODEL, SHARES, usage_of
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
    result = {"done": task["title"]}
    if "uses" in script:
        result["read"] = take_up(client, task, script["uses"])
    ask_model(client, task, float(script.get("work_sec", _WORK_SEC)))
    if "fails_first" in script and task["fence"] == 1:
        kind, error = script["fails_first"], "the test machine was restarted"
        client.call("fail_task", task_id=task["id"], error=error, kind=kind)
        return
    if "leaves" in script:
        leave(client, task, script["leaves"])
    client.call("complete_task", task_id=task["id"], result=result)


def ask_model(client: LineClient, task: dict[str, Any], work_sec: float) -> None:
    """Wait as long as a model would take, and report what it would have used, call by call."""
    for number, share in enumerate(SHARES):
        threading.Event().wait(work_sec * share)
        used = usage_of(task["id"], number)
        client.call("record_usage", task_id=task["id"], model=MODEL, usage=used, duration_ms=1000 * work_sec * share)


def leave(client: LineClient, task: dict[str, Any], artifact: dict[str, str]) -> None:
    """Put an artifact on the blackboard, for the tasks that come after; the lease signs it."""
    value = b64encode(artifact["text"].encode()).decode("ascii")
    place = {"namespace": task["plan"], "key": artifact["key"]}
    client.call("put_entry", **place, value=value, content_type=artifact["content_type"], task_id=task["id"])


def take_up(client: LineClient, task: dict[str, Any], key: str) -> dict[str, Any]:
    """Get an artifact that an earlier task left; what it is, to the last bit."""
    entry = client.call("get_entry", namespace=task["plan"], key=key)
    data = b64decode(entry["value"])
    return {"key": key, "bytes": len(data), "sha256": sha256(data).hexdigest()}


def _read(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A scripted agent for the demo.")
    parser.add_argument("name")
    parser.add_argument("--board", required=True)
    parser.add_argument("--plan", required=True)
    parser.add_argument("--capability", action="append", default=[])
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
