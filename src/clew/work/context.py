"""Reading what a model should get: backwards from the head, no further than the budget reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from clew.backends.contract import Reader
from clew.core.codec import decode_json
from clew.core.dialects import role_of
from clew.core.rows import NOWHERE, SessionRow
from clew.core.tree import Segment, locate
from clew.core.view import ContextBuilder
from clew.model import Context, Json
from clew.work.history import read_messages
from clew.work.marks import cut_of
from clew.work.places import path_of, tip_before

FIRST_READ: Final = 64
LARGEST_READ: Final = 1024
SYSTEM_MESSAGES: Final = 8
"""As many leading system messages stay at the front of a context that is cut to its budget."""


def build(
    reader: Reader,
    row: SessionRow,
    max_messages: int | None,
    max_tokens: int | None,
    count_tokens: Callable[[dict[str, Json]], int] | None,
) -> Context:
    segments = path_of(reader, row.head)
    cut = cut_of(reader, row, segments)
    pinned, start = cut.messages, cut.start
    if not pinned:
        pinned, start = _leading_system(reader, segments, cut.start, row.head.position)
    builder = ContextBuilder(
        pinned=pinned,
        max_messages=max_messages,
        max_tokens=max_tokens,
        count_tokens=count_tokens,
        pinned_on_path=not cut.messages,
    )
    positions: list[int] = []
    for position, message in _backwards(reader, segments, start, row.head.position):
        if not builder.offer(message):
            break
        positions.append(position)
    if builder.needs_lead:
        _give_lead(reader, segments, builder, start, positions)
    compacted = tip_before(reader, segments, cut.start).messages
    return builder.finish(total=row.head.messages, compacted=compacted)


def _leading_system(
    reader: Reader, segments: Sequence[Segment], first: int, last: int
) -> tuple[list[dict[str, Json]], int]:
    """The system messages that a view begins with, and the position after them."""
    pinned = []
    for position, message in read_messages(reader, segments, first, last, limit=SYSTEM_MESSAGES):
        if role_of(message) != "system":
            break
        pinned.append(message)
        first = position + 1
    return pinned, first


def _backwards(
    reader: Reader, segments: Sequence[Segment], first: int, last: int
) -> Iterator[tuple[int, dict[str, Json]]]:
    """The messages between two positions, newest first, read as they are asked for."""
    size = FIRST_READ
    while first <= last:
        found = read_messages(reader, segments, first, last, reverse=True, limit=size)
        yield from found
        if len(found) < size:
            return
        last = found[-1][0] - 1
        size = min(size * 2, LARGEST_READ)


def _give_lead(
    reader: Reader, segments: Sequence[Segment], builder: ContextBuilder, first: int, positions: Sequence[int]
) -> None:
    """The user turn that the window, which begins in its middle, answers."""
    if not builder.window_size:
        return
    asked = tip_before(reader, segments, positions[builder.window_size - 1]).asked
    if asked == NOWHERE or asked < first:
        return
    entry = reader.get_entry(locate(segments, asked), asked)
    if entry is not None:
        builder.lead(decode_json(entry.body))
