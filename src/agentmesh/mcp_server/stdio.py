"""The server on stdio: small, synchronous, without the SDK and without asyncio.

Measured beside a server on the SDK (mcp 2.3) with one empty tool (`python -m benchmarks servers`): this one, on a real
board and started as clients start it, answers initialize in 0.22 of the time (130 ms), holds 0.42 of the memory (29 MB
against 67), and sixteen of it started at once on two cores all answer in 0.21 of the time. A heartbeat, which writes to
the board, takes 0.21 of the SDK's empty call. Every agent pays this at every start, and users' frameworks pin different
majors of the SDK.

One thread reads lines and answers at once what needs no board; `calls` does the rest. The main
thread only watches: for the end (the client closing its pipe, a signal, the parent's death), and for
a call that keeps the thread that reads, in whose place another then reads.
"""

from __future__ import annotations

import math
import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Final

from agentmesh import limits
from agentmesh.clock import Patience
from agentmesh.mcp_server import about, protocol, resources
from agentmesh.mcp_server.calls import Calls, Flight, Send, Work
from agentmesh.mcp_server.conversation import Ask, Conversation, Listen, PromptGet, ResourceRead, Subscribe, ToolCall
from agentmesh.mcp_server.log import flush, log, log_exception
from agentmesh.mcp_server.offer import Offer, offer
from agentmesh.mcp_server.opening import open_served
from agentmesh.mcp_server.profiles import DEFAULT, Profile
from agentmesh.mcp_server.protocol import Message, Notification, Refused, Request
from agentmesh.mcp_server.reply import result_of
from agentmesh.mcp_server.session import KEEPALIVE_STDIO_SEC, Call, Session
from agentmesh.mcp_server.updates import Subscriptions, listen
from agentmesh.mcp_server.wire import LONGEST_LINE, Wire
from agentmesh.model import Json
from agentmesh.store.base import Durability

LOOK_MS: Final = 200
"""How often the main thread looks whether the parent is still there, and whether a call keeps the reader."""

PATIENCE_SEC: Final = 1.5
"""How long calls under way may take to end; clients kill after two seconds."""

GONE: Final = 0
"""The client closed its pipe. Above zero it is the number of a signal."""

INTERRUPTED: Final = 130


class Batch:
    """The answers to an array of messages, which go out as one array when all are there."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._lock = threading.Lock()
        self._answers: list[Message] = []
        self._open = 1

    def expect(self) -> None:
        """One more answer will come."""
        with self._lock:
            self._open += 1

    def put(self, answer: Message | None) -> bool:
        """One answer, or word that there is none; the last one sends them all."""
        with self._lock:
            self._open -= 1
            if answer is not None:
                self._answers.append(answer)
            complete = self._open == 0
        if complete and self._answers:
            return self._wire.send(self._answers)
        return True


class Front:
    """What stands between the wire and what is offered."""

    def __init__(self, wire: Wire, session: Session, offered: Offer) -> None:
        self._wire = wire
        self._session = session
        self._offer = offered
        self._conversation = Conversation(about.SERVER, offered.instructions, offered.lists(session.agent))
        self._subscriptions = Subscriptions(session, wire.send)
        self._lines = wire.lines()
        self.calls = Calls(session, about.SERVER, self._send, quiet=lambda: wire.quiet)

    def read(self) -> bool:
        """Take lines until there are no more; false if another thread reads, or has taken over."""
        if not self.calls.take_reading():
            return False
        for line in self._lines:
            try:
                self._take(line)
            except Refused as refused:
                self._wire.send(protocol.failure(refused))
            except Exception:  # noqa: BLE001 - one bad line must not end the server
                log_exception("reading a line")
                error = Refused(protocol.INTERNAL_ERROR, "AgentMesh failed to read this line.")
                self._wire.send(protocol.failure(error))
            if not self.calls.reading:
                return False
            if self._wire.broken:
                break
        return True

    def close(self, *, answer: bool, patience_sec: float) -> bool:
        """End the session, and let the calls under way end as `Calls.close` does; whether they did so in time."""
        patience = Patience(int(patience_sec * 1_000_000))
        self._session.close()
        ended = self.calls.close(answer=answer, patience_sec=patience_sec)
        self._subscriptions.close(patience.left_sec)
        self._session.close(patience.left_sec)
        return ended

    def _take(self, line: bytes | None) -> None:
        if line is None:
            problem = f"A line has at most {LONGEST_LINE} bytes; this one was skipped."
            raise Refused(protocol.INVALID_REQUEST, problem)
        if line.isspace() or not line:
            return
        message = protocol.decoded(line)
        if isinstance(message, list):
            self._take_batch(message)
        else:
            self._take_one(message, self._send)

    def _take_batch(self, messages: list[Json]) -> None:
        if not (self._conversation.takes_batches and messages):
            raise Refused(protocol.INVALID_REQUEST, "Send one message a line, not an array.")
        batch = Batch(self._wire)
        for message in messages:
            batch.expect()
            self._take_one(message, batch.put)
        batch.put(None)

    def _take_one(self, message: Json, send: Send) -> None:
        try:
            match protocol.read(message):
                case Request() as request:
                    self._take_request(request, send)
                case Notification() as notification:
                    self._take_notification(notification)
                    send(None)
                case None:
                    send(None)
        except Refused as refused:
            send(protocol.failure(refused))

    def _take_request(self, request: Request, send: Send) -> None:
        try:
            answer = self._conversation.answer(request)
            if isinstance(answer, dict):
                send(protocol.success(request, answer, about.SERVER))
            else:
                work, wait_sec = self._work(request, answer)
                self.calls.start(Flight(request, work, send, wait_sec))
        except Refused as refused:
            send(protocol.failure(refused, request.id))

    def _work(self, request: Request, ask: Ask) -> tuple[Work, float]:
        """What is to be done, and how long it may sleep."""
        match ask:
            case ToolCall(name, arguments):
                tool = self._offer.tools[name]
                return lambda call: result_of(lambda: tool.run(call, arguments), call.take_back), tool.wait_sec(
                    arguments
                )
            case PromptGet(name, arguments):
                return lambda _: self._offer.prompts[name].get(arguments), 0
            case ResourceRead(uri):
                return lambda call: resources.read(call.session, uri), 0
            case Subscribe(uri, ends):
                return partial(self._subscribe, uri, ends=ends), 0
            case Listen(uris):
                return lambda call: listen(call, request, uris, self._wire.send), math.inf

    def _subscribe(self, uri: str, _: Call, *, ends: bool) -> Message:
        if ends:
            self._subscriptions.remove(uri)
        else:
            self._subscriptions.add(uri)
        return {}

    def _take_notification(self, notification: Notification) -> None:
        """A call may be cancelled; all else that clients tell us changes nothing."""
        if notification.method == "notifications/cancelled":
            request_id = notification.params.get("requestId")
            if protocol.is_id(request_id):
                self.calls.cancel(request_id)

    def _send(self, answer: Message | None) -> bool:
        return answer is None or self._wire.send(answer)


class End:
    """What ends the server. Made and awaited in the main thread, which takes the signals."""

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._heard, self._said = os.pipe()
        os.set_blocking(self._said, False)
        signal.set_wakeup_fd(self._said, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _heard_by_wakeup_fd)

    def say(self) -> None:
        """The client has gone."""
        os.write(self._said, bytes([GONE]))

    def wait(self, look: Callable[[], object] = lambda: None) -> int:
        """Sleep until something ends the server: GONE, or a signal's number. Now and then, `look`."""
        poll = select.poll()
        poll.register(self._heard, select.POLLIN)
        while not poll.poll(LOOK_MS):
            if os.getppid() != self._parent:
                log("the parent process has gone")
                return GONE
            look()
        return os.read(self._heard, 1)[0]


def _heard_by_wakeup_fd(_: int, __: FrameType | None) -> None:
    """Python writes the signal's number into the pipe; nothing is left to do."""


def serve_stdio(
    board_path: str | os.PathLike[str],
    *,
    agent: str | None = None,
    profile: Profile = DEFAULT,
    keepalive_sec: float = KEEPALIVE_STDIO_SEC,
    durability: Durability = "full",
    test_clock: bool = False,
) -> int:
    """Serve one MCP client on stdin and stdout until it goes or the process is told to end.

    Args:
        board_path: The board; it is created if it is not there.
        agent: Whom the session speaks for; no call may name another agent then.
        profile: What the session is shown.
        keepalive_sec: How long after the last call that named a task its lease is renewed.
        durability: As `Board.open` takes it.
        test_clock: Whether it is a test's board, which goes by the clock cell beside it.

    Returns:
        The exit code of the process.

    Raises:
        AgentMeshError: the board cannot be opened, or nobody can be called so.
    """
    wire = Wire.take()
    if agent is not None:
        limits.name("agent", agent)
    with open_served(board_path, durability=durability, test_clock=test_clock) as board:
        session = Session(board, agent=agent, profile=profile, keepalive_sec=keepalive_sec)
        return serve(wire, session, offer(profile))


def serve(wire: Wire, session: Session, offered: Offer) -> int:
    """Serve one client with what it is offered; the exit code of the process."""
    end = End()
    front = Front(wire, session, offered)

    def read() -> None:
        if front.read():
            end.say()

    def begin_reading() -> None:
        threading.Thread(target=read, name="reader", daemon=True).start()

    def look() -> None:
        if front.calls.reader_calls:
            with suppress(RuntimeError):  # the system has no thread left: the call will end some time
                begin_reading()

    begin_reading()
    reason = end.wait(look)
    code = INTERRUPTED if reason == signal.SIGINT else 0
    if not front.close(answer=reason == GONE, patience_sec=PATIENCE_SEC):
        log("calls under way did not end in time; their transactions are rolled back")
        flush()
        os._exit(code)
    return code
