"""What a tool is: its name, its arguments and its answer as types, and the JSON Schemas of both.

The same types decode arguments and are described to clients, so that the two cannot differ. Schemas are
small: every client puts them into the context of its model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from clew.core.log.grants import Scope
from clew.errors import InvalidError

if TYPE_CHECKING:
    from clew.server.mcp.view import View


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool."""


class Answer(msgspec.Struct, kw_only=True, omit_defaults=False):
    """What a tool answers."""

    redacted: int = 0
    """So many secrets were replaced in it."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. `run` gets the arguments already checked."""

    name: str
    description: str
    arguments: type[Arguments]
    answer: type[Answer]
    run: Callable[[View, Any], Answer]
    needs: Scope = "read"
    """What a caller must be allowed."""

    def decode(self, given: object) -> Arguments:
        """InvalidError: these are no arguments for it."""
        try:
            return msgspec.convert(given or {}, self.arguments, strict=True)
        except (msgspec.ValidationError, RecursionError, UnicodeError) as error:
            raise InvalidError(f"{self.name}: {error}") from error

    def input_schema(self) -> dict[str, Any]:
        """What may be sent. `None` stands for what is left out, and long texts are refused; neither is worth
        a word in the context of every model."""
        schema = schema_of(self.arguments)
        for field in schema["properties"].values():
            field.pop("maxLength", None)
            if isinstance(field.get("type"), list):
                field["type"] = field["type"][0]
        return schema

    def output_schema(self) -> dict[str, Any]:
        """What is answered. Every field is always there, so that none needs to be named as required."""
        schema = schema_of(self.answer)
        schema["required"] = list(schema["properties"])[1:2]
        return schema


def schema_of(type: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a type, in one piece and in few words."""
    (found,), parts = msgspec.json.schema_components([type], ref_template="{name}")
    whole: dict[str, Any] = _short(found, parts, is_top=True)
    return whole


def _short(schema: Any, parts: dict[str, Any], *, is_top: bool = False) -> Any:
    if isinstance(schema, list):
        return [_short(one, parts) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _short(parts[schema["$ref"]], parts, is_top=is_top)
    short = {
        name: {field: _short(one, parts) for field, one in value.items()}
        if name == "properties"
        else _short(value, parts)
        for name, value in schema.items()
        if not _is_idle(name, value, is_top)
    }
    kinds = short.get("anyOf", [])
    if len(kinds) == 2 and {"type": "null"} in kinds:
        other = next(kind for kind in kinds if kind != {"type": "null"})
        if "type" in other:
            del short["anyOf"]
            short = other | short | {"type": [other["type"], "null"]}
        elif "enum" in other:
            short = other | {name: value for name, value in short.items() if name != "anyOf"}
    return short


def _is_idle(name: str, value: Any, is_top: bool) -> bool:
    """Whether a keyword says nothing that a model or a client needs."""
    match name:
        case "title":
            return True
        case "default":
            return value in (None, "", 0)
        case "required":
            return not is_top
        case _:
            return False
