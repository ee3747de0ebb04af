"""What a client of either major does: it reads asks, one on a line, and writes what the server answered.

An ask is the name of a method that the clients of both majors have, and its arguments; an answer is written by the
names of the protocol. This folder is run by the environment of its major, which knows nothing of ours.
"""

import importlib.metadata
import json
import sys

from anyio import to_thread


def bearer(tokens):
    """The headers that show a token, if there is one."""
    return {"Authorization": f"Bearer {tokens[0]}"} if tokens else {}


def tell(document):
    """Write one line."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


async def answer_asks(client, instructions, refused):
    """Greet with the version of the SDK and what the server said of itself, then answer until nothing more is asked."""
    tell({"sdk": importlib.metadata.version("mcp"), "instructions": instructions})
    while line := await to_thread.run_sync(sys.stdin.readline):
        method, arguments = json.loads(line)
        try:
            answer = await getattr(client, method)(**arguments)
        except refused as refusal:
            answer = refusal.error
        tell(answer.model_dump(mode="json", by_alias=True, exclude_none=True))
