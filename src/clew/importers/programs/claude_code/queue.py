"""Prompts typed while Claude Code works: each is one turn, also where the file holds it twice.

    {"type":"queue-operation","operation":"enqueue","content":"…"}   typed
    {"type":"attachment","attachment":{"type":"queued_command",…}}   the model got it in the middle of a turn
    {"type":"queue-operation","operation":"dequeue"}
    {"type":"user",…}                                                or as the prompt of the next turn

Most prompts take one of the two ways. Where one took both, the second record is not another turn.
"""

from __future__ import annotations

from typing import Final

import msgspec

from clew.core.messages.dialects import text_of
from clew.importers.reading.values import digest
from clew.model import Json

_MOST: Final = 64
"""Prompts that are remembered, the newest ones: two records of one prompt stand close together."""


class Prompt(msgspec.Struct, frozen=True, array_like=True):
    uid: str
    parent: str | None
    words: str
    """A digest of them."""
    is_queued: bool


class QueueState(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of the queue, to go on with the file later."""

    waiting: dict[str, int] = {}
    ids: list[str] = []
    last: Prompt | None = None
    is_dequeued: bool = False


class Queue:
    def __init__(self, state: QueueState) -> None:
        self._waiting = dict(state.waiting)
        """How many of a prompt are in the queue, by a digest of its words. 0: the model got the only one in
        the middle of a turn."""
        self._ids = dict.fromkeys(state.ids, 0)
        """Under which prompts were submitted that the model got so."""
        self._last = state.last
        """The last entry, if it is a prompt."""
        self._is_dequeued = state.is_dequeued
        """The next prompt comes out of the queue."""

    def state(self) -> QueueState:
        return QueueState(self._waiting, list(self._ids), self._last, self._is_dequeued)

    def take(self, record: dict[str, Json]) -> None:
        """A record of the queue itself."""
        if record.get("operation") == "dequeue":
            self._is_dequeued = True
        elif record.get("operation") == "enqueue" and isinstance(content := record.get("content"), str):
            words = digest(content.strip())
            _put(self._waiting, words, self._waiting.get(words, 0) + 1)

    def passed(self) -> None:
        """An entry came that is no prompt."""
        self._last = None

    def queued(self, uid: str, parent: str | None, message: dict[str, Json], submitted: Json) -> str | None:
        """An attachment with a prompt. The entry that it repeats; None: it is a turn of its own. `submitted`:
        the id under which it was."""
        words, last = _words(message), self._last
        if last is not None and not last.is_queued and (last.words, last.uid) == (words, parent):
            return last.uid
        _put(self._waiting, words, max(self._waiting.get(words, 1) - 1, 0))
        if isinstance(submitted, str):
            _put(self._ids, submitted, 0)
        self._last = Prompt(uid, parent, words, is_queued=True)
        return None

    def asked(self, uid: str, parent: str | None, message: dict[str, Json]) -> str | None:
        """A prompt of the user. The entry that it repeats or stands behind; None: it is a turn of its own."""
        words, last = _words(message), self._last
        is_dequeued, self._is_dequeued = self._is_dequeued, False
        if last is not None and last.is_queued and last.words == words and parent in (last.uid, last.parent):
            return last.uid
        left = self._waiting.get(words)
        if left is not None and is_dequeued:
            if left < 2:
                del self._waiting[words]
            else:
                self._waiting[words] = left - 1
        if parent is not None and (uid in self._ids or (left == 0 and is_dequeued)):
            return parent
        self._last = Prompt(uid, parent, words, is_queued=False)
        return None


def _words(message: dict[str, Json]) -> str:
    return digest(text_of(message).strip() or message.get("content"))


def _put(known: dict[str, int], name: str, value: int) -> None:
    known.pop(name, None)
    known[name] = value
    while len(known) > _MOST:
        del known[next(iter(known))]
