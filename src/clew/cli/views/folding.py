"""Forks and copies in a list: which session each is folded into."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

import clew
from clew.core.conversation.kin import base_of, may_be_base


class Family(NamedTuple):
    """A session of a list, and the last activity of what is folded into it."""

    info: clew.SessionInfo
    newest: datetime | None = None


class Folds:
    """Fold sessions, newest activity first, into the ones that they began with."""

    def __init__(
        self, store: clew.Store, fits: Callable[[clew.SessionInfo], bool], *, same_place: bool, is_on: bool
    ) -> None:
        """`fits`: whether the list can show a base. `same_place`: only if it works in the same directory.
        `is_on`: False: every session stands for itself."""
        self._store = store
        self._is_on = is_on
        self._fits = fits
        self._same_place = same_place
        self._bases: dict[str, clew.SessionInfo | None] = {}
        self._found: dict[str, Family] = {}

    @property
    def families(self) -> list[Family]:
        """In the order of their newest member."""
        return list(self._found.values())

    def add(self, infos: Iterable[clew.SessionInfo]) -> None:
        for info in infos:
            root = self.root_of(info)
            if root.id not in self._found:
                self._found[root.id] = Family(root, None if root.id == info.id else info.updated_at)

    def root_of(self, info: clew.SessionInfo) -> clew.SessionInfo:
        """The first of the bases of a session that the list can show; itself if there is none, or if they
        form a ring."""
        seen, at = {info.id}, info
        while self._is_on and (id := base_of(at)) is not None:
            if id in seen:
                return info
            seen.add(id)
            base = self._find(id)
            if base is None or not may_be_base(base, at) or not self._is_listed(base, info):
                break
            at = base
        return at

    def _find(self, id: str) -> clew.SessionInfo | None:
        if id not in self._bases:
            try:
                found = self._store.find(id)
                self._bases[id] = None if found is None or found.id != id else found.info
            except clew.ClewError:  # it is damaged, or no session can have this id
                self._bases[id] = None
        return self._bases[id]

    def _is_listed(self, base: clew.SessionInfo, info: clew.SessionInfo) -> bool:
        is_there = not self._same_place or base.workspace == info.workspace
        return is_there and base.parent is None and not base.damaged and self._fits(base)
