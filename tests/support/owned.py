"""Sessions that an agent owns, and goes on with while a store follows it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from clew.model.source import SourceEntry, SourceEvent, SourceSession

BEGAN: Final = datetime(2024, 3, 1, 12, tzinfo=UTC)
OWNED: Final = "codex:1"


def minute(number: float) -> datetime:
    return BEGAN + timedelta(minutes=number)


def written(
    numbers: Sequence[int],
    *,
    parents: dict[int, int] | None = None,
    turn: Literal["", "open", "ended"] | None = None,
    events: Sequence[SourceEvent] = (),
    id: str = OWNED,
    parent: str | None = None,
    began: datetime = BEGAN,
) -> SourceSession:
    """What the file of an agent has by now: prompts have even numbers, answers odd ones."""
    before = dict(zip(numbers[1:], numbers, strict=False)) | (parents or {})
    entries = [
        SourceEntry(
            uid=f"e{number}",
            parent=f"e{before[number]}" if number in before else None,
            message={"role": "assistant" if number % 2 else "user", "content": f"text {number}"},
            at=began + timedelta(minutes=number),
        )
        for number in numbers
    ]
    return SourceSession(
        id=id,
        entries=entries,
        turn=lambda: turn,
        events=lambda: events,
        parent=parent,
        metadata={"agent": "codex"},
    )
