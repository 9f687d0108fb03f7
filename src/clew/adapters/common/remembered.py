"""A history that was read before: frameworks ask for all of it in every turn, and it only grows.

What is kept is text, so whoever reads gets messages of its own. It is asked for again as a whole when the
session has gone another way (rewound, cleared, replaced), or when a rule of the store removed something.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

import clew

MOST_BYTES: Final = 32 * 2**20
"""Longer histories are read anew each time: memory is worth more than that."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class _Kept(NamedTuple):
    head: clew.Head
    removals: list[clew.Removal]
    """The newest line of the log of removals, at that time."""
    texts: tuple[bytes, ...]
    """Lists of messages; one for each time that something was new."""
    size: int


class Remembered:
    """The history of one session, as it was read last. Any thread may use it."""

    def __init__(self) -> None:
        self._kept: _Kept | None = None

    def messages(self, store: clew.Store, session: clew.Session | None) -> list[dict[str, Any]]:
        """All messages on the path. To be called inside `store.read(…)`, so that all is of one moment."""
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
        removals: list[clew.Removal],
        before: _Kept | None,
        new: list[dict[str, Any]],
    ) -> None:
        texts, size = ((), 0) if before is None else (before.texts, before.size)
        if new:
            text = _encode(new)
            texts, size = (*texts, text), size + len(text)
        self._kept = _Kept(head, removals, texts, size) if head.position >= 0 and size <= MOST_BYTES else None


def _since(session: clew.Session, head: clew.Head) -> list[dict[str, Any]] | None:
    """What was said behind a place; None: it is not on the path any more."""
    try:
        return session.messages(after=head)
    except clew.EntryNotFoundError:
        return None
