"""`/mcp` inside `clew serve`: what `clew mcp` offers, over HTTP and with the tokens of the server.

A request comes here as to every other route: its Host and Origin, its token and the limits of its caller are
checked, and its body is read. What the token may see and do is all that the tools see and do. The SDK is
loaded at the first request.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from clew.core.conversation.sessions import normalised
from clew.server.access.sign_in import refused
from clew.server.call import Answer, Call
from clew.server.decoding import check_json
from clew.server.live import sse
from clew.server.live.hub import Hub
from clew.server.problems import Problem
from clew.server.routing import Routes

if TYPE_CHECKING:
    from clew.server.mcp.http.exchange import Exchange, Exchanges
    from clew.server.mcp.view import View

PACKAGE: Final = "mcp>=2.1,<3"
"""What the extra `mcp` brings, as in pyproject.toml."""
MOST: Final = 1024 * 1024
"""Bytes of a request: a call of a tool is small."""

routes = Routes(prefix="")


class McpQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client's configuration can say in the address."""

    workspace: str | None = None
    """The directory that `here` stands for; None: all that the token may see."""
    session: str | None = None
    """The caller's own session, which is not found by itself."""


class Endpoint:
    """The SDK, once it is loaded. Safe from any thread."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._exchanges: Exchanges | None = None

    async def exchanges(self, call: Call) -> Exchanges:
        """Loads it if need be: about a second, in which other requests are answered. Problem 501: it is not
        installed."""
        if self._exchanges is not None:
            return self._exchanges
        return await call.server.in_thread(partial(self._load, call.server.hub), slow=True)

    def _load(self, hub: Hub) -> Exchanges:
        with self._mutex:
            if self._exchanges is None:
                try:
                    from clew.server.mcp.http.exchange import Exchanges
                except ModuleNotFoundError as error:
                    raise _not_installed(error.name) from error
                self._exchanges = Exchanges(hub)
            return self._exchanges


@routes.post("/mcp", scope="read", slow=True, private=True, max_body=MOST)
async def exchange_message(call: Call, query: McpQuery, body: bytes) -> Answer:
    """One message of the Model Context Protocol, and its answer."""
    if call.principal.by_cookie:
        raise refused("a cookie is not enough here: a page can make a browser send it")
    check_json(call.headers)
    exchanges = await call.server.mcp.exchanges(call)
    view = await call.server.in_thread(partial(_view, call, query))
    exchange = exchanges.new(view, call.headers, body)
    try:
        return await _answer(call, exchange)
    except BaseException:
        exchange.close()
        raise


async def _answer(call: Call, exchange: Exchange) -> Answer:
    limit = call.server.settings.timeout
    try:
        async with asyncio.timeout(limit):
            await exchange.begin()
            if exchange.media_type.partition(";")[0] != sse.MEDIA_TYPE:
                content = b"".join([piece async for piece in exchange])
                exchange.close()
                return Answer(value=content, status=exchange.status, media_type=exchange.media_type)
    except TimeoutError:
        raise _too_slow(limit) from None
    return Answer(
        status=exchange.status,
        headers=dict(sse.HEADERS),
        media_type=exchange.media_type,
        stream=_streamed(exchange),
        deadline=call.server.settings.stream_deadline,
    )


async def _streamed(exchange: Exchange) -> AsyncGenerator[bytes]:
    """A stream of changes. It ends by itself when the server stops, or the token is revoked."""
    try:
        async for piece in exchange:
            yield piece
    finally:
        exchange.close()


def _view(call: Call, query: McpQuery) -> View:
    from clew.server.mcp.view import View

    principal = call.principal
    return View(
        store=call.store,
        principal=principal,
        workspace=None if query.workspace is None else normalised(query.workspace),
        sees_all=True,
        writes=principal.may("write") and not call.server.settings.read_only,
        client=principal.name,
        session=query.session,
    )


def _not_installed(package: str | None) -> Problem:
    return Problem(
        501,
        "not_installed",
        "This server has no MCP",
        f"the package {package} is not installed where it runs",
        next=f"pip install '{PACKAGE}' there, and start it again",
    )


def _too_slow(seconds: float) -> Problem:
    return Problem(
        503,
        "timeout",
        "The request took too long",
        f"it was not done after {seconds:g} seconds; what it writes may still be written",
        next="ask for less: a smaller limit, fewer days, one workspace; look first whether a note is there",
    )
