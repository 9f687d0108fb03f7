"""Names for messages that have none in their file.

The name is made of the message and of the name before it. So it is the same whenever the file is read
again, two lists that begin alike share the names of what they share, and a program that wrote over its
own history gets a branch: nothing is taken for what it is not.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Final

import msgspec

from clew.model import Json

_encode: Final = msgspec.json.Encoder(order="sorted").encode
_MAX_ID_BYTES: Final = 512


def link(parent: str | None, content: Json) -> str:
    """The name of what follows `parent`."""
    return follow(parent, digest(content))


def digest(content: Json) -> bytes:
    return blake2b(_canonical(content), digest_size=16).digest()


def follow(parent: str | None, content: bytes) -> str:
    """The name of what has this digest and follows `parent`."""
    return blake2b((parent or "").encode() + content, digest_size=12).hexdigest()


class Counted:
    """Names for records in no order: what is there twice has two names."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def name(self, content: Json) -> str:
        name = link(None, content)
        self._seen[name] = self._seen.get(name, 0) + 1
        return f"{name}-{self._seen[name]}"


def session_id(program: str, id: str) -> str:
    """An id for the store: other people's ids may be empty, too long, or hold what no id may hold."""
    whole = f"{program}:{id or '(empty)'}"
    plain = whole.encode("utf-8", "replace").decode().replace("\0", "�")
    if plain == whole and len(whole.encode()) <= _MAX_ID_BYTES:
        return whole
    return f"{plain[:64]}~{link(None, id)}"


def _canonical(content: Json) -> bytes:
    try:
        return _encode(content)
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8; its escape has
        return json.dumps(content, sort_keys=True).encode()
