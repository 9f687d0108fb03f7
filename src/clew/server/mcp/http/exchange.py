"""One request through the SDK: what a client sent goes in, what it is answered comes out in pieces.

Each request is an exchange of its own, with a task of its own that ends with it. Nothing is kept between two
of them: so any process answers, and a server that was started anew too, and there is nothing to end when it
stops. Clients of the revisions up to 2025-11-25 need no session for that, and later ones have none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, MutableMapping
from typing import Any, Final, TypeAlias

import anyio
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from clew.server.live.hub import Hub
from clew.server.mcp.factory import Context, make_server
from clew.server.mcp.view import View

Message: TypeAlias = MutableMapping[str, Any]

PASSED: Final = ("accept", "content-type")
"""Headers that the SDK gets, beside the protocol's own. It needs no token and no cookie."""
OWN: Final = "mcp-"
PATIENCE: Final = 120.0
"""Seconds after which nobody is there any more who would take a piece of an answer."""
_VIEW: Final = "view"


class Exchanges:
    """The SDK's server, for any number of requests at once."""

    def __init__(self, hub: Hub) -> None:
        self._server = make_server(_view_of, hub=hub)
        self._running: set[Exchange] = set()
        """The event loop alone would forget them."""

    def new(self, view: View, headers: Mapping[str, str], body: bytes) -> Exchange:
        """One that has begun."""
        one = Exchange(self._server, _scope(view, headers), body)
        self._running.add(one)
        one.task.add_done_callback(lambda _: self._running.discard(one))
        return one


class Exchange:
    """One request on its way through the SDK. First `begin`, then `async for piece in exchange`, and `close`
    whatever happens."""

    def __init__(self, server: Server[Any], scope: dict[str, Any], body: bytes) -> None:
        self.status = 0
        self.media_type = ""
        self._server = server
        self._scope = scope
        self._body: bytes | None = body
        self._sender, self._receiver = anyio.create_memory_object_stream[Message]()
        self.task = asyncio.create_task(self._run(), name="clew-mcp")
        self.task.add_done_callback(lambda _: self._sender.close())

    async def begin(self) -> None:
        """Wait until the answer begins: its status and its type are known then."""
        try:
            start = await self._receiver.receive()
        except anyio.EndOfStream:
            self.task.result()  # raises what went wrong
            raise RuntimeError("the SDK answered nothing") from None
        self.status = start["status"]
        self.media_type = dict(start["headers"]).get(b"content-type", b"application/json").decode("latin-1")

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        async for message in self._receiver:
            yield message.get("body", b"")
        if not self.task.cancelled():
            self.task.result()

    def close(self) -> None:
        """Idempotent. A tool that runs in a thread is neither interrupted nor waited for."""
        self.task.cancel()
        self._receiver.close()

    async def _run(self) -> None:
        # Answers are whole: no tool tells of its progress. A stream of changes is a stream all the same.
        manager = StreamableHTTPSessionManager(self._server, stateless=True, json_response=True)
        async with manager.run():
            await manager.handle_request(self._scope, self._receive, self._send)

    async def _receive(self) -> Message:
        if self._body is None:
            await anyio.sleep_forever()  # whoever began the exchange closes it when the client goes
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: Message) -> None:
        with anyio.fail_after(PATIENCE):
            await self._sender.send(message)


def _scope(view: View, headers: Mapping[str, str]) -> dict[str, Any]:
    """Of a request that is made anew: with nothing of the client's but what the protocol reads."""
    passed = {name: value for name, value in headers.items() if name in PASSED or name.startswith(OWN)}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "query_string": b"",
        "root_path": "",
        # Blanks around a value are no part of it; the parser leaves those behind it.
        "headers": [
            (name.encode("latin-1"), value.strip(" \t").encode("latin-1")) for name, value in passed.items()
        ],
        "client": None,
        "server": None,
        "state": {_VIEW: view},
    }


def _view_of(context: Context) -> View:
    """What was put beside the request when its token was checked; nothing that the client says."""
    assert context.request is not None
    view: View = context.request.scope["state"][_VIEW]
    return view
