"""Ids of frames: the place up to which a client has all. They come back from clients, so they are checked.

Of one session it is the id of an entry, or `start`. Branches of a store that came from elsewhere may have any
names: what is not plain is percent-encoded. Of several sessions it is a vector, one place for each of them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from clew.core.log.ids import entry_id, is_id, parse_entry_id
from clew.model import Head
from clew.server.call import START
from clew.server.problems import Problem

NOWHERE: Final = Head("", -1)
LONGEST: Final = 8192
"""Characters of an id, at most."""
_PLAIN: Final = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_VECTOR: Final = "v1."

_decode_vector = msgspec.json.Decoder(dict[str, str]).decode


def place_id(place: Head) -> str:
    """A place on a path as an id."""
    return START if place.position < 0 else quote(entry_id(place.branch, place.position), safe=_PLAIN)


def place_of(text: str) -> Head:
    """The same the other way round. A problem: it is not the id of any entry."""
    if text == START:
        return NOWHERE
    _check(text)
    try:
        plain = unquote(text, errors="strict")
    except UnicodeDecodeError as exc:
        raise refused() from exc
    found = parse_entry_id(plain)
    if found is None or not is_id(found.branch):
        raise refused()
    return found


def vector_id(places: Mapping[str, Head]) -> str:
    """Places in several sessions, by their ids, as one id."""
    content = {_key(session): place_id(place) for session, place in sorted(places.items())}
    return _VECTOR + base64.urlsafe_b64encode(msgspec.json.encode(content)).decode().rstrip("=")


class Vector:
    """Places in several sessions, as a client sent them."""

    def __init__(self, text: str) -> None:
        _check(text)
        if not text.startswith(_VECTOR):
            raise refused()
        packed = text.removeprefix(_VECTOR)
        try:
            content = base64.b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True)
            self._places = {key: place_of(place) for key, place in _decode_vector(content).items()}
        except (binascii.Error, msgspec.MsgspecError, UnicodeError, ValueError) as exc:
            raise refused() from exc

    def place(self, session: str) -> Head | None:
        """None: it says nothing of this session."""
        return self._places.get(_key(session))


def _key(session: str) -> str:
    """Short, however long the id is. Two sessions of one key would get each other's places, which mean
    nothing there: then a stream begins anew."""
    digest = hashlib.blake2b(session.encode(), digest_size=9).digest()
    return base64.urlsafe_b64encode(digest).decode()


def _check(text: str) -> None:
    if len(text) > LONGEST or _VISIBLE.fullmatch(text) is None:
        raise refused()


def refused() -> Problem:
    return Problem(
        422,
        "invalid_event_id",
        "The event id cannot be read",
        "Last-Event-ID, or `after`, is not an id that a stream of this kind has given",
        next="send the id of the last frame as it came, or leave it out to begin with what happens now;"
        " after=start begins with the first entry",
    )
