"""How answers write ids and places, and how they are read again when a caller sends them back.

An id may hold any character. One that acts (a line end, a writing direction, what is not seen) is written as
the percent signs of its bytes, so that no id acts and each can still be sent back; others stay as they are.
What stands behind the @ of a place is a position, else an entry, else a checkpoint: the name of a checkpoint
that would be taken for one of the others has its last character escaped.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from clew.core.conversation.points import Point
from clew.core.log.ids import parse_entry_id
from clew.core.messages.text import ACTING
from clew.model import Head

_ESCAPED: Final = re.compile(rf"{ACTING.pattern}|[\t\n]|%(?=[0-9A-Fa-f]{{2}})")
_DIGITS: Final = 9
"""Of a position, at most."""


def escaped(id: str) -> str:
    """An id, a name or a path as an answer writes it. `unescaped` gives it back exactly."""
    return _ESCAPED.sub(_hidden, id)


def unescaped(text: str) -> str:
    """What `escaped` was given. A text that it cannot have written stays as it is."""
    try:
        return unquote(text, "utf-8", "surrogatepass") if "%" in text else text
    except UnicodeDecodeError:
        return text


def place_in(session: str, entry: str) -> str:
    """How an answer names an entry."""
    return f"{escaped(session)}@{_behind(entry)}"


def checkpoint_in(session: str, name: str) -> str:
    """How an answer names a checkpoint."""
    text = _behind(name)
    if not isinstance(_point(text), str):
        text = f"{text[:-1]}%{ord(text[-1]):02X}"
    return f"{escaped(session)}@{text}"


def split(place: str) -> tuple[str, str] | None:
    """The session and the point of a place. None: it names no point."""
    id, _, point = place.rpartition("@")
    return (id, point) if id and point else None


def points_of(text: str) -> list[Point]:
    """What may be meant behind the @: what an answer means by it, else a checkpoint of just this name."""
    return list(dict.fromkeys((_point(text), text)))


def _point(text: str) -> Head | int | str:
    """An entry is a Head: no checkpoint of the same name comes before it."""
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS:
        return int(text)
    entry = parse_entry_id(text)
    return unescaped(text) if entry is None else Head(unescaped(entry.branch), entry.position)


def _behind(name: str) -> str:
    return escaped(name).replace("@", "%40")


def _hidden(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))
