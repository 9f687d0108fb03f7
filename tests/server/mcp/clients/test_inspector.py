"""The inspector's command line: a client in TypeScript, over pipes and over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.server.mcp.tools import TOOLS
from tests.server.conftest import TOKEN, Running
from tests.server.mcp.clients.programs import inspect
from tests.server.mcp.clients.samples import TEA

pytestmark = [pytest.mark.needs("node"), pytest.mark.timeout(600)]  # the first one installs from npm

SEARCH = json.dumps({"query": "blue teapot", "include_current": True})


def requests(home: Path, *way: str) -> None:
    """One of each kind that clients send."""

    def ask(method: str, *words: str) -> Any:
        return inspect(home, *way, "--method", method, *words)

    assert len(ask("tools/list", "--strict")["tools"]) == len(TOOLS), (
        "and none with a schema that others refuse"
    )
    found = ask("tools/call", "--tool-name", "search_sessions", "--tool-args-json", SEARCH)
    assert "the blue teapot" in found["structuredContent"]["hits"][0]["snippet"]
    assert TEA in [resource["uri"] for resource in ask("resources/list")["resources"]]
    (content,) = ask("resources/read", "--uri", TEA)["contents"]
    assert "the blue teapot" in content["text"]
    assert [prompt["name"] for prompt in ask("prompts/list")["prompts"]] == ["recall", "handoff"]
    (message,) = ask("prompts/get", "--prompt-name", "recall", "--prompt-args", "topic=teapots")["messages"]
    assert "teapots" in message["content"]["text"]


def test_it_speaks_to_clew_mcp_over_pipes(home: Path, over_pipes: dict[str, Any]) -> None:
    (home / "clients.json").write_text(json.dumps({"mcpServers": {"clew": over_pipes}}))
    requests(home, "--config", str(home / "clients.json"), "--server", "clew", "--protocol-era", "legacy")


def test_it_speaks_to_clew_serve_over_http(home: Path, served: Running) -> None:
    header = f"Authorization: Bearer {TOKEN}"
    requests(home, f"{served.url}/mcp", "--transport", "http", "--header", header, "--protocol-era", "modern")
