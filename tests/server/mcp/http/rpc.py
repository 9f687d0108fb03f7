"""Messages of the protocol as bytes on HTTP, for what the SDK's own client would never send."""

from __future__ import annotations

from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

MODERN = "2026-07-28"
MODES = {"legacy": "2025-11-25", "auto": MODERN}
"""How a client begins, and the revision that both agree on."""
ACCEPT = "application/json, text/event-stream"


def message(method: str, params: dict[str, Any] | None = None, *, modern: bool = False) -> dict[str, Any]:
    """A request as JSON."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    given = {**(params or {}), **({"_meta": meta} if modern else {})}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": given}


def headers_of(sent: dict[str, Any], *, modern: bool = False) -> dict[str, str]:
    """The headers that go with it."""
    plain = {"accept": ACCEPT, "content-type": "application/json"}
    if not modern:
        return plain
    name = sent["params"].get("name", sent["params"].get("uri"))
    named = {} if name is None else {"mcp-name": name}
    return {**plain, "mcp-protocol-version": MODERN, "mcp-method": sent["method"], **named}


def ask(
    client: Any,
    method: str = "tools/list",
    params: dict[str, Any] | None = None,
    *,
    modern: bool = False,
    path: str = "/mcp",
    headers: dict[str, str] | None = None,
) -> Any:
    """The answer to one request."""
    sent = message(method, params, modern=modern)
    return client.post(path, json=sent, headers={**headers_of(sent, modern=modern), **(headers or {})})


def call(client: Any, tool: str, arguments: dict[str, Any], **options: Any) -> Any:
    """The result of a tool."""
    answer = ask(client, "tools/call", {"name": tool, "arguments": arguments}, **options)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def tools(client: Any, **options: Any) -> list[str]:
    """The names of those that this caller is offered."""
    answer = ask(client, **options)
    assert answer.status_code == 200, answer.text
    return [one["name"] for one in answer.json()["result"]["tools"]]


def http_client(token: str) -> httpx2.AsyncClient:
    """What the SDK's client sends with."""
    # What is served has no certificate: to read those of the machine would take most of a test's time.
    headers = {"authorization": f"Bearer {token}"}
    return httpx2.AsyncClient(headers=headers, timeout=None, trust_env=False, verify=False)


def sdk_client(url: str, http: httpx2.AsyncClient, mode: str) -> Client:
    """The SDK's client for a server."""
    return Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode)
