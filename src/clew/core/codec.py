"""What may be stored: every message passes here once, with the same verdict for every backend.

Accepted is what JSON can hold and every backend gives back unchanged: `decode_json(body) == value`,
with the same types and the same key order. JSON text is kept byte for byte. Everything else is
refused with the path of the offending value.

Two walks, one law. `_is_plain` is the fast one: it knows only yes and "not sure", and nearly every
message ends there. `_Copier` is the exact one: it finds the path of what is wrong, replaces lone
surrogates, and copies what is JSON in content though not in type (an OrderedDict, a mapping proxy).
Text that msgspec refuses is read again, leniently, into values that `_Copier` then judges.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from types import NoneType
from typing import Any, Final, TypeAlias

import msgspec

from clew.errors import InvalidEntryError
from clew.model import Json

MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
MAX_DEPTH: Final = 200
"""Levels of lists and objects; the message itself is the first."""
MAX_INT_DIGITS: Final = 4300
"""One less for negative integers: msgspec counts the sign, and what it can not read is not stored."""

Text: TypeAlias = str | bytes | bytearray | memoryview

# The first integers beyond the limit. Compared, not converted: the digits of an integer cost time.
_TOO_HIGH: Final = 10**MAX_INT_DIGITS
_TOO_LOW: Final = -(10 ** (MAX_INT_DIGITS - 1))
_INFINITY: Final = float("inf")

# Beyond this many items the fast walk leaves the verdict to the exact one, which knows what it has
# seen already: a list that holds itself a thousand times, three levels deep, is a billion items.
_MANY_ITEMS: Final = 4_000_000

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
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
        raise InvalidEntryError(_not_message(message), root)
    copier = _Copier(root, strict)
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
    return _seal(_Copier(what, strict).copy(value), what)


decode_json: Final[Callable[[bytes], Json]] = _decode
"""Decodes what `prepare` or `encode_json` made: a new value at every call."""


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
                    if not _TOO_LOW < item < _TOO_HIGH:
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
        raise _too_large(root)
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
        raise _too_large(root)
    try:
        value = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _reread(body, strict, root, error)
    if type(value) is not dict:
        raise InvalidEntryError(_NO_OBJECT, root)
    if _is_simple(body, value):
        return Prepared(body, value)
    return _reread(body, strict, root, None)


def _is_simple(body: bytes, value: dict[str, Json]) -> bool:
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


class _Flaw:
    """Stands in leniently read text for what is no JSON value, until the walk gives it a path."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _lenient_object(pairs: list[tuple[str, Json]]) -> dict[str, Json] | _Flaw:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
    return _Flaw(f"the key {_quoted(key)} occurs twice")


def _lenient_int(text: str) -> int | _Flaw:
    if len(text) > MAX_INT_DIGITS:
        return _Flaw(_HUGE_INTEGER)
    try:
        return int(text)
    except ValueError as error:  # sys.set_int_max_str_digits was set below our limit
        return _Flaw(str(error))


def _lenient_float(text: str) -> float | _Flaw:
    number = float(text)
    return number if isfinite(number) else _Flaw(f"the number {_clipped(text)} is too large for a float")


_UNIQUE: Final = json.JSONDecoder(object_pairs_hook=_lenient_object)
_LENIENT: Final = json.JSONDecoder(
    object_pairs_hook=_lenient_object, parse_int=_lenient_int, parse_float=_lenient_float
)


def _reread(given: str | bytes, strict: bool, root: str, cause: Exception | None) -> Prepared:
    """Read text that is not simply good: mend its surrogates, or say what is wrong with it, and where."""
    copier = _Copier(root, strict)
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
        raise InvalidEntryError(_NO_OBJECT, root)
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


# The exact walk


class _Made(msgspec.Struct, frozen=True):
    """A finished copy, the levels in it, and a lower bound of its size as JSON text."""

    value: Json
    height: int
    size: int


class _Frame:
    """A list or mapping that is being copied."""

    def __init__(self, source: Mapping[Any, Any] | list[Any]) -> None:
        self.source = source
        self.out: Any = [] if isinstance(source, list) else {}
        self.todo: Iterator[tuple[Any, Any]] = iter(())
        self.at: Any = None
        self.height = 1
        self.size = 1

    def add(self, made: _Made) -> None:
        if type(self.out) is list:
            self.out.append(made.value)
        else:
            self.out[self.at] = made.value
            self.size += len(self.at) + 3
        self.height = max(self.height, made.height + 1)
        self.size += made.size + 1


class _Copier:
    """Copies a value into plain dicts and lists, or raises with the path of what can not be kept.

    Its stack is a list, not Python's, so no depth can exhaust it. It remembers what it has copied:
    an object that is met again, however often, is counted but not walked again.
    """

    def __init__(self, root: str, strict: bool) -> None:
        self.root = root
        self.strict = strict
        self.mended = False
        """Some surrogate was joined or replaced."""
        self.replaced = False
        """A lone surrogate was replaced."""
        self._frames: list[_Frame] = []
        self._known: dict[int, _Made | None] = {}  # by id; None while it is being copied
        self._kept: list[object] = []  # an id means something only while its object lives

    def copy(self, value: Any) -> Any:
        made = self._enter(value)
        while self._frames:
            made = self._advance(self._frames[-1])
            if made is not None:
                self._known[id(self._frames.pop().source)] = made
                if self._frames:
                    self._add(made)
        assert made is not None  # a scalar, or the outermost container, which closed last
        return made.value

    def _advance(self, frame: _Frame) -> _Made | None:
        """Copy items until one of them has to be walked first (None) or all are done."""
        for at, item in frame.todo:
            frame.at = at
            made = self._enter(item)
            if made is None:
                return None
            self._add(made)
        return _Made(frame.out, frame.height, frame.size)

    def _add(self, made: _Made) -> None:
        frame = self._frames[-1]
        frame.add(made)
        if frame.size > MAX_MESSAGE_BYTES:
            raise _too_large(self.root)

    def _enter(self, value: Any) -> _Made | None:
        """The copy of a scalar, or of what was copied before; None: a frame was opened for it."""
        kind = type(value)
        if kind is str:
            text = self._mend(value)
            return _Made(text, 0, len(text) + 2)
        if kind is int and not _TOO_LOW < value < _TOO_HIGH:
            raise self._refusal(_HUGE_INTEGER)
        if kind is float and not isfinite(value):
            raise self._refusal(f"{_FLOATS[str(value)]} is not JSON; use null (None) or a string")
        if kind in (bool, int, float, NoneType):
            return _Made(value, 0, 1)
        if isinstance(value, Mapping | list):
            return self._open(value)
        raise self._refusal(value.reason if kind is _Flaw else _not_json(value))

    def _open(self, value: Mapping[Any, Any] | list[Any]) -> _Made | None:
        known = id(value) in self._known
        made = self._known.get(id(value))
        if known and made is None:
            raise self._refusal(f"this {_name(value)} contains itself")
        if len(self._frames) + (made.height if made else 1) > MAX_DEPTH:
            raise self._refusal(f"more than {MAX_DEPTH} levels of lists and objects")
        if made is None:
            frame = _Frame(value)
            frame.todo = enumerate(value) if isinstance(value, list) else self._pairs(frame)
            self._frames.append(frame)
            self._known[id(value)] = None
            self._kept.append(value)
        return made

    def _pairs(self, frame: _Frame) -> Iterator[tuple[str, Any]]:
        for key, item in frame.source.items():  # type: ignore[union-attr]  # _open knows it is a mapping
            if type(key) is not str:
                reason = f"a key is of type {_name(key)}; keys in JSON are strings"
                raise InvalidEntryError(reason, self._path(self._frames[:-1]))
            frame.at = key  # for the path, should the key be refused
            text = self._mend(key)
            if text in frame.out:
                raise self._refusal(f"replacing surrogates makes two keys equal: {_quoted(text)}")
            yield text, item

    def _mend(self, text: str) -> str:
        found = None if text.isascii() else _SURROGATE.search(text)
        if found is None:
            return text
        if self.strict:
            raise self._refusal(f"surrogate U+{ord(found[0]):04X} at character {found.start()} is no text")
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        whole = _SURROGATE.sub("\ufffd", joined)
        self.mended = True
        self.replaced = self.replaced or whole != joined
        return whole

    def _path(self, frames: list[_Frame]) -> str:
        return self.root + "".join(_step(frame.at) for frame in frames)

    def _refusal(self, reason: str) -> InvalidEntryError:
        return InvalidEntryError(reason, self._path(self._frames))


# The words of refusal

_NO_OBJECT: Final = "not a JSON object; for plain text append {'role': 'user', 'content': ...}"
_HUGE_INTEGER: Final = f"an integer of more than {MAX_INT_DIGITS} digits (a minus sign counts as one)"
_FLOATS: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

# By the name of a class or of one it derives from, the first that fits. Names, so that nothing has
# to be imported; Enum before str and int, which IntEnum and StrEnum derive from too.
_ADVICE: Final = {
    "use its .value": ("Enum",),
    "use .item()": ("generic",),
    "use .tolist()": ("ndarray",),
    "use .model_dump(mode='json')": ("BaseModel",),
    "use msgspec.to_builtins()": ("Struct",),
    "use a list": ("tuple", "set", "frozenset", "deque"),
    "use text, for example base64": ("bytes", "bytearray", "memoryview"),
    "use .isoformat()": ("date", "time"),
    "use .total_seconds()": ("timedelta",),
    "use str() or float()": ("Decimal", "Fraction"),
    "use str()": ("UUID", "PurePath", "str"),
    "use int()": ("int",),
    "use float()": ("float",),
}


def _not_json(value: object) -> str:
    bases = {base.__name__ for base in type(value).__mro__}
    advice = "use None, bool, int, float, str, list or dict"
    if hasattr(type(value), "__dataclass_fields__"):
        advice = "use dataclasses.asdict()"
    else:
        advice = next((a for a, names in _ADVICE.items() if not bases.isdisjoint(names)), advice)
    return f"{_name(value)} is not JSON; {advice}"


def _not_message(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"a message is one JSON object, not a {_name(value)}; append several with append(*messages)"
    if value is None or isinstance(value, bool | int | float):
        return f"a message is a JSON object (dict), not {_name(value)}"
    return _not_json(value)


def _too_large(root: str) -> InvalidEntryError:
    return InvalidEntryError(
        f"larger than {MAX_MESSAGE_BYTES} bytes as JSON; keep large data in a file", root
    )


def _step(at: str | int) -> str:
    if isinstance(at, int):
        return f"[{at}]"
    return f".{_clipped(at)}" if at.isidentifier() else f"[{_quoted(at)}]"


def _quoted(text: str) -> str:
    text = _clipped(text)
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _clipped(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _name(value: object) -> str:
    return type(value).__name__
