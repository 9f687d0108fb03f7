"""What a chat store does to the log of a key: each function makes the work of one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import clew
from clew.adapters.common.jsontext import encode, mended
from clew.adapters.common.sessions import find_own, open_own, session_id
from clew.adapters.common.tail import newest, rewind_before

Said: TypeAlias = dict[str, Any]
"""A message as it is stored."""

FRAMEWORK: Final = "llama-index"
PAGE: Final = 200


def made(store: clew.Store, key: str) -> clew.Session:
    """The session of a key, created if there is none."""
    return open_own(store, session_id(key), {"framework": FRAMEWORK, "key": key})


def found(store: clew.Store, key: str) -> clew.Session | None:
    """The session of a key, if there is one."""
    return find_own(store, session_id(key), FRAMEWORK)


def keys(store: clew.Store) -> list[str]:
    """In the order in which they came up."""
    found: list[clew.SessionInfo] = []
    cursor: str | None = None
    while True:
        page = store.list(where={"framework": FRAMEWORK}, limit=PAGE, cursor=cursor)
        found += page.sessions
        cursor = page.cursor
        if cursor is None:
            found.sort(key=lambda info: (info.created_at, info.id))
            return [_key_of(info) for info in found]


def _key_of(info: clew.SessionInfo) -> str:
    key = info.metadata.get("key")
    # A fork has the metadata of its base; it is found by its own id.
    return key if isinstance(key, str) and session_id(key) == info.id else info.id


def adding(key: str, said: Said, index: int | None) -> Callable[[clew.Store], None]:
    """`index` as that of `list.insert`."""

    def work(store: clew.Store) -> None:
        session = made(store, key)
        if index is None:
            session.append(said)
            return
        path = _messages(session)
        after = path[index:]
        if after:
            rewind_before(session, after[0])
        session.append(said, *(entry.raw for entry in after))

    return work


def setting(key: str, said: Sequence[Said]) -> Callable[[clew.Store], None]:
    """Only what differs from what is there is written."""

    def work(store: clew.Store) -> None:
        session = made(store, key)
        path = _messages(session)
        same = 0
        while same < min(len(path), len(said)) and is_same(path[same], said[same]):
            same += 1
        if same < len(path):
            rewind_before(session, path[same])
        session.append(*said[same:])

    return work


def deleting(key: str, index: int) -> Callable[[clew.Store], Said | None]:
    """`index` as that of `list.pop`, but there may be no such message at the end."""

    def work(store: clew.Store) -> Said | None:
        session = found(store, key)
        path = [] if session is None else _messages(session)
        if session is None or index >= len(path):
            return None
        after = path[index:][1:]
        taken = path[index]
        rewind_before(session, taken)
        session.append(*(entry.raw for entry in after))
        return taken.message

    return work


def deleting_last(key: str) -> Callable[[clew.Store], Said | None]:
    def work(store: clew.Store) -> Said | None:
        session = found(store, key)
        latest = [] if session is None else newest(session, 1)
        if session is None or not latest:
            return None
        rewind_before(session, latest[0])
        return latest[0].message

    return work


def deleting_all(key: str) -> Callable[[clew.Store], list[Said] | None]:
    def work(store: clew.Store) -> list[Said] | None:
        session = found(store, key)
        if session is None:
            return None
        said = session.messages()
        store.delete(session.id)
        return said

    return work


def is_same(entry: clew.Entry, said: Said) -> bool:
    """Whether an entry is what this message became when it was stored."""
    if entry.replaced:
        said = json.loads(mended(encode(said)))
    return entry.message == said


def _messages(session: clew.Session) -> list[clew.Entry]:
    return [entry for entry in session.entries() if entry.kind == "message"]
