"""Variables and documents on the wire."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from clew.model import Json
from clew.server.wire.sessions import Limit

Bytes: TypeAlias = bytes
"""Beside a field of that name."""


class Variables(msgspec.Struct, frozen=True):
    """All variables of a session, by name."""

    data: dict[str, Json]


class Variable(msgspec.Struct, frozen=True):
    """A JSON value with a name."""

    name: str
    value: Json


class VariableBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The value of a variable."""

    value: Json


class DocumentsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which documents."""

    prefix: str = ""
    """Only those whose names begin with this."""
    newest_first: bool = False
    """From the last name to the first."""
    contents: bool = False
    """With their contents, in base64."""
    limit: Limit = 50
    cursor: str | None = None


class DocumentView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document."""

    name: str
    bytes: int
    content: Bytes | msgspec.UnsetType = msgspec.UNSET
    """In base64."""


class DocumentPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some documents, in the order of their names."""

    data: list[DocumentView]
    cursor: str | None
