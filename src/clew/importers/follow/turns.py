"""Hooks said that an agent did something: its session is brought at once, and at the end of a turn the files
that it works on are kept, if that was asked for.

A snapshot is bound to the last entry of the session, as a checkpoint: `clew rewind ID PLACE --files` goes
back to it, though the agent knows nothing of Clew. Agents may write the last lines of a turn a moment after
they said that it is over. So the snapshot waits until the agent has spoken and its session is still, but not
for long.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from clew.core.messages.dialects import role_of
from clew.errors import ClewError
from clew.importers.wake import Wake, is_turn_end

if TYPE_CHECKING:
    from clew.model import Checkpoint
    from clew.model.transfer import ImportReport
    from clew.session import Session
    from clew.store import Store

STILL: Final = 0.15
"""Seconds without a new entry: the turn is written down."""
LONGEST: Final = 1.5
"""Seconds to wait for the agent's last words."""
_MOST_TURNS: Final = 1_000
"""Ends of turns that wait for their snapshot. More of them come from no agent."""


class _Turn(msgspec.Struct):
    """A turn that has ended, and of which the files are to be kept."""

    wake: Wake
    due: float
    latest: float
    session: str | None = None


class Turns:
    """One thread at a time."""

    def __init__(
        self,
        store: Store,
        bring: Callable[[list[str]], ImportReport | None],
        on_trouble: Callable[[str, str], None],
        clock: Callable[[], float],
    ) -> None:
        """`bring` brings files, and gives None if that has to wait."""
        self.snapshots = 0
        """Taken so far."""
        self._store = store
        self._bring = bring
        self._on_trouble = on_trouble
        self._clock = clock
        self._waiting: dict[tuple[str, str | None, str], _Turn] = {}

    @property
    def due(self) -> float | None:
        """When to call `take_due`."""
        return min((turn.due for turn in self._waiting.values()), default=None)

    def wake(self, wakes: Sequence[Wake]) -> None:
        """Bring what hooks told of, and note which turns have ended."""
        for wake in wakes:
            if is_turn_end(wake) and wake.files and wake.cwd and len(self._waiting) < _MOST_TURNS:
                now = self._clock()
                self._waiting[wake.agent, wake.session, wake.cwd] = _Turn(wake, now + STILL, now + LONGEST)
        paths = list(dict.fromkeys(wake.transcript for wake in wakes if wake.transcript))
        if paths:
            self._look_at(paths)

    def take_due(self, now: float) -> None:
        """Keep the files of turns that are written down to their end."""
        for key, turn in list(self._waiting.items()):
            if now < turn.due:
                continue
            brought = self._look_at([turn.wake.transcript]) if turn.wake.transcript else False
            try:
                session = self._session_of(turn)
                is_over = not brought and session is not None and _has_spoken(session)
            except ClewError as exc:
                self._on_trouble(f"the end of a turn was not seen: {exc}", "")
                session, is_over = None, False
            if now < turn.latest and not is_over:
                turn.due = self._clock() + STILL
                continue
            del self._waiting[key]
            if session is not None:
                self._keep(session, turn)

    def _look_at(self, paths: list[str]) -> bool:
        """Whether something came, or has to wait."""
        report = self._bring(paths)
        if report is None:
            return True
        by_file = {session.source: session.id for session in report.sessions if session.parent is None}
        for turn in self._waiting.values():
            turn.session = turn.session or by_file.get(turn.wake.transcript or "")
        return any(session.entries for session in report.sessions)

    def _session_of(self, turn: _Turn) -> Session | None:
        for id in (turn.wake.session, turn.session):
            try:
                found = None if id is None else self._store.find(id)
            except ClewError:  # nothing that could be an id
                continue
            if found is not None:
                return found
        return None

    def _keep(self, session: Session, turn: _Turn) -> None:
        folder = turn.wake.cwd or ""
        if not os.path.isdir(folder):
            return
        try:
            session.checkpoint(_name(session), files=folder)
        except (ClewError, OSError) as exc:
            self._on_trouble(f"the files were not kept: {exc}", folder)
        else:
            self.snapshots += 1


def _has_spoken(session: Session) -> bool:
    """Whether the last entry is the agent's: the one that ends a turn."""
    last = next(iter(session.entries(last=1, damaged="skip")), None)
    return last is not None and role_of(last.message) == "assistant"


def _name(session: Session) -> str:
    """A name for the place at which the session stands: its own one, or a new one."""
    head = session.info.head
    known: dict[str, Checkpoint] = {one.name: one for one in session.checkpoints()}
    name = first = f"turn-{head.position}"
    number = 2
    while name in known and known[name].head != head:  # on a branch that was left
        name, number = f"{first}-{number}", number + 1
    return name
