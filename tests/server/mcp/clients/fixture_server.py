"""A server with everything that the scenarios of the conformance tool ask for, on a free port."""

from __future__ import annotations

import json
import socket
import sys
from typing import Any
from unittest.mock import patch

import mcp_types as types
import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError

import clew
from clew.server import app
from clew.server.mcp.http import exchange
from tests.server.conftest import TOKEN
from tests.server.mcp.clients import fixture_tools
from tests.server.mcp.clients.fixture_inputs import PROMPT, next_round
from tests.server.mcp.clients.fixture_tools import PIXEL, Context

NAME = "clew-conformance"
_TEXTS = {
    "test://static-text": "This is the content of the static text resource.",
    "test://watched-resource": "Watched.",
}
_BINARY = "test://static-binary"
_IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}


async def _tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=fixture_tools.definitions())


async def _resources(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    listed = [types.Resource(uri=uri, name=uri, description=uri, mime_type="text/plain") for uri in _TEXTS]
    listed.append(types.Resource(uri=_BINARY, name=_BINARY, description=_BINARY, mime_type="image/png"))
    return types.ListResourcesResult(resources=listed)


async def _templates(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    uri = "test://template/{id}/data"
    template = types.ResourceTemplate(
        uri_template=uri, name=uri, description=uri, mime_type="application/json"
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def _read(ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    contents: types.TextResourceContents | types.BlobResourceContents
    if uri in _TEXTS:
        contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=_TEXTS[uri])
    elif uri == _BINARY:
        contents = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PIXEL)
    elif uri.startswith("test://template/") and uri.endswith("/data"):
        given = uri.removeprefix("test://template/").removesuffix("/data")
        text = json.dumps({"id": given, "templateTest": True, "data": f"Data for ID: {given}"})
        contents = types.TextResourceContents(uri=uri, mime_type="application/json", text=text)
    else:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
    return types.ReadResourceResult(contents=[contents])


async def _accept(ctx: Context, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


async def _prompts(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    arguments = {
        "test_simple_prompt": [],
        "test_prompt_with_arguments": ["arg1", "arg2"],
        "test_prompt_with_embedded_resource": ["resourceUri"],
        "test_prompt_with_image": [],
        PROMPT: [],
    }
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=name,
                description=f"The scenario of {name}",
                arguments=[types.PromptArgument(name=one, description=one, required=True) for one in needed],
            )
            for name, needed in arguments.items()
        ]
    )


async def _prompt(
    ctx: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    contents: list[dict[str, Any]]
    match params.name:
        case "test_simple_prompt":
            contents = [_text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            contents = [_text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
        case "test_prompt_with_embedded_resource":
            resource = {
                "uri": given["resourceUri"],
                "mimeType": "text/plain",
                "text": "Embedded resource content.",
            }
            contents = [
                {"type": "resource", "resource": resource},
                _text("Please process the embedded resource above."),
            ]
        case "test_prompt_with_image":
            contents = [_IMAGE, _text("Please analyze the image above.")]
        case name if name == PROMPT:
            step = next_round(name, params, ctx.session.client_capabilities)
            if not isinstance(step, str):
                return step
            contents = [_text(step)]
        case name:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {name!r}")
    messages = [{"role": "user", "content": content} for content in contents]
    return types.GetPromptResult.model_validate({"messages": messages})


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


async def _complete(ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))


def fixture() -> Server[Any]:
    server: Server[Any] = Server(
        NAME,
        version="1.0.0",
        cache_hints={"tools/list": CacheHint(ttl_ms=1000, scope="public")},
        on_list_tools=_tools,
        on_call_tool=fixture_tools.call,
        on_list_resources=_resources,
        on_list_resource_templates=_templates,
        on_read_resource=_read,
        on_subscribe_resource=_accept,
        on_unsubscribe_resource=_accept,
        on_subscriptions_listen=ListenHandler(fixture_tools.bus),
        on_list_prompts=_prompts,
        on_get_prompt=_prompt,
        on_completion=_complete,
        on_set_logging_level=_accept,
    )
    # What a tool says about its state comes back from the client, and must not have been changed there.
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    return server


def main(way: str) -> None:
    """Serve until it is ended. The first line of output is the address.

    Args:
        way: `sdk`: by the SDK's own application. `clew`: as `clew serve` does it, with this server instead of
            the one that our factory makes.
    """
    with socket.socket() as listener, patch.object(exchange, "make_server", lambda *_, **__: fixture()):
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        application: Any = fixture().streamable_http_app()
        if way == "clew":
            application = app(clew.open("memory:"), token=TOKEN, hosts=(address,))
        sys.stdout.write(f"http://{address}/mcp\n")
        sys.stdout.flush()
        uvicorn.Server(uvicorn.Config(application, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1])
