"""Reading the small named records beside sessions back: their bytes are not believed either."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from clew.core.log.fields import MOST
from clew.errors import CorruptError
from clew.model import Json

T = TypeVar("T")

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, TypeError, RecursionError)
_decode_json = msgspec.json.Decoder().decode


def decoder(kind: type[T], what: str, *, packed: bool = False) -> Callable[[bytes], T]:
    """A function from the bytes of a record to its value, by the types of its fields. CorruptError: they are
    none. `what` names such a record; `packed`: it is msgpack, else JSON."""
    decode: Callable[[bytes], T]
    decode = msgspec.msgpack.Decoder(kind).decode if packed else msgspec.json.Decoder(kind).decode

    def checked(value: bytes) -> T:
        try:
            return decode(value)
        except _UNREADABLE as error:
            raise CorruptError(f"{what} is damaged: {error}") from error

    return checked


def json_in(value: bytes | msgspec.Raw, what: str) -> Json:
    """The JSON value that a record holds as text. CorruptError: it is none."""
    try:
        return _decode_json(value)
    except _UNREADABLE as error:
        raise CorruptError(f"{what} is damaged: {error}") from error


def number_in(text: str | bytes, what: str, base: int = 10) -> int:
    """The number that a name, or a record, is. CorruptError: it is none."""
    try:
        number = int(text, base) if len(text) <= 20 else -1
    except ValueError:
        number = -1
    if not 0 <= number <= MOST:
        raise CorruptError(f"{what} is damaged: {text[:40]!r} is no number")
    return number
