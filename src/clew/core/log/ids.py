"""Ids: what users may call a session, and how an entry's id leads to its place."""

from __future__ import annotations

import re
from typing import Final

from clew.errors import InvalidError, InvalidQueryError
from clew.model import Head

MAX_ID_BYTES: Final = 512
MAX_POSITION: Final = 2**32 - 1
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,63}\Z")


def check_id(id: str, what: str = "session id") -> str:
    """Any non-empty text of at most 512 bytes without NUL is an id; nothing else is."""
    if not isinstance(id, str):
        raise InvalidError(f"{what} must be text, not {type(id).__name__}")
    if not id:
        raise InvalidError(f"{what} must not be empty")
    try:
        size = len(id.encode())
    except UnicodeEncodeError as exc:
        raise InvalidError(f"{what} {id!r} is not valid Unicode (lone surrogate)") from exc
    if size > MAX_ID_BYTES:
        raise InvalidError(f"{what} has {size} bytes; at most {MAX_ID_BYTES} are allowed: {id[:40]!r}…")
    if "\0" in id:
        raise InvalidError(f"{what} {id!r} holds a NUL character")
    return id


def is_id(text: str) -> bool:
    """Whether `check_id` would take it."""
    try:
        check_id(text)
    except InvalidError:
        return False
    return True


def is_filter_key(key: str) -> bool:
    """Whether metadata of this name can be filtered on."""
    return _KEY.match(key) is not None


def check_filter_key(key: str) -> str:
    if not isinstance(key, str) or not is_filter_key(key):
        raise InvalidQueryError(
            f"{key!r} can not be filtered on: keys are up to 64 letters, digits, '_.-', no digit first"
        )
    return key


def entry_id(uid: str, position: int) -> str:
    return f"{uid}.{position}"


def parse_entry_id(text: str) -> Head | None:
    """The place that an entry id names, or None if it is no entry id."""
    uid, dot, digits = text.rpartition(".")
    if not (dot and uid and digits.isascii() and digits.isdigit()):
        return None
    position = int(digits) if len(digits) <= 18 else -1
    return Head(uid, position) if 0 <= position <= MAX_POSITION and str(position) == digits else None
