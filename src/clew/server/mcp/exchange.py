"""One request through the SDK: what a client sent goes in, what it is answered comes out in pieces.

Each request is an exchange of its own, with a task of its own that ends with it. Nothing is kept between two
of them: so any process answers, and a server that was started anew too, and there is nothing to end when it
stops. Clients of the revisions up to 2025-11-25 need no session for that, and later ones have none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, MutableMapping
from typing import Any, Final, NamedTuple, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from clew.server.mcp.factory import Context, make_server
from clew.server.mcp.view import View

Message: TypeAlias = MutableMapping[str, Any]

PASSED: Final = ("accept", "content-type")
"""Headers that the SDK gets, beside the protocol's own. It needs no token and no cookie."""
OWN: Final = "mcp-"
_VIEW: Final = "view"


class Reply(NamedTuple):
    """An answer that has begun."""

    status: int
    media_type: str
    pieces: AsyncGenerator[bytes]
    end: Callable[[], object]
    """Ends the pieces soon: for a stream that would go on."""


class Exchanges:
    """The SDK's server, for any number of requests at once."""

    def __init__(self) -> None:
        self._server = make_server(_view_of)
        self._running: set[asyncio.Task[None]] = set()
        """The event loop alone would forget them."""

    async def begin(self, view: View, headers: Mapping[str, str], body: bytes) -> Reply:
        """Let the SDK answer a request; returns when the answer has begun."""
        sender, receiver = anyio.create_memory_object_stream[Message]()
        exchange = _Exchange(self._server, _scope(view, headers), body, sender)
        task = asyncio.create_task(exchange.run(), name="clew-mcp")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            start = await receiver.receive()
        except anyio.EndOfStream:
            await task  # raises what went wrong
            raise RuntimeError("the SDK answered nothing") from None
        except BaseException:
            # Not waited for: a tool that runs in a thread is not interrupted.
            task.cancel()
            receiver.close()
            raise
        told = {name.decode("latin-1"): value.decode("latin-1") for name, value in start.get("headers", ())}
        media_type = told.get("content-type", "application/json")
        return Reply(start["status"], media_type, _pieces(receiver, task), task.cancel)


class _Exchange:
    """One request, as the SDK sees it."""

    def __init__(
        self,
        server: Server[Any],
        scope: Mapping[str, Any],
        body: bytes,
        sender: MemoryObjectSendStream[Message],
    ) -> None:
        self._server = server
        self._scope = dict(scope)
        self._body: bytes | None = body
        self._sender = sender

    async def run(self) -> None:
        # Answers are whole JSON: none of ours tells of its progress. Streams of changes are streams all the
        # same.
        manager = StreamableHTTPSessionManager(self._server, stateless=True, json_response=True)
        async with self._sender, manager.run():
            await manager.handle_request(self._scope, self._receive, self._sender.send)

    async def _receive(self) -> Message:
        if self._body is None:
            await anyio.sleep_forever()  # whoever began the exchange ends it when the client goes
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def _pieces(
    receiver: MemoryObjectReceiveStream[Message], task: asyncio.Task[None]
) -> AsyncGenerator[bytes]:
    try:
        async for message in receiver:
            yield message.get("body", b"")
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()
    finally:
        task.cancel()
        receiver.close()


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
