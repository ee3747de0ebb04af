"""What every request has to pass, on every route: who may be asked for, from where, by whom, how often.

A web page in a browser on this machine can reach a port on loopback, by a name that resolves to it
(DNS rebinding) or by a plain form. So the Host must be one of ours, the Origin absent or ours, a
body JSON, and no answer carries a CORS header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import ceil
from typing import Final

from agentmesh.mcp_server.http.exchange import Exchange, Refusal
from agentmesh.mcp_server.tokens import Keyring, Token

RATE: Final = 50.0
BURST: Final = 200.0
MOST_HEAD: Final = 16 * 1024
"""Bytes of all names and values of a request's headers."""

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
JSON_TYPE: Final = re.compile(r"\s*application/json\s*(;.*)?", re.IGNORECASE | re.DOTALL).fullmatch
BEARER: Final = re.compile(r"bearer +([!-~]+) *", re.IGNORECASE).fullmatch


class Hosts:
    """The names under which the server may be asked for."""

    def __init__(self, names: Iterable[str], port: int) -> None:
        self._allowed: set[str] = set()
        for name in (*LOOPBACK, *names):
            self._allowed.add(name.lower())
            if not re.search(r":\d+$", name):
                self._allowed.add(f"{name.lower()}:{port}")
        if port != 80:  # noqa: PLR2004 - a client leaves out the port of plain HTTP only
            self._allowed -= set(LOOPBACK)
        self._origins = {f"{scheme}://{host}" for host in self._allowed for scheme in ("http", "https")}

    def check(self, exchange: Exchange) -> None:
        """Let through a request for one of our names, that no foreign page made.

        Raises:
            Refusal: it asks for another host, or a page of another origin made it.
        """
        host, origin = exchange.header("host"), exchange.header("origin")
        if host is None or host.lower() not in self._allowed:
            raise Refusal(421, "wrong_host", "This server has another name; --allow-host adds one.")
        if origin is not None and origin.lower() not in self._origins:
            raise Refusal(403, "foreign_origin", "Pages of other origins may not call this server.")


class Doorkeeper:
    """Tells tokens, and how often each may call."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._left: dict[str, tuple[float, float]] = {}

    def check(self, exchange: Exchange) -> Token | None:
        """Whose token the request carries; None where none is needed.

        Raises:
            Refusal: it has none that is good, or carries it where logs would keep it.
        """
        if exchange.scope["query_string"]:
            raise Refusal(400, "query_string", "No route takes a query string; a token goes into the header.")
        good = self._keyring.tokens()
        if not self._keyring.needed:
            return None
        presented = BEARER(exchange.header("authorization") or "")
        token = self._keyring.find(presented[1]) if presented and good else None
        if token is None:
            challenge = {"www-authenticate": 'Bearer realm="agentmesh"'}
            raise Refusal(401, "unauthorized", "This server wants a token: Authorization: Bearer ...", challenge)
        return token

    def good(self, token: Token | None) -> bool:
        """Whether whoever was let in with this would be let in now."""
        tokens = self._keyring.tokens()
        return token in tokens if self._keyring.needed else token is None

    def take_turn(self, token: Token, now_sec: float) -> None:
        """Count a request.

        Args:
            token: whose.
            now_sec: of any clock that is never set back.

        Raises:
            Refusal: there were too many of late.
        """
        left, at_sec = self._left.get(token.id, (BURST, now_sec))
        left = min(BURST, left + (now_sec - at_sec) * RATE)
        if left < 1:
            wait_sec = ceil((1 - left) / RATE)
            raise Refusal(429, "too_many_calls", "Too many calls; slow down.", {"retry-after": str(wait_sec)})
        self._left[token.id] = left - 1, now_sec


def check_head(exchange: Exchange) -> None:
    """Let through a head of a decent size; uvicorn only looks at those that come in pieces.

    Raises:
        Refusal: it is larger.
    """
    if sum(len(name) + len(value) for name, value in exchange.scope["headers"]) > MOST_HEAD:
        raise Refusal(431, "head_too_large", f"The headers of a request have at most {MOST_HEAD} bytes.")


def check_json(exchange: Exchange) -> None:
    """Let through what says that it is JSON: a form or plain text could come from any page.

    Raises:
        Refusal: it says something else.
    """
    if not JSON_TYPE(exchange.header("content-type") or ""):
        raise Refusal(415, "no_json", "Send application/json.")
