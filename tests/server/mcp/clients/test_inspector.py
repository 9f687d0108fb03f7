"""The inspector's command line: a client in TypeScript, over pipes and over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.server.mcp.clients.programs import inspect
from tests.server.process.commands import Serving

SEARCH = {"query": "blue teapot", "include_current": True}


def requests(home: Path, *way: str) -> None:
    """One of each kind that clients send."""
    listed = inspect(home, *way, "--method", "tools/list", "--strict")
    assert "search_sessions" in [tool["name"] for tool in listed["tools"]]
    words = [
        "--method",
        "tools/call",
        "--tool-name",
        "search_sessions",
        "--tool-args-json",
        json.dumps(SEARCH),
    ]
    (found,) = inspect(home, *way, *words)["structuredContent"]["hits"]
    assert "the blue teapot" in found["snippet"]


def test_it_speaks_to_clew_mcp_over_pipes(home: Path, over_pipes: dict[str, Any]) -> None:
    (home / "clients.json").write_text(json.dumps({"mcpServers": {"clew": over_pipes}}))
    requests(home, "--config", str(home / "clients.json"), "--server", "clew", "--protocol-era", "legacy")


def test_it_speaks_to_clew_serve_over_http(home: Path, server: Serving) -> None:
    header = f"Authorization: Bearer {server.token}"
    requests(home, f"{server.url}/mcp", "--transport", "http", "--header", header, "--protocol-era", "modern")
