"""The official conformance tool against Clew: whatever it can ask of a server with any tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import mcp_types as types
import pytest
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

import clew
from clew.server.mcp.http import exchange
from tests.server.conftest import TOKEN, Running, running
from tests.server.mcp.clients.programs import failures

pytestmark = [pytest.mark.needs("node"), pytest.mark.timeout(600)]  # the first one installs from npm

OLD: Final = "2025-11-25"
NEW: Final = "2026-07-28"

# Other scenarios call tools, resources and prompts of certain names: what they look at is made by the SDK.
OF_ANY_SERVER: Final = {
    OLD: {
        "completion-complete", "dns-rebinding-protection", "ping", "prompts-list", "resources-list",
        "server-initialize", "server-session-lifecycle", "tools-list",
    },
    NEW: {
        "caching", "completion-complete", "dns-rebinding-protection", "http-header-validation",
        "input-required-result-unsupported-methods", "prompts-list", "resources-list",
        "sep-2164-resource-not-found", "server-sse-multiple-streams", "server-stateless", "tools-list",
    },
}  # fmt: skip


@pytest.mark.parametrize("revision", [OLD, NEW])
def test_clew_passes_what_can_be_asked_of_any_server(revision: str, served: Running, tmp_path: Path) -> None:
    url, asked = f"{served.url}/mcp", OF_ANY_SERVER[revision]
    assert failures(url, revision, asked, tmp_path, token=TOKEN, has_fixtures=False) == {}


@pytest.fixture
def with_a_header(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server with one tool, which takes an argument in a header of its own."""
    argument = {"type": "string", "x-mcp-header": "Region"}
    schema = {"type": "object", "properties": {"region": argument}, "required": ["region"]}
    tool = types.Tool(name="test_x_mcp_header", input_schema=schema)

    async def listed(
        ctx: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool])

    async def called(
        ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text=f"called with {params.arguments}")])

    def make_server(*_: object, **__: object) -> Server[Any]:
        return Server("one tool", on_list_tools=listed, on_call_tool=called)

    monkeypatch.setattr(exchange, "make_server", make_server)
    with clew.open("memory:") as store, running(store) as server:
        yield server


def test_headers_with_arguments_of_a_tool_reach_the_sdk(with_a_header: Running, tmp_path: Path) -> None:
    """It compares them with the message."""
    url, scenario = f"{with_a_header.url}/mcp", "http-custom-header-server-validation"
    assert failures(url, NEW, {scenario}, tmp_path, token=TOKEN) == {}
