"""The part of docs/reference/http-api.md that follows from the description of the API.

`python -m tests.server.reference` writes it anew, between the two marks of the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from clew.server.openapi import document
from clew.server.process.settings import Settings
from clew.server.routes import all_routes
from tests.docs.pages import DOCS

PAGE = DOCS / "reference" / "http-api.md"
BEGIN, END = "<!-- routes: begin -->", "<!-- routes: end -->"
LONG = 12
"""Alternatives of a type that are listed one by one."""


def reference() -> str:
    return "\n".join(_lines(document(all_routes(Settings())))) + "\n"


def _lines(described: dict[str, Any]) -> Iterator[str]:
    for tag in described["tags"]:
        yield f"\n## {tag['name']}"
        for path, operations in described["paths"].items():
            for method, operation in operations.items():
                if operation["tags"] == [tag["name"]]:
                    yield from _operation(method.upper(), path, operation)
    yield "\n## Types"
    for name, schema in sorted(described["components"]["schemas"].items()):
        yield from _type(name, schema)


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"\n### `{method} {path}`\n"
    yield f"{_sentence(operation['summary'])}"
    if "description" in operation:
        yield _sentences(operation["description"])
    scope = operation["x-clew-scope"]
    yield "It needs no token." if scope is None else f"The token needs the scope `{scope}`."
    parameters = operation.get("parameters", [])
    if parameters:
        yield "\n| parameter | in | type | what |\n|---|---|---|---|"
        for one in parameters:
            about = _told(one.get("description", ""), one["schema"])
            yield f"| `{one['name']}` | {one['in']} | {_words(one['schema'])} | {about} |"
    yield ""
    body = operation.get("requestBody")
    if body is not None:
        kind, content = next(iter(body["content"].items()))
        yield f"Body: {_words(content['schema'])}, as `{kind}`."
    yield from _answers(operation["responses"])


def _answers(responses: dict[str, Any]) -> Iterator[str]:
    failures = []
    for status, answer in responses.items():
        if status.isdigit() and int(status) >= 300:
            failures.append(status)
        elif status.isdigit():
            yield _success(status, answer)
    yield f"Else: {', '.join(failures)}."


def _success(status: str, answer: dict[str, Any]) -> str:
    told = f"Answer: {status} {HTTPStatus(int(status)).phrase}"
    for media_type, content in answer.get("content", {}).items():
        shape = _words(content["schema"])
        told += f", {shape}" if shape != "any JSON" else ""
        told += "" if media_type == "application/json" else f" as `{media_type.partition(';')[0]}`"
    headers = answer.get("headers", {})
    if headers:
        told += f"; with {' and '.join(f'`{name}`' for name in headers)}"
    return told + "."


def _type(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"\n### {name}\n"
    yield _sentences(schema.get("description", ""))
    fields = schema.get("properties", {})
    if fields:
        yield "\n| field | type | what |\n|---|---|---|"
    for field, about in fields.items():
        yield f"| `{field}` | {_words(about)} | {_told(about.get('description', ''), about)} |"
    if not fields and "enum" in schema:
        yield "\n" + _words(schema)


def _words(schema: dict[str, Any]) -> str:
    """A type in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"] if one is not None) + (
            " or null" if None in schema["enum"] else ""
        )
    if schema.get("title") == "Item":
        return "item"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_words(one) for one in schema["anyOf"][:LONG]))
    match schema.get("type"):
        case "array":
            return f"list of {_words(schema.get('items', {}))}" if schema.get("items") else "list"
        case "object":
            inside = schema.get("additionalProperties")
            return f"object of {_words(inside)}" if isinstance(inside, dict) and inside else "object"
        case "integer" | "number":
            return _range(schema)
        case "string":
            return {"date-time": "time", "duration": "span", "binary": "bytes", "decimal": "decimal"}.get(
                schema.get("format", ""), "text"
            )
        case "boolean":
            return "true or false"
        case "null":
            return "null"
    return "any JSON"


def _range(schema: dict[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum", schema.get("exclusiveMaximum"))
    if high is not None and high >= 2**32 - 1:
        high = None
    if low is None:
        return "number" if high is None else f"number up to {high:,}"
    return f"number from {low:g}" if high is None else f"number {low:g} to {high:,}"


def _told(about: str, schema: dict[str, Any]) -> str:
    value = schema.get("default")
    default = "" if value is None else f" Default: {_default(value)}."
    return (_cell(about) + default).strip()


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value in ([], {}, "") else f"`{value}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def _sentences(paragraph: str) -> str:
    """One sentence a line, as all pages have it."""
    return " ".join(paragraph.split()).replace(". ", ".\n")


if __name__ == "__main__":
    text = PAGE.read_text("utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{reference()}\n{END}{after}", "utf-8")
