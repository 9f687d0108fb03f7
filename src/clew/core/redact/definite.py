"""The definite rules, with the markers of a store."""

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
        self._rules = list(DEFINITE)
        self._names_count = False
        self._key = key

    def _marker(self, kind: str, match: re.Match[str], secret: str) -> str | None:
        return marker_of(kind, secret, self._key()) if is_surely_secret(kind, match, secret) else None
