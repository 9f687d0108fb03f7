"""Sessions of a framework in a store: both faces of the store, ids, and which framework owns a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from blake3 import blake3

import clew
from clew.core.log.ids import is_id

_ESCAPED: Final = str.maketrans({"%": "%25", "/": "%2F", "\0": "%00"})
_HASHED: Final = "~"
"""The first character of an id that stands for a text that cannot be an id itself."""
_PAGE: Final = 500

_OWN: Final[set[tuple[str, str, str]]] = set()
"""Sessions, with one of their branches, that are known to belong to a framework: to check each time would
cost a round trip for each message. No other session ever has the same branch."""
_MOST_OWN: Final = 10_000


def faces(store: clew.Store | clew.AsyncStore) -> tuple[clew.Store, clew.AsyncStore]:
    """The blocking face and the async face of a store."""
    if isinstance(store, clew.AsyncStore):
        return store.sync, store
    if isinstance(store, clew.Store):
        return store, clew.AsyncStore.over(store)
    raise clew.InvalidError(
        f"an adapter needs a store, as clew.open() gives, not {type(store).__name__}: {store!r:.80}"
    )


def session_id(*parts: str) -> str:
    """The id of a session that a framework names by one or several texts.

    One text is its own id. Several are escaped and joined by "/", so that no two lists of texts get the same
    id. A text that is too long, empty or otherwise not an id is replaced by its hash.
    """
    id = parts[0] if len(parts) == 1 else "/".join(part.translate(_ESCAPED) for part in parts)
    if is_id(id) and not id.startswith(_HASHED):
        return id
    return _HASHED + blake3(_distinct(parts)).hexdigest()


def _distinct(parts: Sequence[str]) -> bytes:
    texts = [part.encode("utf-8", "surrogatepass") for part in parts]
    return b"".join(b"%d:%s" % (len(text), text) for text in texts)


def find_own(store: clew.Store, id: str, framework: str) -> clew.Session | None:
    """The session of this id, for reading, changing or deleting it; None: this framework has none yet.

    SessionTakenError if the session belongs to another framework or program.
    """
    session = store.find(id)
    return session if session is not None and _is_own(session, framework) else None


def open_own(
    store: clew.Store, id: str, metadata: Mapping[str, Any], *, tags: Sequence[str] = (), **settings: Any
) -> clew.Session:
    """The session of this id, created with these settings if there is none.

    `metadata` names the framework. An empty session without a framework becomes one of this framework, and
    keeps its title, its tags and its own metadata.
    SessionTakenError if the session belongs to another framework or program.
    """
    # Nearly always it is there: then its settings need not be checked.
    session = store.find(id) or store.session(id, metadata=metadata, tags=tags, **settings)
    if not _is_own(session, metadata["framework"]):
        info = session.info
        session.update(metadata={**info.metadata, **metadata}, tags=[*info.tags, *tags])
    return session


def listed(
    store: clew.Store, where: Mapping[str, Any], *, deleted: bool = False
) -> Iterator[clew.SessionInfo]:
    """All sessions with this metadata, newest activity first; `deleted`: those in the trash."""
    cursor: str | None = None
    while True:
        page = store.list(where=where, limit=_PAGE, cursor=cursor, deleted=deleted)
        yield from page
        cursor = page.cursor
        if cursor is None:
            return


def _is_own(session: clew.Session, framework: str) -> bool:
    """False: it is empty and belongs to no framework. SessionTakenError if it belongs to another one."""
    known = framework, session.id, session.head.branch
    if known in _OWN:
        return True
    owner = session.info.metadata.get("framework")
    if owner is None and not session.tree().branches and not session.documents(limit=1):
        return False
    if owner != framework:
        raise clew.errors.SessionTakenError(session.id, framework, None if owner is None else str(owner))
    if session.head.branch:
        if len(_OWN) >= _MOST_OWN:
            _OWN.clear()
        _OWN.add(known)
    return True
