"""All that there is, by the Python client: in this process, over pipes and over HTTP, in both revisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import mcp_types as types
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError

import clew
from clew.server.mcp.factory import make_server
from clew.server.mcp.tools import TOOLS
from clew.server.mcp.view import View
from tests.server.conftest import TOKEN, Running
from tests.server.mcp.clients.samples import CALLS, TEA
from tests.server.mcp.connected import Heard
from tests.server.mcp.http.rpc import http_client

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

NEW: Final = "2026-07-28"
MODES: Final = {"legacy": "2025-11-25", NEW: NEW}
"""How a client begins, and the revision that it speaks then. Not `auto`: it takes a server that needs ten
seconds to start for an old one."""


async def use_everything(target: Any, mode: str, home: Path, *, is_told: bool = True) -> None:
    """Use a server in this process, one that is started for it, or one by its transport."""
    told = Heard()
    async with Client(target, mode=mode, message_handler=told) as client:
        assert client.protocol_version == MODES[mode]
        await use_every_tool(client)
        await use_resources(client)
        await use_prompts(client)
        if is_told:
            await hear_of_a_change(client, mode, told, home)


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


async def use_resources(client: Client) -> None:
    """List, describe and read them, and one that is not there."""
    resources = {one.uri: one for one in (await client.list_resources()).resources}
    assert resources.keys() == {TEA, "clew://session/coffee"}
    assert resources[TEA].title == "Tea for two"
    templates = (await client.list_resource_templates()).resource_templates
    assert [one.uri_template for one in templates] == [
        "clew://session/{id}",
        "clew://session/{id}/entries/{entry}",
        "clew://session/{id}/tree",
    ]
    assert {one.mime_type for one in templates} == {"text/markdown"}
    found = await client.call_tool("search_sessions", {"query": "teapot wrote", "include_current": True})
    entry = found.structured_content["hits"][0]["place"].removeprefix("tea@")
    assert "which teapot is for two?" in await text_of(client, TEA)
    assert "the blue teapot" in await text_of(client, f"{TEA}/entries/{entry}")
    assert "before" in await text_of(client, f"{TEA}/tree")
    with pytest.raises(MCPError) as missing:
        await client.read_resource("clew://session/milk")
    assert missing.value.error.data == {"uri": "clew://session/milk"}


async def use_prompts(client: Client) -> None:
    prompts = {one.name: one for one in (await client.list_prompts()).prompts}
    assert prompts.keys() == {"recall", "handoff"}
    (message,) = (await client.get_prompt("recall", {"topic": "teapots"})).messages
    assert isinstance(message.content, types.TextContent)
    assert "teapots" in message.content.text


async def hear_of_a_change(client: Client, mode: str, told: Heard, home: Path) -> None:
    """Another connection appends to the store: over pipes, another process than that of the server."""

    def append() -> None:
        with clew.open(home / "agents.db") as store:
            store.get("tea").append({"role": "user", "content": "more tea, please"})

    if mode == NEW:
        async with client.listen(resource_subscriptions=[TEA]) as notices:
            await anyio.to_thread.run_sync(append)
            assert await anext(notices) == ResourceUpdated(TEA)
    else:
        await client.subscribe_resource(TEA)
        await anyio.to_thread.run_sync(append)
        assert await told.next() == TEA
    assert "more tea, please" in await text_of(client, TEA)


async def text_of(client: Client, uri: str) -> str:
    """A resource as Markdown."""
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, types.TextResourceContents)
    assert content.mime_type == "text/markdown"
    return content.text


@pytest.mark.parametrize("mode", MODES)
def test_everything_answers_in_one_process(mode: str, home: Path) -> None:
    with clew.open(home / "agents.db") as store:
        view = View(store=store, workspace=str(home / "work"), writes=True, takes_files=True)
        anyio.run(use_everything, make_server(lambda context: view), mode, home)


@pytest.mark.parametrize("mode", MODES)
def test_everything_answers_over_pipes(mode: str, home: Path, over_pipes: dict[str, Any]) -> None:
    anyio.run(use_everything, StdioServerParameters(**over_pipes), mode, home)


@pytest.mark.parametrize("mode", MODES)
def test_everything_answers_over_http(mode: str, home: Path, served: Running) -> None:
    async def use() -> None:
        async with http_client(TOKEN) as http:
            transport = streamable_http_client(f"{served.url}/mcp", http_client=http)
            await use_everything(transport, mode, home, is_told=mode == NEW)

    anyio.run(use)
