"""Names for the entries of programs that write over their own messages, and for sessions.

An entry in a store never changes. So the name of such a message is made of all that lies before it and of
what it says: read again it has the same name, and when the program wrote over it, the new version and all
that follows get new names, and with them a branch of their own.
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
    """The name of a message with this digest behind this parent."""
    mark = blake3(_canonical([parent, name, content])).hexdigest(_MARK_BYTES)
    return f"{_plain(name)}~{mark}"


def session_id(program: str, name: str) -> str:
    """An id for the store, whatever the program thought fit to be a name."""
    whole = f"{program}:{name}"
    return whole if name and is_id(whole) else f"{program}:{digest(name)}"


def _plain(name: str) -> str:
    if name.isascii() and name.isprintable():
        return name[:_LONGEST_NAME]
    return name[:_LONGEST_NAME].encode("utf-8", "replace").decode().replace("\0", "?")


def _canonical(value: Json) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8; its escape has
        return json.dumps(value, sort_keys=True).encode()
