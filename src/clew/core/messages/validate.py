"""The exact walk: a copy of a value that every backend can keep, or the path of a part that cannot be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from math import isfinite
from types import NoneType
from typing import Any, Final

import msgspec

from clew.errors import InvalidEntryError
from clew.model import Json

MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
MAX_DEPTH: Final = 200
"""Levels of lists and objects; the message itself is the first."""
MAX_INT_DIGITS: Final = 4300
"""One less for negative integers: msgspec counts the sign, and a value that it cannot read is not stored."""

# The first integers beyond the limit. Compared, not converted: the digits of an integer cost time.
TOO_HIGH: Final = 10**MAX_INT_DIGITS
TOO_LOW: Final = -(10 ** (MAX_INT_DIGITS - 1))

SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Flaw:
    """Stands in leniently read text for what is no JSON value, until the walk gives it a path."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


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


class Copier:
    """Copies a value into plain dicts and lists, or raises with the path of the part that cannot be kept.

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
            raise too_large(self.root)

    def _enter(self, value: Any) -> _Made | None:
        """The copy of a scalar, or of what was copied before; None: a frame was opened for it."""
        kind = type(value)
        if kind is str:
            text = self._mend(value)
            return _Made(text, 0, len(text) + 2)
        if kind is int and not TOO_LOW < value < TOO_HIGH:
            raise self._refusal(HUGE_INTEGER)
        if kind is float and not isfinite(value):
            raise self._refusal(f"{FLOATS[str(value)]} is not JSON; use null (None) or a string")
        if kind in (bool, int, float, NoneType):
            return _Made(value, 0, 1)
        if isinstance(value, Mapping | list):
            return self._open(value)
        raise self._refusal(value.reason if kind is Flaw else _not_json(value))

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
                raise self._refusal(f"replacing surrogates makes two keys equal: {quoted(text)}")
            yield text, item

    def _mend(self, text: str) -> str:
        found = None if text.isascii() else SURROGATE.search(text)
        if found is None:
            return text
        if self.strict:
            raise self._refusal(f"surrogate U+{ord(found[0]):04X} at character {found.start()} is no text")
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        whole = SURROGATE.sub("\ufffd", joined)
        self.mended = True
        self.replaced = self.replaced or whole != joined
        return whole

    def _path(self, frames: list[_Frame]) -> str:
        return self.root + "".join(_step(frame.at) for frame in frames)

    def _refusal(self, reason: str) -> InvalidEntryError:
        return InvalidEntryError(reason, self._path(self._frames))


# The words of refusal

NO_OBJECT: Final = "not a JSON object; for plain text append {'role': 'user', 'content': ...}"
HUGE_INTEGER: Final = f"an integer of more than {MAX_INT_DIGITS} digits (a minus sign counts as one)"
FLOATS: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

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


def not_message(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"a message is one JSON object, not a {_name(value)}; append several with append(*messages)"
    if value is None or isinstance(value, bool | int | float):
        return f"a message is a JSON object (dict), not {_name(value)}"
    return _not_json(value)


def too_large(root: str) -> InvalidEntryError:
    return InvalidEntryError(
        f"larger than {MAX_MESSAGE_BYTES} bytes as JSON; keep large data in a file", root
    )


def _step(at: str | int) -> str:
    if isinstance(at, int):
        return f"[{at}]"
    return f".{clipped(at)}" if at.isidentifier() else f"[{quoted(at)}]"


def quoted(text: str) -> str:
    text = clipped(text)
    return json.dumps(text, ensure_ascii=not text.isprintable())


def clipped(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _name(value: object) -> str:
    return type(value).__name__
