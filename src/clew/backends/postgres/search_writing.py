"""Putting the words of entries in, and taking them out with their entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clew.backends.postgres.conversation import Conversation
from clew.backends.postgres.ids import home_of
from clew.backends.postgres.rows import lock_key
from clew.backends.postgres.sql import LOCK, LOCK_SHARED
from clew.backends.postgres.statements_search import (
    ADD_TEXT,
    DROP_SEARCHED,
    DROP_TEXTS,
    DROP_UPTO,
    ERASE_TEXTS,
    FORGET_TREE,
    LOWER_UPTO,
    SET_SEARCHED,
    SET_UPTO,
    slices_of,
)
from clew.core.messages.texts import TextRow
from clew.core.rows import SessionRow


class TextWriter(Conversation):
    """Nobody removes entries while somebody puts in their words: else the words would stay behind. Appends
    take no part in this."""

    _texts_locked = False

    def _lock_texts(self, *, to_remove: bool) -> None:
        if not self._texts_locked:
            self._texts_locked = True
            key = lock_key("texts", self._backend.schema.name)
            self.ask(LOCK if to_remove else LOCK_SHARED, key)

    def searched_upto(self, branch: int) -> int:
        self._lock_texts(to_remove=False)
        return super().searched_upto(branch)

    def add_texts(self, rows: Sequence[TextRow], upto: Mapping[int, int]) -> None:
        self._lock_texts(to_remove=False)
        self.writes += 1
        for row in rows:
            time, branch, position = row.place
            slices = slices_of(row)
            for number, words in enumerate(slices):
                self._waiting.add(
                    ADD_TEXT, home_of(branch), branch, position, number, len(slices), time, row.role, words
                )
        for branch, position in upto.items():
            self._waiting.add(SET_UPTO, home_of(branch), branch, position)

    def set_searched(self, rows: Sequence[SessionRow]) -> None:
        self.writes += 1
        for row in rows:
            head = row.head
            self._waiting.add(
                SET_SEARCHED, home_of(row.sid), row.sid, row.updated, head.branch, head.position, row.moves
            )

    def _drop_texts(self, branch: int, after: int) -> None:
        self._lock_texts(to_remove=True)
        home = home_of(branch)
        self._waiting.add(DROP_TEXTS, home, branch, after)
        self._waiting.add(LOWER_UPTO, home, branch, after)
        self._waiting.add(FORGET_TREE, home, branch)

    def _erase_texts(self, branch: int, positions: Sequence[int]) -> None:
        self._lock_texts(to_remove=True)
        self._waiting.add(ERASE_TEXTS, home_of(branch), branch, list(positions))

    def _forget_searched(self, *, branch: int = 0, sid: int = 0) -> None:
        if branch:
            self._waiting.add(DROP_UPTO, home_of(branch), branch)
        if sid:
            self._waiting.add(DROP_SEARCHED, home_of(sid), sid)
