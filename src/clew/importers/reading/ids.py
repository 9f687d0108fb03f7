"""Stable names for entries and sessions of other programs: the same whenever a file is read again.

An entry in a store never changes, but programs write over their own messages, and many give them no names. So
a name is made of what a message says and of the name before it: read again it is the same, two lists that
begin alike share the names of what they share, and where a program wrote over its history, the new version
and all that follows get new names, and with them a branch of their own.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec
from blake3 import blake3

from clew.core.log.ids import is_id
from clew.model import Json

_LONGEST_NAME: Final = 64
_DIGEST_BYTES: Final = 16
_MARK_BYTES: Final = 10

_encode: Final = msgspec.json.Encoder(order="sorted").encode


def digest(value: Json) -> str:
    return blake3(_canonical(value)).hexdigest(_DIGEST_BYTES)


def version(parent: str | None, name: str, content: str) -> str:
    """The name of a message that its program calls `name`, and that has this digest, behind `parent`."""
    return f"{_plain(name)}~{_mark([parent, name, content])}"


def link(parent: str | None, value: Json) -> str:
    """The name of a message that has none, behind `parent`."""
    return follow(parent, digest(value))


def follow(parent: str | None, content: str) -> str:
    """The same for a message that has this digest."""
    return _mark([parent, content])


class Counted:
    """Names for records in no order: what is there twice has two names."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def name(self, value: Json) -> str:
        name = link(None, value)
        self._seen[name] = self._seen.get(name, 0) + 1
        return f"{name}-{self._seen[name]}"


def session_id(program: str, name: str) -> str:
    """An id for the store, whatever a program takes for a name: it may be empty, too long, or hold a NUL."""
    whole = f"{program}:{name}"
    if name and is_id(whole):
        return whole
    return f"{program}:{_plain(name) or '(empty)'}~{_mark(name)}"


def _plain(name: str) -> str:
    if name.isascii() and name.isprintable():
        return name[:_LONGEST_NAME]
    return name[:_LONGEST_NAME].encode("utf-8", "replace").decode().replace("\0", "?")


def _mark(value: Json) -> str:
    return blake3(_canonical(value)).hexdigest(_MARK_BYTES)


def _canonical(value: Json) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8; its escape has
        return json.dumps(value, sort_keys=True).encode()
