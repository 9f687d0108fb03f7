"""Definite secrets out of what comes into a store.

A text is first looked at as it is, encoded (`hints.py`). Only what may hold a secret is decoded, and read by
the rules, which are loaded then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from clew.core.redact.hints import may_hold
from clew.model import Json

if TYPE_CHECKING:
    from clew.core.redact.definite import Definite

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Incoming:
    """Replaces definite secrets in what is about to be stored, and keeps count.

    Args:
        key: Gives the key of the store. It is asked when the first secret is found.
    """

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._key = key
        self._counts: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """Secrets that were replaced until now."""
        return self._counts.total()

    def uncounted(self) -> Incoming:
        """The same for what is kept twice, so that it is counted once."""
        return Incoming(self._key)

    def body(self, raw: bytes) -> bytes:
        """JSON text without secrets; the very object that was given if there is none in it."""
        if not may_hold(raw):
            return raw
        value = _decode(raw)
        clean = self._value(value)
        return raw if clean == value else _encode(clean)

    def value(self, value: Json) -> Json:
        """The same for a JSON value; the given one is not changed."""
        raw = _encode(value)
        clean = self.body(raw)
        return value if clean is raw else _decode(clean)

    def text(self, text: str) -> str:
        """The same for a text that is no JSON: a title, a name."""
        return self._text(text) if may_hold(text.encode(errors="replace")) else text

    def finds(self, raw: bytes) -> bool:
        """Whether there may be a secret in a part of a line: yes, or surely not. Escapes may hide one."""
        return b"\\u" in raw or may_hold(raw)

    def line(self, raw: bytes) -> bytes:
        """A line of a file, or a part of one, as it stands there. All but the secrets stays byte for byte, if
        the line can be read; whatever else it is, no secret is left in it."""
        if not self.finds(raw):
            return raw
        clean = self._text(raw.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        try:
            value = _decode(clean)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return clean
        # A secret may be hidden by the way that JSON writes it, such as \\u0067hp_.
        rest = self._value(value)
        return clean if rest == value else _encode(rest)

    def packed(self, raw: bytes) -> bytes:
        """Values in MessagePack, such as what a reader remembers of a file: without secrets in their texts.
        Names of fields stay as they are."""
        try:
            value = msgspec.msgpack.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self.line(raw)
        if _holds_none(value):
            return raw
        clean = self._unpacked(value)
        return raw if clean == value else msgspec.msgpack.encode(clean)

    def _unpacked(self, value: object) -> object:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._unpacked(item) for item in value]
        if isinstance(value, dict):
            return {name: self._unpacked(item) for name, item in value.items()}
        return value

    def _text(self, text: str) -> str:
        rules = self._rules()
        clean = rules.text(text, "")
        self._counts.update(rules.report().by_kind)
        return clean

    def _value(self, value: Json) -> Json:
        rules = self._rules()
        clean = rules.value(value, "")
        self._counts.update(rules.report().by_kind)
        return clean

    def _rules(self) -> Definite:
        from clew.core.redact.definite import Definite  # a hundred expressions, which are seldom needed

        return Definite(self._key)


def _holds_none(value: object) -> bool:
    """The quick answer for most values: surely no text in it is a secret, as its JSON has none."""
    try:
        told = msgspec.json.encode(value)
    except (ValueError, TypeError, RecursionError):
        return False
    return b"\\u00" not in told and not may_hold(told)
