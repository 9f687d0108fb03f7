"""Reading what a model should get: backwards from the head, no further than the budget reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from clew.backends.contract import STORE_WIDE, OnDamage, Reader
from clew.core.conversation.history import PAGE_BYTES, read_messages, removed_between, removed_name
from clew.core.conversation.marks import cut_of
from clew.core.conversation.points import path_of, tip_before
from clew.core.conversation.window import SYSTEM_MESSAGES, ContextBuilder, leading_system
from clew.core.log.rows import NOWHERE, SessionRow
from clew.core.log.tree import Segment
from clew.core.messages.dialects import is_user_turn
from clew.model import Context, Json

FIRST_READ: Final = 64
LARGEST_READ: Final = 1024


def build(
    reader: Reader,
    row: SessionRow,
    max_messages: int | None,
    max_tokens: int | None,
    count_tokens: Callable[[dict[str, Json]], int] | None,
    *,
    repairs: bool = True,
) -> Context:
    segments = path_of(reader, row.head)
    cut = cut_of(reader, row, segments)
    damage: dict[str, None] = {}
    view = _View(reader, segments, lambda error: damage.setdefault(f"left out: {error}"))
    removed = _Removed(reader, row, segments)
    pinned, start = list(cut.messages or ()), cut.start
    compacted = tip_before(reader, segments, cut.start).messages - removed.before(cut.start)
    if cut.messages is None:
        pinned, after = view.leading_system(row.head.position)
        compacted -= min(compacted, len(pinned))
        start = max(start, after)
    builder = ContextBuilder(
        pinned=pinned,
        max_messages=max_messages,
        max_tokens=max_tokens,
        count_tokens=count_tokens,
        pinned_on_path=cut.messages is None,
        repairs=repairs,
    )
    positions: list[int] = []
    reached = start
    for position, message in view.backwards(start, row.head.position):
        if not builder.offer(message):
            reached = positions[-1] if positions else row.head.position + 1
            break
        positions.append(position)
    missing = (
        row.head.messages - tip_before(reader, segments, reached).messages - len(positions) - len(damage)
    ) - removed.since(reached)
    if missing > 0:
        damage[f"left out: {missing} messages that are missing from position {reached} on"] = None
    if builder.needs_lead and builder.window_size:
        lead = view.asked_before(positions[builder.window_size - 1], start)
        if lead is not None:
            builder.lead(lead)
    context = builder.finish(total=row.head.messages - removed.since(0), compacted=compacted)
    if damage:
        context.report = msgspec.structs.replace(context.report, repairs=(*damage, *context.report.repairs))
    return context


class _Removed:
    """Counts the messages of a path that a retention rule removed: they are not reported as lost."""

    def __init__(self, reader: Reader, row: SessionRow, segments: Sequence[Segment]) -> None:
        self._reader = reader
        self._segments = segments
        # One look tells that there are none, which is nearly always so; counting would take a long one.
        self._any = reader.get_record(STORE_WIDE, "retention", removed_name(row.tree)) is not None
        self._last = row.head.position

    def before(self, position: int) -> int:
        return removed_between(self._reader, self._segments, 0, position - 1) if self._any else 0

    def since(self, position: int) -> int:
        return removed_between(self._reader, self._segments, position, self._last) if self._any else 0


class _View:
    """Reads what a context is made of. A damaged entry is left out and reported."""

    def __init__(self, reader: Reader, segments: Sequence[Segment], on_damage: OnDamage) -> None:
        self._reader = reader
        self._segments = segments
        self._on_damage = on_damage

    def leading_system(self, last: int) -> tuple[list[dict[str, Json]], int]:
        """The system messages that a history begins with, and the position after them."""
        found = leading_system(self._read(0, last, limit=SYSTEM_MESSAGES))
        return [message for _, message in found], found[-1][0] + 1 if found else 0

    def backwards(self, first: int, last: int) -> Iterator[tuple[int, dict[str, Json]]]:
        """The messages between two positions, newest first, read as they are asked for."""
        size = FIRST_READ
        while first <= last:
            found = self._read(first, last, reverse=True, limit=size, room=PAGE_BYTES)
            if not found:
                return
            last = found[-1][0] - 1
            yield from found
            size = min(size * 2, LARGEST_READ)

    def asked_before(self, position: int, first: int) -> dict[str, Json] | None:
        """The user turn that the message at a position belongs to, if it is in view."""
        asked = tip_before(self._reader, self._segments, position).last_user_turn
        if asked == NOWHERE or asked < first:
            return self._prompt(first, position - 1)
        return next((message for _, message in self._read(asked, asked)), None)

    def _prompt(self, first: int, last: int) -> dict[str, Json] | None:
        """For sessions without a person (those of subagents): the first message in the user's role."""
        found = self._read(first, last, limit=FIRST_READ) if first <= last else []
        return next((message for _, message in found if is_user_turn(message)), None)

    def _read(
        self,
        first: int,
        last: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
        room: int | None = None,
    ) -> list[tuple[int, dict[str, Json]]]:
        return read_messages(
            self._reader,
            self._segments,
            first,
            last,
            reverse=reverse,
            limit=limit,
            room=room,
            on_damage=self._on_damage,
        )
