"""What happens to messages between a session and its server. Without a fault: nothing.

The faults are made here, at the streams of the SDK, so they are the same for every transport and leave both the
session and the server as they are. What the caller of a struck call gets, at once and without a real wait:

* `lost_request`, `lost_reply`: the SDK's own timeout error; after a lost reply the server has done the call by then.
* `duplicate`: the first answer, when the call has been done twice. It arrives again as soon as it was answered, and
  does not wait then (`wait_sec`): what it does is done when the caller goes on.
* `delay`: its answer, once the board's clock has come far enough for the call to arrive.
* `disconnect`: the SDK's "Connection closed", as all other calls under way; the session is of no use any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

from agentmesh.model import Json
from pytest_agentmesh import durations
from pytest_agentmesh.faults import Fault
from pytest_agentmesh.sessions.delays import pause
from pytest_agentmesh.sessions.sdk import CLOSED, Message, Sdk
from pytest_agentmesh.sessions.strikes import Strikes

AGAIN: Final = "again-"
"""Before the id of a call that arrives for the second time."""


class Incoming(Protocol):
    """A stream of messages from a server."""

    async def receive(self) -> Any:
        """The next one."""
        ...

    async def aclose(self) -> None:
        """Take no more."""
        ...


class Outgoing(Protocol):
    """A stream of messages to a server."""

    async def send(self, item: Any, /) -> None:
        """One more."""
        ...

    async def aclose(self) -> None:
        """Send no more."""
        ...


@dataclass(slots=True, eq=False)
class Struck:
    """A call under way that meets a fault; if it arrives again, with what, and what was answered first."""

    fault: Fault
    tool: str
    again: Any = None
    answer: Any = None


class Connection:
    """One connection of a session. The two streams of its ends are `incoming` and `outgoing`."""

    def __init__(
        self, sdk: Sdk, incoming: Incoming, outgoing: Outgoing, strikes: Strikes, *, words: Callable[[], str]
    ) -> None:
        """Stand between them.

        Args:
            sdk: What the messages are made with.
            incoming: From the server.
            outgoing: To the server.
            strikes: What goes wrong.
            words: What callers are told when the server has gone.
        """
        import anyio

        self._anyio = anyio
        self._sdk = sdk
        self._from, self._to = incoming, outgoing
        self._strikes = strikes
        self._words = words
        self._awaited: set[Json] = set()
        self._struck: dict[Json, Struck] = {}
        self._broken = False
        self.incoming, self.outgoing = IncomingEnd(self), OutgoingEnd(self)

    async def send(self, item: Any) -> None:
        """A message from the session."""
        if self._broken:
            raise self._anyio.ClosedResourceError
        message = self._sdk.document(item)
        if (request_id := message.get("id")) is not None and "method" in message:
            self._awaited.add(request_id)
        self._forget_cancelled(message)
        fault = self._fault(message)
        if fault is None:
            await self._to.send(item)
        else:
            await self._strike(fault, item, request_id, message["params"])

    async def receive(self) -> Any:
        """The next message for the session. Those who still wait are told when there will be none."""
        while True:
            try:
                item = await self._from.receive()
            except (self._anyio.EndOfStream, self._anyio.ClosedResourceError):
                if not self._awaited:
                    raise
                return self._sdk.refusal(self._awaited.pop(), CLOSED, self._words())
            message = self._sdk.document(item)
            if "method" in message or "id" not in message:
                return item
            if (answer := await self._answer(message["id"], item)) is not None:
                self._awaited.discard(self._sdk.document(answer)["id"])
                return answer

    async def close_incoming(self) -> None:
        """The session takes no more."""
        await self._from.aclose()

    async def close_outgoing(self) -> None:
        """The session sends no more."""
        self._broken = True
        await self._to.aclose()

    def _fault(self, message: Message) -> Fault | None:
        params = message.get("params")
        if message.get("method") != "tools/call" or not isinstance(params, dict):
            return None
        arguments = params.get("arguments")
        return self._strikes.reached(str(params.get("name")), arguments.get("agent_id") if arguments else None)

    async def _strike(self, fault: Fault, item: Any, request_id: Json, params: Message) -> None:
        tool, words = str(params["name"]), f"Request 'tools/call' timed out ({fault})"
        match fault.kind:
            case "lost_request":
                self._awaited.discard(request_id)
                self._strikes.mark(fault, tool, "the request was lost")
                raise self._sdk.timed_out(words)
            case "delay":
                late_us = durations.micros(fault.sec or 0)
                await pause(self._strikes.clock, late_us)
                self._strikes.mark(fault, tool, f"the request arrived {durations.words(late_us)} late")
                await self._to.send(item)
            case "disconnect":
                self._strikes.mark(fault, tool, "the connection broke before the request arrived")
                await self.close_outgoing()
            case "duplicate":
                arguments = {
                    name: value for name, value in (params.get("arguments") or {}).items() if name != "wait_sec"
                }
                again = self._sdk.altered(item, f"{AGAIN}{request_id}", params | {"arguments": arguments})
                self._struck[request_id] = Struck(fault, tool, again)
                await self._to.send(item)
            case _:
                self._struck[request_id] = Struck(fault, tool)
                await self._to.send(item)

    async def _answer(self, request_id: Json, item: Any) -> Any:
        """What becomes of an answer; None where the session gets nothing now."""
        struck = self._struck.pop(request_id, None)
        if struck is None:
            return item
        if struck.fault.kind == "lost_reply":
            self._strikes.mark(struck.fault, struck.tool, "it was done, and the reply was lost")
            words = f"Request 'tools/call' timed out ({struck.fault})"
            return self._sdk.refusal(request_id, self._sdk.timeout_code, words)
        if struck.answer is None:
            struck.answer = item
            self._struck[f"{AGAIN}{request_id}"] = struck
            await self._to.send(struck.again)
            return None
        self._strikes.mark(struck.fault, struck.tool, "the request arrived twice")
        return struck.answer

    def _forget_cancelled(self, message: Message) -> None:
        if message.get("method") == "notifications/cancelled" and isinstance(params := message.get("params"), dict):
            self._awaited.discard(params.get("requestId"))


class End:
    """What the two ends have in common: they are managers of themselves."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def aclose(self) -> None:
        """Close it."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class IncomingEnd(End):
    """What a session reads."""

    async def receive(self) -> Any:
        """The next message."""
        return await self._connection.receive()

    async def aclose(self) -> None:
        """Take no more."""
        await self._connection.close_incoming()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        import anyio

        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class OutgoingEnd(End):
    """What a session writes."""

    async def send(self, item: Any) -> None:
        """One more message."""
        await self._connection.send(item)

    async def aclose(self) -> None:
        """Send no more."""
        await self._connection.close_outgoing()
