"""Rules with the markers of a store, which tell two secrets apart."""

from __future__ import annotations

import re
from collections.abc import Callable

from clew.core.redact.markers import marker_of
from clew.core.redact.redactor import Redactor
from clew.core.redact.rules import DEFINITE
from clew.core.redact.values import is_surely_secret


class Definite(Redactor):
    """Replaces definite secrets alone. `key`: gives the key of the store."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        super().__init__()
        self._use(DEFINITE)
        self._names_count = False
        self._key = key

    def _marker(self, kind: str, match: re.Match[str] | None, secret: str) -> str | None:
        if match is None or not is_surely_secret(kind, match, secret):
            return None
        return marker_of(kind, secret, self._key())


class Marking(Redactor):
    """Replaces all that exports replace, each secret by a marker of its own."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._key = key

    def _marker(self, kind: str, match: re.Match[str] | None, secret: str) -> str | None:
        return marker_of(kind, secret, self._key)
