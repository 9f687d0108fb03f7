"""Requests to every route of a server, made from the types that routes name: new routes are covered too."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote, unquote, urlencode

import httpx
import msgspec

from clew.server.process.settings import Settings
from clew.server.routes import all_routes
from clew.server.routing import Route, Router
from tests.server.conftest import Running
from tests.server.sockets import run

STREAM = "text/event-stream"
IDLE = b": still here"
"""What a stream says when it has told all that there is, on a server with a short `heartbeat`."""


@cache
def routes() -> list[Route]:
    return all_routes(Settings())


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def answer_with(server: Running, name: str, handler: Callable[..., Any]) -> None:
    """Have a route of this one server answered by another function."""
    found = [
        replace(route, handler=handler) if name_of(route) == name else route
        for route in server.app.router.routes
    ]
    assert found != server.app.router.routes, name
    server.app.router = Router(found)


def path_of(route: Route, values: Mapping[str, str]) -> str:
    """With the first parameter of a path from `id`, and others by their names."""
    parts = []
    for number, part in enumerate(route.path.split("/")):
        if not part.startswith("{"):
            parts.append(part)
            continue
        name = part[1:-1].rstrip("*")
        is_first = not any(one.startswith("{") for one in route.path.split("/")[:number])
        found = values.get(name) or (values["id"] if is_first else values.get("other", "0"))
        parts.append(quote(found, safe=""))
    return "/".join(parts)


def bodies(route: Route, values: Mapping[str, str]) -> Iterator[Any]:
    """What may be sent to a route: nothing but what it needs, and everything that it takes."""
    if route.body is None:
        yield None
    elif route.body is bytes:
        yield values.get("text", "x").encode()
    else:
        yield sample(route.body, values, whole=False)
        yield sample(route.body, values, whole=True)


def queries(route: Route, values: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Without any parameter, and with each of those that take a text."""
    yield {}
    if route.query is None:
        return
    hints = get_type_hints(route.query, include_extras=True)
    needed = {
        field.encode_name: sample(hints[field.name], values, whole=False, name=field.name)
        for field in msgspec.structs.fields(route.query)
        if field.required
    }
    yield needed
    for field in msgspec.structs.fields(route.query):
        found = sample(hints[field.name], values, whole=True, name=field.name)
        if found is not None:
            yield {**needed, field.encode_name: "true" if found is True else found}


def sample(kind: Any, values: Mapping[str, str], *, whole: bool, name: str = "") -> Any:
    """A value of a type; texts are those of `values` by the name of their field, else an id."""
    origin = get_origin(kind)
    if origin is Annotated:
        return sample(get_args(kind)[0], values, whole=whole, name=name)
    if origin in (Union, types.UnionType):
        first = next((one for one in get_args(kind) if one not in (type(None), msgspec.UnsetType)), None)
        return None if first is None else sample(first, values, whole=whole, name=name)
    if origin is Literal:
        return get_args(kind)[0]
    if origin in (list, tuple, set, frozenset) or kind in (list, tuple):
        inner = get_args(kind)[0] if get_args(kind) else str
        return [sample(inner, values, whole=whole, name=name)]
    if origin in (dict, Mapping) or kind is dict or "Mapping" in str(origin):
        return {"role": "user", "content": values.get("text", "x")}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind, include_extras=True)
        return {
            field.encode_name: sample(hints[field.name], values, whole=whole, name=field.name)
            for field in msgspec.structs.fields(kind)
            if field.required or whole
        }
    if kind is bool:
        return True
    if kind is int:
        return 1
    if kind is float:
        return 1.0
    if kind is Any or kind is msgspec.Raw:
        return {"role": "user", "content": values.get("text", "x")}
    if kind is str:
        return values.get(name, values.get("other", values["id"]))
    return None


class Told(msgspec.Struct):
    """An answer, as far as it came."""

    status: int
    headers: str
    body: bytes

    @property
    def whole(self) -> bytes:
        return self.headers.encode() + b"\n" + self.body


class Caller:
    """Calls the application itself, with no socket between: for tests that try thousands of requests."""

    def __init__(self, server: Running, token: str) -> None:
        self._app = server.app
        self._host, _, port = server.url.removeprefix("http://").partition(":")
        self._port = int(port)
        self._headers = {"host": f"{self._host}:{port}", "authorization": f"Bearer {token}"}

    async def ask(
        self, method: str, path: str, query: bytes, content: bytes, headers: Mapping[str, str], until: bytes
    ) -> Told:
        told = Told(0, "", b"")
        messages = [{"type": "http.request", "body": content, "more_body": False}]
        is_enough = asyncio.Event()

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await is_enough.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                told.status = message["status"]
                told.headers = b"\n".join(b": ".join(pair) for pair in message["headers"]).decode("latin-1")
            told.body += message.get("body", b"")
            if STREAM in told.headers and until in told.body:
                is_enough.set()

        sent = {**self._headers, "content-length": str(len(content)), **headers}
        scope = {
            "type": "http", "method": method, "scheme": "http", "path": unquote(path),
            "raw_path": path.encode(), "query_string": query,
            "headers": [(name.encode(), sent[name].encode()) for name in sent],
            "client": (self._host, 1), "server": (self._host, self._port),
        }  # fmt: skip
        await self._app(scope, receive, send)
        return told


def send(
    client: httpx.Client | Caller,
    route: Route,
    path: str,
    *,
    query: Mapping[str, Any] | None = None,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    until: bytes = IDLE,
) -> Told:
    """One request. A stream is listened to until it says this."""
    content = body if isinstance(body, bytes) else None if body is None else msgspec.json.encode(body)
    sent = {"content-type": "application/json", **(headers or {})} if content is not None else headers
    if isinstance(client, Caller):
        asked = urlencode(query or {}, doseq=True).encode()
        return run(client.ask(route.method, path, asked, content or b"", sent or {}, until))
    with client.stream(
        route.method, path, params=dict(query or {}), content=content, headers=sent, timeout=None
    ) as answer:
        found = b""
        is_stream = answer.headers.get("content-type", "").startswith(STREAM)
        for piece in answer.iter_bytes():
            found += piece
            if is_stream and until in found:
                break
        told = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
        return Told(answer.status_code, told, found)
