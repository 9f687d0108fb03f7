"""What may be stored: every message passes here once, with the same verdict for every backend.

Accepted is what JSON can hold and every backend gives back unchanged: `decode_json(body) == value`,
with the same types and the same key order. JSON text is kept byte for byte. Everything else is
refused with the path of the offending value.

Two walks, one law. `_is_plain` is the fast one: it knows only yes and "not sure", and nearly every
message ends there. `Copier` is the exact one: it finds the path of what is wrong, replaces lone
surrogates, and copies what is JSON in content though not in type (an OrderedDict, a mapping proxy).
Text that msgspec refuses is read again, leniently, into values that `Copier` then judges.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, TypeAlias

import msgspec

from clew.core.messages.validate import (
    HUGE_INTEGER,
    MAX_DEPTH,
    MAX_INT_DIGITS,
    MAX_MESSAGE_BYTES,
    NO_OBJECT,
    TOO_HIGH,
    TOO_LOW,
    Copier,
    Flaw,
    clipped,
    not_message,
    quoted,
    too_large,
)
from clew.errors import InvalidEntryError
from clew.model import Json

Text: TypeAlias = str | bytes | bytearray | memoryview

_INFINITY: Final = float("inf")

# Beyond this many items the fast walk leaves the verdict to the exact one, which knows what it has
# seen already: a list that holds itself a thousand times, three levels deep, is a billion items.
_MANY_ITEMS: Final = 4_000_000

# A string counts as one token, so that brackets inside it are not counted; it may lack its end.
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """A message that was found good."""

    body: bytes
    """The JSON text in UTF-8; exactly the given bytes when it came as JSON text."""
    value: dict[str, Any]
    """The same, decoded: to look at, never to change or keep. It may be the caller's own object."""
    replaced: bool = False
    """Lone surrogates were replaced by U+FFFD."""
    redacted: bool = False
    """Secrets were replaced."""


def prepare(
    message: Mapping[str, Json] | Text, *, strict: bool = False, index: int | None = None
) -> Prepared:
    """Check a message, given as a mapping or as JSON text, and encode it.

    A lone surrogate becomes U+FFFD and is flagged; `strict` refuses it. A high and a low surrogate
    in a row (two code points of a Python string) are the one character that they mean in JSON too:
    they are joined without a flag, and also refused by `strict`, as they do not come back equal.
    """
    if type(message) is dict and _is_plain(message):
        try:
            body = _encode(message)
            if len(body) <= MAX_MESSAGE_BYTES:
                return Prepared(body, message)
        except ValueError:  # a surrogate, or sys.set_int_max_str_digits was set below our limit
            pass
    root = "$" if index is None else f"messages[{index}]"
    if isinstance(message, Text):
        return _prepare_text(message, strict, root)
    if not isinstance(message, Mapping):
        raise InvalidEntryError(not_message(message), root)
    copier = Copier(root, strict)
    value = copier.copy(message)
    return Prepared(_seal(value, root), value, copier.replaced)


def encode_json(value: Json, *, what: str = "value", strict: bool = True) -> bytes:
    """Encode any JSON value after the same checks; `what` names it in errors.

    Nothing beside such a value could carry the flag of a replacement, so surrogates are refused
    unless the caller says `strict=False`.
    """
    if _is_plain((value,), MAX_DEPTH + 1):
        try:
            body = _encode(value)
            if len(body) <= MAX_MESSAGE_BYTES:
                return body
        except ValueError:
            pass
    return _seal(Copier(what, strict).copy(value), what)


decode_json: Final[Callable[[bytes], Json]] = _decode
"""Decodes what `prepare` or `encode_json` made: a new value at every call."""


def check_json(body: bytes, what: str = "value") -> Json:
    """The value of a JSON text from elsewhere, after the same checks: `encode_json` could have made it."""
    if len(body) > MAX_MESSAGE_BYTES:
        raise too_large(what)
    try:
        value = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidEntryError(f"not valid JSON: {error}", what) from error
    if not _is_simple(body, value):
        raise InvalidEntryError("it is nested too deeply, or a key occurs twice in an object", what)
    return value


def _is_plain(root: Any, levels: int = MAX_DEPTH) -> bool:
    """Whether all of `root` is surely JSON, surrogates aside. Level by level, so that depth is a
    counter and no path is kept; False only means that the exact walk has to judge."""
    level = [root]
    items = 0
    for _ in range(levels):
        below: list[Any] = []
        for node in level:
            items += len(node)
            if items > _MANY_ITEMS:
                return False
            if type(node) is dict:
                for key in node:
                    if type(key) is not str:
                        return False
                node = node.values()
            for item in node:
                kind = type(item)
                if kind is str:
                    continue
                if kind is dict or kind is list:
                    below.append(item)
                elif kind is int:
                    if not TOO_LOW < item < TOO_HIGH:
                        return False
                elif kind is float:
                    if not -_INFINITY < item < _INFINITY:  # False for NaN too
                        return False
                elif kind is not bool and item is not None:
                    return False
        if not below:
            return True
        level = below
    return False


def _seal(value: Json, root: str) -> bytes:
    try:
        body = _encode(value)
    except ValueError as error:  # only where sys.set_int_max_str_digits was set below our limit
        raise InvalidEntryError(str(error), root) from error
    if len(body) > MAX_MESSAGE_BYTES:
        raise too_large(root)
    return body


# JSON text


def _prepare_text(text: Text, strict: bool, root: str) -> Prepared:
    if isinstance(text, str):
        try:
            body = text.encode()
        except UnicodeEncodeError as error:
            return _reread(text, strict, root, error)
    else:
        body = bytes(text)
    if len(body) > MAX_MESSAGE_BYTES:
        raise too_large(root)
    try:
        value = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _reread(body, strict, root, error)
    if type(value) is not dict:
        raise InvalidEntryError(NO_OBJECT, root)
    if _is_simple(body, value):
        return Prepared(body, value)
    return _reread(body, strict, root, None)


def _is_simple(body: bytes, value: Json) -> bool:
    """Whether text that msgspec could read is surely good: not too deep, and no key twice in one
    object (msgspec keeps the last and says nothing)."""
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and not _is_plain(value):
        return False
    again = _encode(value)
    if body == again:
        return True  # a value has no key twice, and this is its text
    if msgspec.json.format(body, indent=-1) == again:
        return True  # the same, but for spaces and line breaks
    return bool(_UNIQUE.decode(body.decode()) == value)  # other escapes, other ways to write a number


def _lenient_object(pairs: list[tuple[str, Json]]) -> dict[str, Json] | Flaw:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
    return Flaw(f"the key {quoted(key)} occurs twice")


def _lenient_int(text: str) -> int | Flaw:
    if len(text) > MAX_INT_DIGITS:
        return Flaw(HUGE_INTEGER)
    try:
        return int(text)
    except ValueError as error:  # sys.set_int_max_str_digits was set below our limit
        return Flaw(str(error))


def _lenient_float(text: str) -> float | Flaw:
    number = float(text)
    return number if isfinite(number) else Flaw(f"the number {clipped(text)} is too large for a float")


_UNIQUE: Final = json.JSONDecoder(object_pairs_hook=_lenient_object)
_LENIENT: Final = json.JSONDecoder(
    object_pairs_hook=_lenient_object, parse_int=_lenient_int, parse_float=_lenient_float
)


def _reread(given: str | bytes, strict: bool, root: str, cause: Exception | None) -> Prepared:
    """Read text that is not simply good: mend its surrogates, or say what is wrong with it, and where."""
    copier = Copier(root, strict)
    value = copier.copy(_parse_leniently(_text_of(given, root), root))
    if copier.mended:
        return Prepared(_seal(value, root), value, copier.replaced)
    if isinstance(given, bytes) and cause is None:
        return Prepared(given, value)  # nothing is wrong: it was only too long for the fast walk
    if isinstance(cause, RecursionError):
        raise cause  # the message is not too deep: the caller's own stack is
    raise InvalidEntryError(f"not valid JSON: {cause}", root) from cause


def _text_of(text: str | bytes, root: str) -> str:
    if isinstance(text, bytes):
        if b"\0" in text[:2] or text.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InvalidEntryError("the text is UTF-16 or UTF-32; encode it as UTF-8", root)
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise InvalidEntryError(f"not valid UTF-8 at byte {error.start}: {error.reason}", root) from error
    if text.startswith("\ufeff"):
        raise InvalidEntryError("the text begins with a byte order mark; remove it", root)
    return text


def _parse_leniently(text: str, root: str) -> object:
    if not text.lstrip(" \t\r\n").startswith("{"):
        raise InvalidEntryError(NO_OBJECT, root)
    try:
        return _LENIENT.decode(_cut_at_depth(text))
    except json.JSONDecodeError as error:
        raise InvalidEntryError(f"not valid JSON: {error}", root) from error


def _cut_at_depth(text: str) -> str:
    """The text up to the first list or object that lies too deep, closed there: so it can be parsed
    without a deep stack, and the walk finds the same offender at the same path."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return text
    closers: list[str] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in ("[", "{"):
            closers.append("]" if token == "[" else "}")
            if len(closers) > MAX_DEPTH:
                return text[: match.end()] + "".join(reversed(closers))
        elif token in ("]", "}") and closers:
            closers.pop()
    return text
