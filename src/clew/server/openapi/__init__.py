"""The description of the API as OpenAPI 3.1, made of the types that decode the requests."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, get_args, get_type_hints

import msgspec

import clew
from clew.model import Json
from clew.server.call import Upload
from clew.server.conversations.errors import PREFIX, ErrorDocument
from clew.server.decoding import may_be_empty
from clew.server.openapi.source import headers_of, notes_of
from clew.server.problems import MEDIA_TYPE
from clew.server.routing import Route

_IN_JSON: Final = {"None": "null", "True": "true", "False": "false"}
_WORDS_OF_PYTHON: Final = re.compile(r"\b(None|True|False)\b")
_as_json: Final = msgspec.json.Decoder(dict[str, Any]).decode
REFERENCE: Final = "#/components/schemas/{name}"

HEADERS: Final[dict[str, tuple[str, str]]] = {
    "idempotency-key": (
        "Idempotency-Key",
        "Names this request. A repeat with the same key and the same body happens once.",
    ),
    "if-match": (
        "If-Match",
        "The ETag of the head that the caller knows: 412 if the session stands elsewhere by now.",
    ),
    "if-none-match": (
        "If-None-Match",
        "The ETag of what the caller has: 304 without a body if it is still the same.",
    ),
    "clew-lease": (
        "Clew-Lease",
        "The `secret` of a run: needed to write while its lease holds. `*` writes whoever holds the lease.",
    ),
    "last-event-id": (
        "Last-Event-ID",
        "The id of the last event that the caller got: the stream goes on behind it.",
    ),
    "range": ("Range", "Only these bytes."),
}
"""What requests may bring; a header that is not here is no part of the API."""

SHAPES: Final = {
    "if-match": r'^(\*|(W/)?"[!#-~]*")$',
    "clew-lease": r"^(\*|[1-9][0-9]{0,17}\.([1-7][0-9a-f]{15}|[1-9a-f][0-9a-f]{0,14}))$",
}
"""Of headers that are refused if they have another one."""

ANSWERED: Final[dict[str, tuple[str, str]]] = {
    "etag": ("ETag", "Names this state, for If-Match and If-None-Match."),
    "link": ("Link", 'The next page, with `rel="next"`; not there: this was the last.'),
    "location": ("Location", "Where to find what was made."),
}

PLACES: Final[dict[str, str]] = {
    "id": "Of a session, or an alias of it. Percent-encode it, or send `~` and its base64url.",
    "entry": "The id of an entry.",
    "name": "Percent-encode it, or send `~` and its base64url.",
    "epoch": "Of the run, as its start told.",
    "conversation_id": "Of a conversation: the id of a session.",
    "item_id": "Of an item.",
    "alias": "Another id of the session. Percent-encode it, or send `~` and its base64url.",
    "number": "Which of the images and files in the message; 0 is the first.",
    "path": "Of a file in the snapshot; its slashes stay as they are.",
}
"""What stands in a path."""

COMMON: Final[dict[str, str]] = {
    "after": "Only those after this point.",
    "agent": "Only of this program or framework, such as `claude-code`.",
    "at": "The path to this point, not the one to the head.",
    "before": "Only those before this point.",
    "cursor": "From the page before.",
    "limit": "How many at most.",
    "max_messages": "How many at most, from the end.",
    "model": "The name of the model.",
    "newest_first": "The other way round.",
    "since": "Only at this time or later.",
    "status": "Only with this status.",
    "system_prompt": "That of the worker now.",
    "tools_hash": "Names the tools that the worker has now.",
    "until": "Only before this time.",
    "view": "As stored, as blocks for people, as one piece of HTML, or as one line.",
    "workspace": "Only in this directory.",
}
"""What parameters of these names mean, wherever the source says nothing more exact."""


class ProblemDocument(msgspec.Struct, rename={"what_next": "next"}):
    """An answer that is no success (RFC 9457). Each error has more fields of its own."""

    type: str
    """A URI that names the kind of error: `urn:clew:error:` and its code."""
    title: str
    """The kind of error, in words."""
    status: int
    """The HTTP status."""
    detail: str
    """What happened here."""
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
        if kind is not None and kind is not bytes and kind is not Upload
    ]
    used = [*kinds, ProblemDocument, ErrorDocument]
    schemas, components = msgspec.json.schema_components(used, ref_template=REFERENCE)
    _put_notes(components, used)
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
    whole = {
        "openapi": "3.1.0",
        "info": {
            "title": "Clew",
            "summary": "The session store for AI agents, over HTTP.",
            "version": clew.__version__,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "security": [{"token": []}],
        "tags": [{"name": name} for name in dict.fromkeys(tag_of(route) for route in public)],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of the server, or one of `clew token add`. Each operation says "
                    "in `x-clew-scope` which scope the token needs.",
                }
            },
            "schemas": {name: schema for name, schema in components.items() if name not in queries},
        },
    }
    return _as_json(msgspec.json.encode(whole))


def tag_of(route: Route) -> str:
    """The subject of a route: the first words of the module that has it."""
    module = sys.modules[route.handler.__module__]
    line = (module.__doc__ or module.__name__).strip().partition("\n")[0]
    return line.partition(":")[0].rstrip(".")


def _schema(kind: Any, found: Any) -> Json:
    if kind is None:
        return None
    return {"type": "string", "format": "binary"} if kind in (bytes, Upload) else next(found)


# -- one operation


def _operation(route: Route, given: dict[str, Json], components: dict[str, Any]) -> Json:
    summary, _, rest = (route.handler.__doc__ or "").strip().partition("\n")
    if not rest.startswith("\n"):  # the first sentence goes on in the second line
        summary, _, rest = " ".join((route.handler.__doc__ or "").split()).partition(". ")
    headers = _headers_taken(route)
    operation: dict[str, Json] = {
        "operationId": route.handler.__name__,
        "tags": [tag_of(route)],
        "summary": summary.strip().rstrip("."),
        "x-clew-scope": route.scope,
    }
    if rest.strip():
        operation["description"] = " ".join(rest.split())
    parameters: list[Json] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PLACES.get(name, "Percent-encode it."),
            "schema": {"type": "string", "minLength": 1},
        }
        for name in route.names
    ]
    if given["query"] is not None:
        parameters += _parameters(components[route.query.__name__])
    for name in headers:
        spelled, about = HEADERS[name]
        schema: Json = {"type": "string", **({"pattern": SHAPES[name]} if name in SHAPES else {})}
        parameters.append({"name": spelled, "in": "header", "description": about, "schema": schema})
    if parameters:
        operation["parameters"] = parameters
    if given["body"] is not None:
        operation["requestBody"] = {
            "required": not may_be_empty(route.body),
            "content": {kind: {"schema": given["body"]} for kind in _body_types(route)},
        }
    operation["responses"] = _responses(route, given["answer"], headers)
    if route.scope is None:
        operation["security"] = []
    return operation


def _headers_taken(route: Route) -> list[str]:
    found = headers_of(route.handler)
    taken = {name for name in found.taken if name in HEADERS}
    if route.method == "GET":
        taken.discard("clew-lease")  # reading needs none
        if "etag" in found.answered:
            taken.add("if-none-match")
    return sorted(taken)


def _body_types(route: Route) -> list[str]:
    if route.body in (bytes, Upload):
        return ["application/octet-stream"]
    if route.method == "PATCH":
        return ["application/merge-patch+json", "application/json"]
    return ["application/json"]


def _parameters(schema: dict[str, Any]) -> Iterator[Json]:
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        if name.endswith(".*"):  # OpenAPI has no word for a family of parameters: another one tells of it
            continue
        bare = _without_null({key: value for key, value in field.items() if key != "description"})
        about = field.get("description", COMMON.get(name, ""))
        yield {
            "name": name,
            "in": "query",
            "required": name in required,
            "description": about,
            "schema": bare,
        }


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query cannot say null: it leaves the parameter out."""
    if schema.get("default", ...) is None:
        schema.pop("default")
    if "enum" in schema:
        return {**schema, "enum": [value for value in schema["enum"] if value is not None]}
    others = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**others[0], **rest} if len(others) == 1 else {**rest, **({"anyOf": others} if others else {})}


# -- answers

SAID: Final = {
    304: "The caller has it already",
    400: "It cannot be read",
    401: "No token, or one that is not valid",
    403: "The token does not allow it",
    404: "There is no such thing, or it is not the caller's to see",
    409: "The session is not in a state for it",
    412: "The session stands elsewhere by now",
    413: "It is too large",
    415: "The body is of another type",
    422: "It is not valid",
    423: "Another worker holds the lease",
    429: "Too many requests: wait as Retry-After says",
    503: "Not now: wait as Retry-After says",
}


def _responses(route: Route, schema: Json, headers: list[str]) -> dict[str, Json]:
    is_openai = route.path.startswith("/" + "/".join(PREFIX))
    name = "ErrorDocument" if is_openai else "ProblemDocument"
    media_type = "application/json" if is_openai else MEDIA_TYPE
    content = {media_type: {"schema": {"$ref": REFERENCE.format(name=name)}}}
    found: dict[str, Json] = {
        str(status): _success(route, schema, status)
        for status in sorted({route.status, *headers_of(route.handler).statuses})
    }
    if "if-none-match" in headers:
        found["304"] = {"description": SAID[304]}
    for status in sorted(set(_failures(route, headers, is_openai))):
        found[str(status)] = {"description": SAID[status], "content": content}
    found["default"] = {"description": "Another error", "content": content}
    return found


def _failures(route: Route, headers: list[str], is_openai: bool) -> Iterator[int]:
    invalid = 400 if is_openai else 422
    yield 503
    if route.scope is not None:
        yield from (401, 403, 429)
    if route.names:
        yield from (400, 404)
    if route.query is not None:
        yield invalid
    if route.body is not None:
        yield from (400, 413, 415, invalid)
    if "if-match" in headers:
        yield 409 if is_openai else 412
    if "idempotency-key" in headers:
        yield invalid
    if "clew-lease" in headers:
        yield 409
        if not is_openai:
            yield 423


def _success(route: Route, schema: Json, status: int) -> Json:
    described: dict[str, Json] = {"description": "Done"}
    names = [name for name in ANSWERED if name in headers_of(route.handler).answered]
    if names:
        described["headers"] = {
            ANSWERED[name][0]: {"description": ANSWERED[name][1], "schema": {"type": "string"}}
            for name in names
        }
    if status == 204:
        return described
    kinds = (route.media_type, *route.other_types)
    if schema is not None:
        described["content"] = {kind: {"schema": schema} for kind in kinds}
    else:
        described["content"] = {
            kind: {"schema": {} if kind.endswith("json") else {"type": "string"}} for kind in kinds
        }
    return described


# -- fields


def _put_notes(components: dict[str, Any], used: Iterable[Any]) -> None:
    """Say of each field what the text below it in the source says."""
    for kind in _structs_in(used):
        schema = components.get(kind.__name__)
        if schema is None or "properties" not in schema:
            continue
        notes = notes_of(kind)
        hints = get_type_hints(kind)
        for field in msgspec.structs.fields(kind):
            told = schema["properties"].get(field.encode_name)
            if told is None:
                continue
            if field.name in notes:
                told["description"] = _WORDS_OF_PYTHON.sub(lambda word: _IN_JSON[word[0]], notes[field.name])
            if datetime in (hints[field.name], *get_args(hints[field.name])):
                for one in (told, *told.get("anyOf", ())):
                    if one.get("type") == "string":
                        one["format"] = "date-time"


def _structs_in(used: Iterable[Any]) -> set[type]:
    found: set[type] = set()
    waiting = list(used)
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind not in found:
                found.add(kind)
                waiting += get_type_hints(kind, include_extras=True).values()
        else:
            waiting += get_args(kind)
    return found
