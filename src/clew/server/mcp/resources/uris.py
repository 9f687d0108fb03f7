"""The addresses of resources: `clew://session/ID`, and below it its entries and its tree.

An id may hold any characters, so it is percent-encoded: whatever it holds, it is one part of the address.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

import msgspec

from clew.core.log.ids import parse_entry_id
from clew.model import Head

SCHEME: Final = "clew://session/"
SESSION: Final = "clew://session/{id}"
ENTRY: Final = "clew://session/{id}/entries/{entry}"
TREE: Final = "clew://session/{id}/tree"
"""Templates of addresses (RFC 6570)."""

_ENTRIES: Final = "entries"
_TREE: Final = "tree"
LONGEST: Final = 4096
"""Letters of an address: each of an id of 512 bytes may be three."""


class Named(msgspec.Struct, frozen=True):
    """What an address names: a session, its tree, or one of its entries."""

    session: str
    entry: Head | None = None
    is_tree: bool = False


def session_uri(id: str) -> str:
    return SCHEME + quote(id, safe="")


def entry_uri(id: str, entry: str) -> str:
    return f"{session_uri(id)}/{_ENTRIES}/{quote(entry, safe='')}"


def tree_uri(id: str) -> str:
    return f"{session_uri(id)}/{_TREE}"


def named(uri: str) -> Named | None:
    """None: it is no address of ours."""
    if not uri.startswith(SCHEME) or len(uri) > LONGEST or any(mark in uri for mark in "?#"):
        return None
    try:
        parts = [unquote(part, errors="strict") for part in uri[len(SCHEME) :].split("/")]
    except UnicodeDecodeError:
        return None
    match parts:
        case [id] if id:
            return Named(id)
        case [id, below] if id and below == _TREE:
            return Named(id, is_tree=True)
        case [id, below, entry] if id and below == _ENTRIES:
            # No position and no name of a checkpoint: what they stand for changes, what an id names never.
            place = parse_entry_id(entry)
            return None if place is None else Named(id, place)
        case _:
            return None
