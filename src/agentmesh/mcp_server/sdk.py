"""The server on the MCP SDK: what is offered on stdio, with the same lists and results.

The SDK is asynchronous, boards are not: whatever needs the board runs in a thread.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from agentmesh.clock import monotonic_sec
from agentmesh.errors import Overloaded
from agentmesh.mcp_server import about, resources
from agentmesh.mcp_server.conversation import CAPABILITIES
from agentmesh.mcp_server.flights import Flight, Progress
from agentmesh.mcp_server.lanes import Lanes
from agentmesh.mcp_server.offer import Offer
from agentmesh.mcp_server.protocol import ENVELOPE, INTERNAL_ERROR, INVALID_PARAMS, KEPT_MS, Message, Refused, Request
from agentmesh.mcp_server.reply import result_of, tool_result
from agentmesh.mcp_server.session import Call, Session
from agentmesh.mcp_server.told import told
from agentmesh.mcp_server.updates import Subscriptions, listen

TOLD_SEC: Final = 1.0
"""How long a thread waits for a client to take a word, before it looks whether the client still wants any."""

NOTIFICATIONS: Final[dict[str, Any]] = {
    "notifications/resources/updated": types.ResourceUpdatedNotification,
    "notifications/subscriptions/acknowledged": types.SubscriptionsAcknowledgedNotification,
}

Context = ServerRequestContext[Any, Any]
Work = Callable[[Call], Message]
Observe = Callable[[str, Message | None, float, bool], None]
"""Takes the name of a tool, its result (None: cancelled), how many seconds it took, and whether it may have waited."""


@dataclass(slots=True, eq=False)
class Subscriber:
    """What a session of the older era has subscribed to, once it has."""

    subscriptions: Subscriptions | None = None

    def close(self) -> None:
        """Tell it of nothing any more."""
        if self.subscriptions is not None:
            self.subscriptions.close()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the session it speaks in, what it is offered, who must know of its calls.

    `client` tells it from others that speak in the same session; None where nothing does.
    """

    session: Session
    offer: Offer
    subscriber: Subscriber = field(default_factory=Subscriber)
    departs: Callable[[Flight], object] = lambda _: None
    client: object = None


class Desk:
    """What the SDK's server asks: what there is, and what a call gives."""

    def __init__(self, caller: Callable[[Context], Caller], lanes: Lanes, observe: Observe = lambda *_: None) -> None:
        self._caller = caller
        self._lanes = lanes
        self._observe = observe

    def server(self) -> Server[Any]:
        """The server; it may serve many clients at once."""
        server: Server[Any] = Server(
            about.SERVER["name"],
            version=about.VERSION,
            title=about.SERVER["title"],
            cache_hints={method: CacheHint(ttl_ms=kept) for method, kept in KEPT_MS.items()},  # type: ignore[misc]  # ours are among theirs
            get_tool_input_schema=_nothing_in_headers,
            on_list_tools=partial(self._list, "tools", types.ListToolsResult),
            on_list_resources=partial(self._list, "resources", types.ListResourcesResult),
            on_list_resource_templates=partial(self._list, "resourceTemplates", types.ListResourceTemplatesResult),
            on_list_prompts=partial(self._list, "prompts", types.ListPromptsResult),
            on_call_tool=self._call_tool,
            on_get_prompt=self._get_prompt,
            on_read_resource=self._read_resource,
            on_subscribe_resource=partial(self._subscribe, ends=False),
            on_unsubscribe_resource=partial(self._subscribe, ends=True),
            on_subscriptions_listen=self._listen,
        )
        server.middleware.append(self._introduce)
        return server

    async def _introduce(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Say what our front on stdio says: the SDK has one text for all, and would promise lists that change."""
        if ctx.method == "logging/setLevel" and ctx.request_id is not None and ctx.protocol_version not in ENVELOPE:
            return {}
        result = await call_next(ctx)
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            result |= {"capabilities": CAPABILITIES, "instructions": self._caller(ctx).offer.instructions}
        return result

    async def _list(self, key: str, result: Any, context: Context, params: types.PaginatedRequestParams | None) -> Any:
        if params is not None and params.cursor is not None:
            raise MCPError(code=INVALID_PARAMS, message="Unknown cursor: the list has one page.")
        caller = self._caller(context)
        return result.model_validate({key: caller.offer.lists(caller.session.agent)[key]})

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        caller, arguments = self._caller(context), params.arguments or {}
        tool = caller.offer.tools.get(params.name)
        if tool is None:
            raise MCPError(code=INVALID_PARAMS, message="Unknown tool: name one that tools/list shows.")
        wait_sec = tool.wait_sec(arguments)
        result, began_sec = None, monotonic_sec()
        try:
            result = await self._fly(
                caller, context, lambda call: result_of(lambda: tool.run(call, arguments), call.take_back), wait_sec
            )
        except Overloaded as overloaded:
            result = tool_result(told(overloaded), is_error=True)
        finally:
            self._observe(tool.name, result, monotonic_sec() - began_sec, wait_sec > 0)
        return types.CallToolResult.model_validate(result)

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        prompt = self._caller(context).offer.prompts.get(params.name)
        if prompt is None:
            raise MCPError(code=INVALID_PARAMS, message="Unknown prompt: name one that prompts/list shows.")
        with _as_the_sdk_has_it():
            return types.GetPromptResult.model_validate(prompt.get(dict(params.arguments or {})))

    async def _read_resource(self, context: Context, params: types.ReadResourceRequestParams) -> Any:
        caller = self._caller(context)
        read = partial(resources.read, caller.session, str(params.uri))
        return types.ReadResourceResult.model_validate(await self._do(caller, context, lambda _: read()))

    async def _subscribe(self, context: Context, params: Any, *, ends: bool) -> types.EmptyResult:
        caller = self._caller(context)
        holder, loop = caller.subscriber, asyncio.get_running_loop()
        if holder.subscriptions is None:
            holder.subscriptions = Subscriptions(caller.session, Words(context, loop, None))
        change = holder.subscriptions.remove if ends else holder.subscriptions.add
        await self._do(caller, context, lambda _: change(str(params.uri)) or {})
        return types.EmptyResult()

    async def _listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        caller, loop = self._caller(context), asyncio.get_running_loop()
        wanted = params.notifications.resource_subscriptions or ()
        request = Request(context.request_id or 0, context.method, {})

        def work(call: Call) -> Message:
            return listen(call, request, wanted, Words(context, loop, call))

        return types.SubscriptionsListenResult.model_validate(await self._do(caller, context, work, math.inf))

    async def _do(self, caller: Caller, context: Context, work: Work, wait_sec: float = 0) -> Message:
        """Do what is no call of a tool: what is refused is an error of the protocol."""
        with _as_the_sdk_has_it():
            return await self._fly(caller, context, work, wait_sec)

    async def _fly(self, caller: Caller, context: Context, work: Work, wait_sec: float) -> Message:
        progress = Progress(lambda waited_sec: context.session.report_progress(waited_sec, wait_sec))
        flight = Flight(
            caller.session, self._lanes, progress.tell if 0 < wait_sec < math.inf else lambda: None, caller.client
        )
        caller.departs(flight)
        try:
            return await self._lanes.ask(lambda: flight.work(work), apart=wait_sec > 0)
        except asyncio.CancelledError:
            flight.lose()
            raise
        finally:
            progress.end()


class Words:
    """Brings notifications from a thread to a client, one after the other.

    Those of a call go with its answer and wait until they are taken, or until the call is to end; others go to where
    the client listens, if it does.
    """

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop, call: Call | None) -> None:
        self._context = context
        self._loop = loop
        self._call = call

    def __call__(self, message: Message) -> bool:
        """Bring one; whether it was taken."""
        if self._loop.is_closed():
            return False
        word = asyncio.run_coroutine_threadsafe(self._say(message), self._loop)
        while True:
            try:
                word.result(TOLD_SEC)
            except TimeoutError:
                if self._call is None or self._call.rest(0):
                    word.cancel()
                    return False
            else:
                return True

    async def _say(self, message: Message) -> None:
        notification = NOTIFICATIONS[message["method"]].model_validate(message)
        related = self._context.request_id if self._call is not None else None
        await self._context.session.send_notification(notification, related_request_id=related)


@contextmanager
def _as_the_sdk_has_it() -> Iterator[None]:
    """Errors of the protocol as the SDK raises them."""
    try:
        yield
    except Refused as refused:
        raise MCPError(code=refused.code, message=str(refused), data=refused.data) from None
    except Overloaded as overloaded:
        raise MCPError(code=INTERNAL_ERROR, message=overloaded.message, data=told(overloaded)) from None


def _nothing_in_headers(_: str) -> None:
    """Which arguments of a tool also travel in headers: without this answer the SDK lists all tools at each call."""
