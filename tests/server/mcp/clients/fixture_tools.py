"""The tools that the scenarios of the conformance tool call. What each must do is written in its scenario."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

from tests.server.mcp.clients.fixture_inputs import PROMPT, ROUNDS, next_round

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC"
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="

Context = ServerRequestContext[Any]
Answer = types.CallToolResult | types.InputRequiredResult
Function = Callable[[Context, types.CallToolRequestParams], Awaitable[Answer]]

bus = InMemorySubscriptionBus()

# What a scenario calls, and the content that it wants to see.
_CONTENT: dict[str, list[dict[str, Any]]] = {
    "test_simple_text": [{"type": "text", "text": "This is a simple text response for testing."}],
    "test_image_content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}],
    "test_audio_content": [{"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}],
    "test_embedded_resource": [
        {
            "type": "resource",
            "resource": {
                "uri": "test://embedded-resource",
                "mimeType": "text/plain",
                "text": "An embedded resource.",
            },
        }
    ],
    "test_multiple_content_types": [
        {"type": "text", "text": "Multiple content types test:"},
        {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        {
            "type": "resource",
            "resource": {
                "uri": "test://mixed-content-resource",
                "mimeType": "application/json",
                "text": '{"test":"data","value":123}',
            },
        },
    ],
}

_FORMS: dict[str, dict[str, Any]] = {
    "test_elicitation": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "test_elicitation_sep1034_defaults": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "test_elicitation_sep1330_enums": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {
            "type": "string",
            "oneOf": [
                {"const": "value1", "title": "First Option"},
                {"const": "value2", "title": "Second Option"},
            ],
        },
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
        },
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [
                    {"const": "value1", "title": "First Choice"},
                    {"const": "value2", "title": "Second"},
                ]
            },
        },
    },
}

_NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "test_sampling": {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]},
    "test_elicitation": {
        "type": "object",
        "properties": {"message": {"type": "string"}},
        "required": ["message"],
    },
    "test_x_mcp_header": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    },
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
}


def definitions() -> list[types.Tool]:
    return [
        types.Tool(
            name=name, description=f"The scenario of {name}", input_schema=_SCHEMAS.get(name, _NOTHING)
        )
        for name in sorted(_TOOLS)
    ]


async def call(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    function = _TOOLS.get(params.name)
    if function is None:
        raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r}")
    return await function(ctx, params)


def _text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


async def _content(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    return types.CallToolResult.model_validate({"content": _CONTENT[params.name]})


async def _plain(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    return _text(f"{params.name} was called with {params.arguments}")


async def _error(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    content = types.TextContent(text="This tool intentionally returns an error for testing")
    return types.CallToolResult(content=[content], is_error=True)


async def _log(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", text, related_request_id=ctx.request_id)
        await anyio.sleep(0.01)
    return _text("logged")


async def _progress(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    for percent in (0, 50, 100):
        await ctx.session.report_progress(percent, 100)
        await anyio.sleep(0.01)
    return _text("done")


async def _sample(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    question = types.TextContent(text=str((params.arguments or {})["prompt"]))
    answer = await ctx.session.create_message(
        [types.SamplingMessage(role="user", content=question)],
        max_tokens=100,
        related_request_id=ctx.request_id,
    )
    return _text(f"LLM response: {answer.content}")


async def _ask(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    fields = _FORMS[params.name]
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    message = str((params.arguments or {}).get("message", "Please fill this in"))
    answer = await ctx.session.elicit_form(message, schema, ctx.request_id)
    return _text(f"Elicitation completed: action={answer.action}, content={answer.content}")


async def _ask_in_answer(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    step = next_round(params.name, params, ctx.session.client_capabilities)
    return _text(step) if isinstance(step, str) else step


async def _refuse(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    able = ctx.session.client_capabilities
    if able is None or able.sampling is None:
        needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "this tool needs sampling", needed)
    return _text("the client can sample")


async def _change_tools(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    await bus.publish(ToolsListChanged())
    return _text("said that the tools changed")


async def _change_prompts(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    await bus.publish(PromptsListChanged())
    return _text("said that the prompts changed")


_TOOLS: dict[str, Function] = {
    **dict.fromkeys(_CONTENT, _content),
    **dict.fromkeys(_FORMS, _ask),
    **{name: _ask_in_answer for name in ROUNDS if name != PROMPT},
    "test_sampling": _sample,
    "test_error_handling": _error,
    "test_tool_with_logging": _log,
    "test_logging_tool": _log,
    "test_tool_with_progress": _progress,
    "test_streaming_elicitation": _progress,
    "test_missing_capability": _refuse,
    "test_trigger_tool_change": _change_tools,
    "test_trigger_prompt_change": _change_prompts,
    "test_x_mcp_header": _plain,
    "json_schema_2020_12_tool": _plain,
}
