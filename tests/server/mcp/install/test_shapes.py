"""What is written is what each client takes, by its published schema or its manual, as of November 2026."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]

from clew.server.mcp.hint import said_to
from clew.server.mcp.install.clients import CLIENTS, Client
from clew.server.mcp.install.install import install
from clew.server.mcp.install.program import Wish
from tests.server.mcp.install.homes import for_each
from tests.support.rows import each_row

TEXTS = {"type": "array", "items": {"type": "string"}}
TEXT = {"type": "string"}


def _closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


ENTRIES: dict[str, dict[str, Any]] = {
    # What `claude mcp add --transport stdio` writes.
    "claude-code": _closed(
        ["type", "command"], type={"const": "stdio"}, command=TEXT, args=TEXTS, env={"type": "object"}
    ),
    # RawMcpServerConfig of codex-rs/core/config.schema.json: unknown keys are an error.
    "codex": _closed(
        ["command"], command=TEXT, args=TEXTS, env={"type": "object"}, cwd=TEXT, enabled={"type": "boolean"},
        startup_timeout_sec={"type": "number"},
    ),
    # docs/tools/mcp-server.md
    "gemini-cli": _closed(
        ["command"], command=TEXT, args=TEXTS, env={"type": "object"}, cwd=TEXT, timeout={"type": "number"},
        trust={"type": "boolean"},
    ),
    # McpLocalConfig of https://opencode.ai/config.json, which OpenCode 2 reads, too.
    "opencode": _closed(
        ["type", "command"], type={"const": "local"}, command=TEXTS | {"minItems": 1},
        environment={"type": "object"}, enabled={"type": "boolean"}, timeout={"type": "integer"},
    ),
    "cursor": _closed(["command"], command=TEXT, args=TEXTS, env={"type": "object"}, envFile=TEXT),
    # code.visualstudio.com/docs/agents/reference/mcp-configuration
    "vscode": _closed(
        ["type", "command"], type={"const": "stdio"}, command=TEXT, args=TEXTS, cwd=TEXT,
        env={"type": "object"}, envFile=TEXT,
    ),
}  # fmt: skip
PLACES = {
    "claude-code": "mcpServers", "codex": "mcp_servers", "gemini-cli": "mcpServers", "opencode": "mcp",
    "cursor": "mcpServers", "vscode": "servers",
}  # fmt: skip


@for_each()
@each_row("is_project", [False, True])
def test_an_entry_is_as_the_client_wants_it(
    client: Client, is_project: bool, home: Path, tmp_path: Path
) -> None:
    wish = Wish(store="/srv/agents.db", workspace=Path("/srv"), sees_all=True, writes=True)
    path = install(client, wish, project=tmp_path if is_project else None).path
    text = path.read_text()
    settings = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    assert list(settings) == [PLACES[client.name]]
    assert list(settings[PLACES[client.name]]) == ["clew"]
    jsonschema.validate(settings[PLACES[client.name]]["clew"], ENTRIES[client.name])


def _hooks(client: Client) -> Any:
    install(client, Wish(), hint=True)
    assert client.hint is not None
    return json.loads(client.hint.path.read_text())["hooks"]


def test_a_hook_is_as_the_client_wants_it(home: Path) -> None:
    handler = _closed(
        ["type", "command"],
        type={"const": "command"},
        command=TEXT,
        args=TEXTS,
        timeout={"type": "integer", "maximum": 10},
    )
    grouped = {"type": "array", "items": _closed(["hooks"], matcher=TEXT, hooks={"items": handler})}
    for name in ("claude-code", "codex"):
        jsonschema.validate(_hooks(CLIENTS[name]), _closed(["SessionStart"], SessionStart=grouped))
    [group] = _hooks(CLIENTS["gemini-cli"])["SessionStart"]
    [found] = group["hooks"]
    assert found["timeout"] == 5000, "Gemini CLI counts milliseconds"
    assert found["type"] == "command"
    [found] = _hooks(CLIENTS["cursor"])["sessionStart"]
    assert set(found) == {"command", "timeout"}


def test_what_a_hook_prints_is_what_the_client_reads() -> None:
    # codex-rs/hooks/schema/generated/session-start.command.output.schema.json; Claude Code and Gemini CLI
    # read the same object.
    inner = _closed(["hookEventName"], hookEventName={"const": "SessionStart"}, additionalContext=TEXT)
    for name in ("claude-code", "codex", "gemini-cli"):
        jsonschema.validate(said_to(name, "x"), _closed(["hookSpecificOutput"], hookSpecificOutput=inner))
    assert said_to("cursor", "x") == {"additional_context": "x"}
    assert said_to(None, "x") == "x"
