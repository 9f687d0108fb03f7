"""The Python client of the protocol's own SDK: in this process and over pipes, in both revisions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

import clew
from clew.server.mcp.factory import make_server
from clew.server.mcp.tools import TOOLS
from clew.server.mcp.view import View
from tests.server.mcp.clients.samples import CALLS, fill
from tests.server.process.commands import environment

MODES = {"legacy": "2025-11-25", "auto": "2026-07-28"}
"""How a client begins, and the revision that both agree on."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    fill(tmp_path / "agents.db", tmp_path / "work")
    return tmp_path


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


async def connect(server: Any, mode: str, use: Callable[[Client], Any]) -> None:
    async with Client(server, mode=mode) as client:
        assert client.protocol_version == MODES[mode]
        assert client.server_info is not None
        assert client.server_info.name == "clew"
        await use(client)


@pytest.mark.parametrize("mode", MODES)
def test_every_tool_answers_as_its_schemas_say(mode: str, home: Path) -> None:
    with clew.open(home / "agents.db") as store:
        view = View(store=store, workspace=str(home / "work"), writes=True, takes_files=True)
        anyio.run(connect, make_server(lambda context: view), mode, use_every_tool)


@pytest.mark.parametrize("mode", MODES)
def test_every_tool_answers_over_pipes(mode: str, home: Path) -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "clew", "mcp", "--allow", "write"],
        env={**os.environ, **environment(home)},
        cwd=home / "work",
    )
    anyio.run(connect, server, mode, use_every_tool)
