"""Keyed hashes of what a caller sends: Idempotency-Keys, and the ids that follow from them.

A key names a request of one caller. What is stored of it is a hash with a secret of the store. So whoever
reads the store over HTTP does not find the key, and whoever guesses one cannot find what it names, or make it
first.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from blake3 import blake3

from clew.core.engine.redaction import secret_of
from clew.core.log.keys import HASHED
from clew.errors import InvalidError

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike

_PURPOSE: Final = "clew 2026-11-19 idempotency keys of callers over HTTP"
_BYTES: Final = 24


class KeyHashes:
    """Hashes with the secret of one store. The first one may read and write the store."""

    def __init__(self, engine: EngineLike) -> None:
        self._engine = engine

    @cached_property
    def _secret(self) -> bytes:
        return secret_of(self._engine, _PURPOSE)

    def of(self, *texts: str) -> str:
        """The same for the same texts in the same order, and for no others."""
        parts = (text.encode() for text in texts)
        whole = b"".join(b"%d:%s" % (len(part), part) for part in parts)
        return HASHED + blake3(whole, key=self._secret).hexdigest(length=_BYTES)


def check_own_id(id: str | None, what: str) -> None:
    """InvalidError: it is of the form of those that are made of keys."""
    if id is not None and id.startswith(HASHED):
        raise InvalidError(
            f"{what} {id[:40]!r} begins with {HASHED!r}, as only ids made from an Idempotency-Key do:"
            " choose another one"
        )
