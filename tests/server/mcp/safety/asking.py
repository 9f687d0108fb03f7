"""Calls of tools without a protocol: every answer is checked to be just what its schema says."""

from __future__ import annotations

import json
from typing import Any, Final

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from mcp_types import CallToolResult, TextContent

import clew
from clew.core.messages.text import ACTING
from clew.server.mcp.budget import TOKENS, tokens
from clew.server.mcp.factory import called
from clew.server.mcp.text import RECORDED
from clew.server.mcp.tools import TOOLS
from clew.server.mcp.view import View

HERE: Final = "/srv/here"
ELSEWHERE: Final = "/srv/elsewhere"
BY_NAME: Final = {tool.name: tool for tool in TOOLS}


def _exact(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that wants every field it names, and no other."""
    schema = dict(schema)
    if "items" in schema:
        schema["items"] = _exact(schema["items"])
    if "properties" in schema:
        schema["properties"] = {name: _exact(one) for name, one in schema["properties"].items()}
        schema |= {"required": list(schema["properties"]), "additionalProperties": False}
    return schema


_EXACT: Final = {tool.name: Draft202012Validator(_exact(tool.output_schema())) for tool in TOOLS}


def view_of(store: clew.Store, **fields: Any) -> View:
    """What a client on stdio sees that was started in HERE."""
    return View(store=store, **{"workspace": HERE} | fields)


def call(view: View, tool: str, **arguments: Any) -> CallToolResult:
    """The result of a call. Whatever it is, no character in it acts, and it is no accident. Sessions are just
    written, as those of a caller are: they are searched unless a test says otherwise."""
    if tool == "search_sessions":
        arguments = {"include_current": True} | arguments
    result = called(BY_NAME[tool], view, arguments)
    text = _text(result)
    assert not ACTING.search(text), ACTING.findall(text)
    assert "the log of the server says why" not in text
    return result


def ask(view: View, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a tool that must answer: as its schema says, and within its budget."""
    result = call(view, tool, **arguments)
    assert not result.is_error, _text(result)
    first, _, rest = _text(result).partition("\n")
    answer: dict[str, Any] = json.loads(rest)
    assert first == RECORDED
    assert answer == result.structured_content
    _EXACT[tool].validate(answer)
    assert tokens(answer) <= arguments.get("max_tokens", TOKENS)
    return answer


def refused(view: View, tool: str, **arguments: Any) -> str:
    """What a tool says that must refuse."""
    result = call(view, tool, **arguments)
    assert result.is_error, _text(result)
    return _text(result)


def _text(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


def walk(view: View, tool: str, items: str, **arguments: Any) -> list[dict[str, Any]]:
    """All that the pages of a tool show, one after the other."""
    found: list[dict[str, Any]] = []
    for _ in range(2000):
        answer = ask(view, tool, **arguments)
        found += answer[items]
        if answer["next"] is None:
            return found
        follow = (
            {"place": answer["next"], "before": 0} if tool == "read_session" else {"cursor": answer["next"]}
        )
        assert arguments | follow != arguments, "it leads to itself"
        arguments |= follow
    raise AssertionError("it does not end")
