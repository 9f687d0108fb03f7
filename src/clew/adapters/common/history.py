"""The history of a session: its latest messages, the way back, and a copy in memory."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

import clew

BEGINNING: Final = clew.Head("", -1)
"""The head of a session that has no entries."""


def entry_at(head: clew.Head) -> str:
    """The id of the entry at which a session stands; empty: before the first entry."""
    return f"{head.branch}.{head.position}" if head.branch else ""


def messages_in(session: clew.Session) -> list[clew.Entry]:
    """The entries on the path that are messages."""
    return [entry for entry in session.entries() if entry.kind == "message"]


def count_of(value: object) -> int:
    """A number of tokens as a framework tells it; 0 for anything that is not one."""
    return value if type(value) is int and value > 0 else 0


def newest(session: clew.Session, count: int) -> list[clew.Entry]:
    """The latest entries that are messages, newest first."""
    latest = list(session.entries(last=count, newest_first=True))
    messages = [entry for entry in latest if entry.kind == "message"]
    if len(messages) == len(latest):
        return messages
    # There are marks among them, such as summaries: read further.
    path = (entry for entry in session.entries(newest_first=True) if entry.kind == "message")
    return list(islice(path, count))


def rewind_before(session: clew.Session, entry: clew.Entry) -> None:
    """Go back to before an entry of the path. The entry and all behind it stay on a branch."""
    session.rewind(entry.position - 1 if entry.position else BEGINNING)


# -- a copy in memory

MOST_BYTES: Final = 32 * 2**20
"""The most bytes of a history in memory; a longer one is read from the store each time."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class _Kept(NamedTuple):
    head: clew.Head
    removals: list[clew.model.Removal]
    """The newest line of the log of removals when the history was read."""
    texts: tuple[bytes, ...]
    """JSON lists of messages, one for each read that brought new ones."""
    size: int


class Remembered:
    """The history of one session, as it was read last. Safe to use from any thread.

    Frameworks ask for the whole history in every turn. The copy is text, so each caller gets new messages.
    The history is read again as a whole after a rewind, a clear or a replace, and after a retention rule
    removed something.
    """

    def __init__(self) -> None:
        self._kept: _Kept | None = None

    def messages(self, store: clew.Store, session: clew.Session | None) -> list[dict[str, Any]]:
        """All messages on the path. Call it inside `store.read(…)`, so that all is of one moment."""
        if session is None:
            self._kept = None
            return []
        head, removals = session.head, store.removals(limit=1)
        kept = self._kept
        if kept is not None and kept.removals == removals:
            new = [] if kept.head == head else _since(session, kept.head)
            if new is not None:
                self._keep(head, removals, kept, new)
                return [message for text in kept.texts for message in _decode(text)] + new
        messages = session.messages()
        self._keep(head, removals, None, messages)
        return messages

    def _keep(
        self,
        head: clew.Head,
        removals: list[clew.model.Removal],
        before: _Kept | None,
        new: list[dict[str, Any]],
    ) -> None:
        texts, size = ((), 0) if before is None else (before.texts, before.size)
        if new:
            text = _encode(new)
            texts, size = (*texts, text), size + len(text)
        self._kept = _Kept(head, removals, texts, size) if head.position >= 0 and size <= MOST_BYTES else None


def _since(session: clew.Session, head: clew.Head) -> list[dict[str, Any]] | None:
    """The messages behind a place; None: the place is no longer on the path."""
    try:
        return session.messages(after=head)
    except clew.errors.EntryNotFoundError:
        return None
