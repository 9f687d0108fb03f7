"""The description of the API as OpenAPI 3.1, made of the types that decode the requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

import clew
from clew.model import Json
from clew.server.problems import MEDIA_TYPE
from clew.server.routing import Route

REFERENCE: Final = "#/components/schemas/{name}"


class ProblemDocument(msgspec.Struct, rename={"what_next": "next"}):
    """An answer that is no success (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    """A stable name of the error, as `head_moved`."""
    retryable: bool
    """Whether the same request may succeed later."""
    what_next: str = ""
    """What to do."""


def document(routes: Iterable[Route]) -> dict[str, Json]:
    """The whole description."""
    public = [route for route in routes if not route.is_private]
    kinds = [
        kind
        for route in public
        for kind in (route.query, route.body, route.answer)
        if kind is not None and kind is not bytes
    ]
    schemas, components = msgspec.json.schema_components([*kinds, ProblemDocument], ref_template=REFERENCE)
    found = iter(schemas)
    paths: dict[str, dict[str, Json]] = {}
    for route in public:
        given = {
            name: _schema(kind, found)
            for name, kind in (("query", route.query), ("body", route.body), ("answer", route.answer))
        }
        path = route.path.replace("*}", "}")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, given, components)
    queries = {route.query.__name__ for route in public if route.query is not None}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Clew",
            "summary": "The session store for AI agents, over HTTP.",
            "version": clew.__version__,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {name: schema for name, schema in components.items() if name not in queries},
        },
    }


def _schema(kind: Any, found: Any) -> Json:
    if kind is None:
        return None
    return {"type": "string", "format": "binary"} if kind is bytes else next(found)


def _operation(route: Route, given: dict[str, Json], components: dict[str, Any]) -> Json:
    summary, _, rest = (route.handler.__doc__ or "").strip().partition("\n")
    operation: dict[str, Json] = {
        "operationId": route.handler.__name__,
        "summary": summary.rstrip("."),
        "responses": {
            str(route.status): _success(route, given["answer"]),
            "default": {
                "description": "An error",
                "content": {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(name="ProblemDocument")}}},
            },
        },
    }
    if rest.strip():
        operation["description"] = " ".join(rest.split())
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in route.names
    ]
    if given["query"] is not None:
        parameters += _parameters(components[route.query.__name__])
    if parameters:
        operation["parameters"] = parameters
    if given["body"] is not None:
        kind = "application/octet-stream" if route.body is bytes else "application/json"
        operation["requestBody"] = {"required": True, "content": {kind: {"schema": given["body"]}}}
    if route.scope is None:
        operation["security"] = []
    return operation


def _success(route: Route, schema: Json) -> Json:
    described: dict[str, Json] = {"description": "Done"}
    if schema is not None:
        described["content"] = {route.media_type: {"schema": schema}}
    return described


def _parameters(schema: dict[str, Any]) -> list[Json]:
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": field}
        for name, field in schema.get("properties", {}).items()
    ]
