"""Where a page of hits ended, as opaque text."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

import msgspec

from clew.errors import InvalidQueryError


class Cursor(NamedTuple):
    time: int
    branch: str
    position: int
    score: float | None
    """Of a page of the best; None: of the newest."""


_decode = msgspec.json.Decoder(Cursor).decode


def make_cursor(cursor: Cursor) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def read_cursor(text: str, *, is_ranked: bool) -> Cursor:
    try:
        padded = text + "=" * (-len(text) % 4)
        cursor = _decode(base64.b64decode(padded, altchars=b"-_", validate=True))
        is_possible = -(2**63) <= cursor.time < 2**63 and 0 <= cursor.position < 2**32
        if not is_possible or "\0" in cursor.branch:
            raise ValueError(text)
    except (binascii.Error, msgspec.MsgspecError, ValueError, TypeError, AttributeError) as exc:
        raise InvalidQueryError(f"{text!r} is no cursor of a search") from exc
    if is_ranked != (cursor.score is not None):
        raise InvalidQueryError(f"{text!r} is the cursor of a search in another order")
    return cursor
