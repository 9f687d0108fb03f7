"""What all adapters need: both faces of a store, ids out of a framework's keys, a word when it is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from blake3 import blake3

import clew
from clew.core.ids import is_id

_ESCAPED: Final = str.maketrans({"%": "%25", "/": "%2F", "\0": "%00"})
_HASHED: Final = "~"
"""The first character of an id that stands for a text which can be no id."""


def faces(store: clew.Store | clew.AsyncStore) -> tuple[clew.Store, clew.AsyncStore]:
    """The store for code that blocks, and for tasks; they share all but the way of calling."""
    if isinstance(store, clew.AsyncStore):
        return store.sync, store
    if isinstance(store, clew.Store):
        return store, clew.AsyncStore.over(store)
    raise clew.InvalidError(
        f"an adapter needs a store, as clew.open() gives, not {type(store).__name__}: {store!r:.80}"
    )


def session_id(*parts: str) -> str:
    """The id of a session for what a framework knows by one or several texts.

    One text is its own id. Several are joined by "/", after those in them were escaped, so that no two lists
    of texts meet. What is too long, empty or otherwise no id is named by its hash.
    """
    id = parts[0] if len(parts) == 1 else "/".join(part.translate(_ESCAPED) for part in parts)
    if is_id(id) and not id.startswith(_HASHED):
        return id
    return _HASHED + blake3(_distinct(parts)).hexdigest()


def _distinct(parts: Sequence[str]) -> bytes:
    texts = [part.encode("utf-8", "surrogatepass") for part in parts]
    return b"".join(b"%d:%s" % (len(text), text) for text in texts)


def missing(extra: str, error: ImportError) -> ImportError:
    """What to raise when the framework of an adapter can not be imported."""
    return ImportError(
        f"this adapter needs {error.name or extra}: pip install 'clew[{extra}]'", name=error.name
    )
