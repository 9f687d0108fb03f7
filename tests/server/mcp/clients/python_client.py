"""The Python client of the protocol's own SDK, connected to a server in each of the ways that there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.server.process.commands import PATIENCE, Serving

Use = Callable[[Client], Awaitable[None]]

NEW: Final = "2026-07-28"
MODES: Final = {"legacy": "2025-11-25", NEW: NEW}
"""How a client begins, and the revision that it speaks then. Not `auto`: it takes a server that needs ten
seconds to start for an old one."""


async def connect(target: Any, mode: str, use: Use, **options: Any) -> None:
    """Use a server in this process, or one that is started for it."""
    async with Client(target, mode=mode, **options) as client:
        assert client.protocol_version == MODES[mode]
        await use(client)


async def connect_over_http(server: Serving, mode: str, use: Use) -> None:
    """Use `clew serve`."""
    headers = {"authorization": f"Bearer {server.token}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=PATIENCE) as sender:
        await connect(streamable_http_client(f"{server.url}/mcp", http_client=sender), mode, use)


async def text_of(client: Client, uri: str) -> str:
    """A resource as Markdown."""
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, types.TextResourceContents)
    assert content.mime_type == "text/markdown"
    return content.text
