"""Loose JSON values, times, and stable ids for entries that have none."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Final

import msgspec
from blake3 import blake3

from clew.core.log.ids import is_id
from clew.core.messages.validate import MAX_INT_DIGITS
from clew.core.messages.value_count import TooManyValuesError, check_value_count
from clew.core.streams.usage import PLACES
from clew.importers.contract import Problem
from clew.importers.reading.files import content_of
from clew.model import Json

# ── Stable names for entries and sessions of other programs: the same whenever a file is read again ───
# An entry in a store never changes, but programs write over their own messages, and many give them no
# names. So a name is made of what a message says and of the name before it: read again it is the same, two
# lists that begin alike share the names of what they share, and where a program wrote over its history, the
# new version and all that follows get new names, and with them a branch of their own.

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
    return name_after(parent, digest(value))


def name_after(parent: str | None, content: str) -> str:
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


class NamesState(msgspec.Struct, frozen=True, array_like=True):
    """What `LogNames` needs to continue behind a place."""

    last: str = ""
    scope: str = ""
    seen: dict[str, int] = {}


class LogNames:
    """Names for the records of a log that have none of their own: never by where they stand, because a log
    can lose lines that were read, and grow again."""

    def __init__(self, state: NamesState | None = None) -> None:
        state = state or NamesState()
        self._last = state.last
        """The name of the last message."""
        self._scope = state.scope
        self._seen = dict(state.seen)
        """How often each name was given in this scope."""

    def state(self) -> NamesState:
        return NamesState(self._last, self._scope, self._seen)

    def message(self, parent: str | None, content: str) -> str:
        """The name of a message: of what it says and of all messages before it, so that none has it twice,
        also where the conversation was rolled back."""
        self._last = _mark([self._last, parent, content])
        return self._last

    def follow(self, name: str) -> None:
        """A record was read that has this name of its own."""
        self._last = name

    def beside(self, content: str, at: Json = None, *, behind: str | None = None) -> str:
        """The name of any other record: of what it says, if it tells its time, else also of the message that
        it follows (`behind`; None: the last one). Equal ones are counted."""
        if isinstance(at, str) and at:
            scope, name = at, content
        else:
            scope = self._last if behind is None else behind
            name = _mark([scope, content])
        if scope != self._scope:
            self._scope, self._seen = scope, {}
        number = self._seen[name] = self._seen.get(name, 0) + 1
        return name if number == 1 else f"{name}-{number}"


def digest_of_line(raw: bytes, record: Json) -> str:
    """What stands for the content of a line. `raw`: empty, if it had to be mended."""
    return blake3(raw).hexdigest(_DIGEST_BYTES) if raw else digest(record)


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


# ── Values out of JSON of any shape: a value that does not fit is None or empty ───────────────────

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS_FROM: Final = 100_000_000_000
"""As seconds the year 5138, as milliseconds 1973: a larger number is in milliseconds."""
_MOST_TOKENS: Final = 2**50
"""So that a sum of some is still one that can be kept."""


def decode(raw: bytes | str) -> Json:
    """JSON as programs really write it: lone surrogates and NaN are read too. Raises ValueError."""
    check_value_count(raw)
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = raw.decode("utf-8", "strict") if isinstance(raw, bytes) else raw
        # It has no word for NaN and the infinities, and neither has a store.
        return json.loads(
            text.removeprefix("\ufeff"), parse_constant=lambda _: None, parse_float=finite, parse_int=integer
        )
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def finite(digits: str) -> float | None:
    """A number with a point or an exponent; None: it is too large to be one."""
    number = float(digits)
    return number if isfinite(number) else None


def integer(digits: str) -> int | None:
    """A whole number; None: it is longer than what a store gives back."""
    return int(digits) if len(digits) <= MAX_INT_DIGITS else None


def decode_or_none(raw: Json) -> Json:
    """A JSON text inside a column or a field; None when it is no JSON."""
    if not isinstance(raw, str | bytes):
        return None
    try:
        return decode(raw)
    except (ValueError, RecursionError):
        return None


def flaw_of(raw: Json, shape: str) -> str:
    """What is wrong with a JSON text that did not give a value of this shape, such as "a JSON object"."""
    try:
        if isinstance(raw, str | bytes):
            check_value_count(raw)
    except TooManyValuesError as exc:
        return f"has {exc}"
    return f"is not {shape}"


def unreadable(path: Path, exc: Exception) -> Problem:
    """The problem with a document that could not be decoded."""
    reason = f"it has {exc}" if isinstance(exc, TooManyValuesError) else f"not valid JSON: {exc}"
    return Problem(path=str(path), line=getattr(exc, "lineno", None), reason=reason)


def document(path: Path) -> Json:
    """The whole file as one value. Raises ValueError."""
    raw = content_of(path)
    return decode(raw.removeprefix(b"\xef\xbb\xbf"))


def text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


def plain_name(value: Json) -> str | None:
    """What something is called: a model, a folder. NUL and lone surrogates are no part of a name."""
    found = text(value)
    if found and found.isascii() and "\0" not in found:
        return found
    return found and found.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def kind(value: Json) -> str:
    """A word that tells things apart; empty for whatever is no text."""
    return value if isinstance(value, str) else ""


def mapping(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def items(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def count(value: Json) -> int:
    """A number of tokens: whole, and not below 0."""
    if type(value) is int:
        return min(max(value, 0), _MOST_TOKENS)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    if isinstance(value, float) and not isfinite(value):
        return 0
    return min(max(int(value), 0), _MOST_TOKENS)


def prompt(told: int, cached: int, *, is_apart: bool = False) -> int:
    """The tokens of a whole prompt. Some programs leave out of what they tell whatever came from a cache or
    went there (`is_apart`); one that tells less than that certainly does."""
    return told + cached if is_apart or told < cached else told


def money(value: Json) -> str | None:
    """Dollars, as the decimal digits that the file shows; rounded to what can be kept, because floats that
    were added up have more."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        return None
    told = Decimal(repr(value))
    return format(told if -int(told.as_tuple().exponent) <= PLACES else round(told, PLACES), "f")


def when(value: Json) -> datetime | None:
    """An ISO time, or a number of seconds or milliseconds since 1970; also as a text of digits."""
    if isinstance(value, str):
        if value.isdecimal() and len(value) >= 9:
            return _since_epoch(int(value[:20]))
        return _iso(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return _since_epoch(value)


def without(values: dict[str, Json], names: Collection[str]) -> dict[str, Json]:
    """What is left for the notes."""
    return {name: value for name, value in values.items() if name not in names and value is not None}


def _iso(value: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    if moment.tzinfo is UTC and moment.year > 1:
        return moment
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    # Year 1 is how Go says that there is no time; the last hours of 9999 may be none in UTC.
    try:
        return moment.astimezone(UTC) if moment.year > 1 else None
    except OverflowError:
        return None


def _since_epoch(number: float) -> datetime | None:
    if not 0 < number < 1e15:
        return None
    seconds = number / 1000 if number >= _MILLISECONDS_FROM else number
    return _EPOCH + timedelta(seconds=seconds)
