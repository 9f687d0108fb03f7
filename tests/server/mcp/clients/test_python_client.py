"""The Python client of the protocol's own SDK: in this process, over pipes and over HTTP; both revisions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

import clew
from clew.server.mcp.factory import make_server
from clew.server.mcp.tools import TOOLS
from clew.server.mcp.view import View
from tests.server.mcp.clients.samples import CALLS
from tests.server.process.commands import Serving

Use = Callable[[Client], Awaitable[None]]

MODES = {"legacy": "2025-11-25", "auto": "2026-07-28"}
"""How a client begins, and the revision that both agree on."""


async def connect(target: Any, mode: str, use: Use) -> None:
    async with Client(target, mode=mode) as client:
        assert client.protocol_version == MODES[mode]
        assert client.server_info is not None
        assert client.server_info.name == "clew"
        await use(client)


async def connect_over_http(server: Serving, mode: str, use: Use) -> None:
    headers = {"authorization": f"Bearer {server.token}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False) as sender:
        await connect(streamable_http_client(f"{server.url}/mcp", http_client=sender), mode, use)


async def use_every_tool(client: Client) -> None:
    """Call each one. Its schemas are schemas, and its answer is as it said."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == [tool.name for tool in TOOLS] == [call.tool for call in CALLS]
    for name, arguments, words in CALLS:
        takes, gives = tools[name].input_schema, tools[name].output_schema
        assert gives is not None
        Draft202012Validator.check_schema(takes)
        Draft202012Validator.check_schema(gives)
        Draft202012Validator(takes).validate(arguments)
        result = await client.call_tool(name, arguments)
        assert not result.is_error, result.content
        Draft202012Validator(gives).validate(result.structured_content)
        assert words in str(result.structured_content)


@pytest.mark.parametrize("mode", MODES)
def test_every_tool_answers_as_its_schemas_say(mode: str, home: Path) -> None:
    with clew.open(home / "agents.db") as store:
        view = View(store=store, workspace=str(home / "work"), writes=True, takes_files=True)
        anyio.run(connect, make_server(lambda context: view), mode, use_every_tool)


@pytest.mark.parametrize("mode", MODES)
def test_every_tool_answers_over_pipes(mode: str, over_pipes: dict[str, Any]) -> None:
    anyio.run(connect, StdioServerParameters(**over_pipes), mode, use_every_tool)


@pytest.mark.parametrize("mode", MODES)
def test_every_tool_answers_over_http(mode: str, server: Serving) -> None:
    anyio.run(connect_over_http, server, mode, use_every_tool)
