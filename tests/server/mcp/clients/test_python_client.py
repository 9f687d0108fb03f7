"""All that there is, by the Python client: in this process, over pipes and over HTTP, in both revisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

import clew
from clew.server.mcp.factory import make_server
from clew.server.mcp.tools import TOOLS
from clew.server.mcp.view import View
from tests.server.mcp.clients.python_client import MODES, connect, connect_over_http, text_of
from tests.server.mcp.clients.samples import CALLS, TEA
from tests.server.process.commands import Serving


async def use_everything(client: Client) -> None:
    await use_every_tool(client)
    await use_resources(client)
    await use_prompts(client)


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


@pytest.mark.parametrize("mode", MODES)
def test_everything_answers_in_one_process(mode: str, home: Path) -> None:
    with clew.open(home / "agents.db") as store:
        view = View(store=store, workspace=str(home / "work"), writes=True, takes_files=True)
        anyio.run(connect, make_server(lambda context: view), mode, use_everything)


@pytest.mark.parametrize("mode", MODES)
def test_everything_answers_over_pipes(mode: str, over_pipes: dict[str, Any]) -> None:
    anyio.run(connect, StdioServerParameters(**over_pipes), mode, use_everything)


@pytest.mark.parametrize("mode", MODES)
def test_everything_answers_over_http(mode: str, server: Serving) -> None:
    anyio.run(connect_over_http, server, mode, use_everything)
