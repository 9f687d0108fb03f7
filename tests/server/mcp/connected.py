"""A client of the SDK and a server of ours in one process, for tests of what the protocol offers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.session import MessageHandlerFnT
from mcp.shared.exceptions import MCPError

from clew.server.mcp.factory import make_server
from clew.server.mcp.view import View

T = TypeVar("T")

MODES = {"legacy": "2025-11-25", "auto": "2026-07-28"}
"""How a client begins, and the revision that both agree on."""


class Heard:
    """What a client of the older revision is told."""

    def __init__(self) -> None:
        self._told: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self, message: Any) -> None:
        assert isinstance(message, types.ResourceUpdatedNotification), message
        self._told.put_nowait(message.params.uri)

    async def next(self) -> str:
        return await self._told.get()


def connected(
    view: View,
    use: Callable[[Client], Awaitable[T]],
    mode: str = "auto",
    on_message: MessageHandlerFnT | None = None,
) -> T:
    """What a function does with a client."""

    async def run() -> T | MCPError:
        server = make_server(lambda _: view)
        async with Client(server, mode=mode, message_handler=on_message, cache=None) as client:
            assert client.protocol_version == MODES[mode]
            try:
                return await use(client)
            except MCPError as error:  # outside it would be a group of errors
                return error

    found = anyio.run(run)
    if isinstance(found, MCPError):
        raise found
    return found


def refused(view: View, use: Callable[[Client], Awaitable[object]], mode: str = "auto") -> Any:
    """The error that a server answers."""
    with pytest.raises(MCPError) as caught:
        connected(view, use, mode)
    return caught.value.error
