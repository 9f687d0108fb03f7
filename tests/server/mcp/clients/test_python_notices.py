"""Notices of changes by the Python client: another process appends, and whoever listens hears of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPDeprecationWarning

import clew
from tests.server.mcp.clients.python_client import NEW, Use, connect, connect_over_http, text_of
from tests.server.mcp.clients.samples import TEA
from tests.server.process.commands import PATIENCE, Serving


def append(home: Path) -> None:
    """From this process, which is not that of the server."""
    with clew.open(home / "agents.db") as store:
        store.get("tea").append({"role": "user", "content": "more tea, please"})


def listening(home: Path) -> Use:
    async def use(client: Client) -> None:
        with anyio.fail_after(PATIENCE):
            async with client.listen(resource_subscriptions=[TEA]) as notices:
                await anyio.to_thread.run_sync(append, home)
                async for notice in notices:
                    assert notice == ResourceUpdated(TEA)
                    break
        assert "more tea, please" in await text_of(client, TEA)

    return use


def test_a_listener_over_pipes_hears_of_it(home: Path, over_pipes: dict[str, Any]) -> None:
    anyio.run(connect, StdioServerParameters(**over_pipes), NEW, listening(home))


def test_a_listener_over_http_hears_of_it(home: Path, server: Serving) -> None:
    anyio.run(connect_over_http, server, NEW, listening(home))


def test_a_subscriber_of_the_revision_before_hears_of_it(home: Path, over_pipes: dict[str, Any]) -> None:
    told: list[str] = []
    heard = anyio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            told.append(message.params.uri)
            heard.set()

    async def use(client: Client) -> None:
        with pytest.warns(MCPDeprecationWarning):
            await client.subscribe_resource(TEA)
        await anyio.to_thread.run_sync(append, home)
        with anyio.fail_after(PATIENCE):
            await heard.wait()
        assert told[0] == TEA
        assert "more tea, please" in await text_of(client, TEA)

    async def main() -> None:
        await connect(StdioServerParameters(**over_pipes), "legacy", use, message_handler=hear)

    anyio.run(main)
