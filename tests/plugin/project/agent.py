"""An agent as a user would write it: it knows MCP, and nothing of the bench."""

import json


class Refused(Exception):
    """A tool refused; the document says why."""

    def __init__(self, document):
        super().__init__(document["message"])
        self.document = document


async def told(session, tool, **arguments):
    """What a tool answers."""
    result = await session.call_tool(tool, arguments)
    document = json.loads(result.content[0].text)
    if getattr(result, "is_error", None) or getattr(result, "isError", None):
        raise Refused(document)
    return document


async def work(session):
    """Do one task. Where no answer comes it says again that it is done; that it was done before is all right."""
    claim = await told(session, "claim_task")
    done = {"task_id": claim["task"]["id"], "result": {"ok": True}}
    try:
        await told(session, "complete_task", **done)
    except Exception as error:
        if "timed out" not in str(error):
            raise
        try:
            await told(session, "complete_task", **done)
        except Refused as refused:
            if refused.document.get("outcome") != "completed":
                raise
