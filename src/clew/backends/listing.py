"""What sessions can be listed by, and the cursors that page through them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from clew.core.log.ids import check_filter_key, is_filter_key
from clew.core.log.records import decoder
from clew.core.log.rows import Details
from clew.core.messages.codec import encode_json
from clew.errors import InvalidQueryError
from clew.model import Json

TAG = ""
"""The facet name of tags: no metadata key that can be filtered on is empty."""

_Cursor = tuple[int, str]
_decode_cursor = msgspec.json.Decoder(_Cursor).decode


_decode_metadata: Callable[[bytes], dict[str, Json]] = decoder(dict[str, Any], "the metadata of a session")


def facets_of(details: Details) -> list[tuple[str, str]]:
    """Tags, and the top-level metadata scalars as JSON text."""
    found = [(TAG, tag) for tag in details.tags]
    for name, value in _decode_metadata(details.metadata).items():
        if is_filter_key(name) and _is_scalar(value):
            found.append((name, encode_json(value).decode()))
    return found


def wanted(where: Mapping[str, Json]) -> tuple[tuple[str, str], ...]:
    """The same form for a filter."""
    pairs = []
    for name, value in where.items():
        if not _is_scalar(value):
            raise InvalidQueryError(
                f"metadata {name!r} can be compared with text, numbers, true, false or null only"
            )
        pairs.append((check_filter_key(name), encode_json(value, what=name).decode()))
    return tuple(pairs)


def _is_scalar(value: Json) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def make_cursor(updated: int, id: str) -> str:
    """A place between two sessions of a listing, as opaque text."""
    return base64.urlsafe_b64encode(msgspec.json.encode((updated, id))).decode().rstrip("=")


def read_cursor(cursor: str) -> tuple[int, str]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        moment, id = _decode_cursor(base64.b64decode(padded, altchars=b"-_", validate=True))
        if not -(2**63) <= moment < 2**63:
            raise ValueError(moment)
        return moment, id
    except (binascii.Error, msgspec.MsgspecError, ValueError, TypeError, AttributeError) as exc:
        raise InvalidQueryError(f"{cursor!r} is no cursor of this store") from exc
