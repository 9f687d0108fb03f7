"""What became of commits, for clients whose answer was lost on the way."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Literal, TypeAlias

Known: TypeAlias = Literal["done", "undone", "unknown"]

KEPT_FOR: Final = 600.0
MOST: Final = 100_000


class Outcomes:
    """Remembers commits by the names that clients give them, for some minutes."""

    def __init__(self, now: Callable[[], float], *, is_alone: bool = True) -> None:
        """`is_alone`: whatever is committed for a client is committed here, and not by another process."""
        self._now = now
        self._is_alone = is_alone
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[float, Future[Known]]] = OrderedDict()
        self._forgot = float("-inf")
        """When one had to be forgotten before its time."""

    def begin(self, commit: str) -> Future[Known] | None:
        """Set its result when it is settled. None: it was named before, so it must not be done (again)."""
        with self._lock:
            if commit in self._known:
                return None
            return self._note(commit)

    def ask(self, commit: str) -> Future[Known]:
        """What became of it, once that is settled. One that has not arrived will not be done any more."""
        with self._lock:
            if commit in self._known:
                return self._known[commit][1]
            answer = self._note(commit)
            is_sure = self._is_alone and self._now() - self._forgot > KEPT_FOR
            answer.set_result("undone" if is_sure else "unknown")
            return answer

    def _note(self, commit: str) -> Future[Known]:
        now = self._now()
        answer: Future[Known] = Future()
        self._known[commit] = now, answer
        while self._known:
            oldest = next(iter(self._known.values()))[0]
            if now - oldest <= KEPT_FOR and len(self._known) <= MOST:
                break
            if now - oldest <= KEPT_FOR:
                self._forgot = now
            self._known.popitem(last=False)
        return answer
