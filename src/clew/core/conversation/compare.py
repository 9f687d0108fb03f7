"""Where two paths part. The hash of an entry stands for all before it, so copies are recognised too."""

from __future__ import annotations

from typing import NamedTuple

from clew.backends.contract import Reader
from clew.core.conversation.checkpoints import newest_snapshot
from clew.core.conversation.points import head_of, path_of, tip_before
from clew.core.log.ids import entry_id
from clew.core.log.rows import SessionRow
from clew.core.log.tree import Segment, locate
from clew.model import CommonPart, ComparedPath, Comparison


class _Path(NamedTuple):
    row: SessionRow
    """The session as if it stood where the path ends."""
    segments: list[Segment]


def compare(reader: Reader, a: SessionRow, b: SessionRow) -> Comparison:
    """The paths to where two sessions stand. Takes about as many reads as the length of the path has bits."""
    one, other = (_Path(row, path_of(reader, row.head)) for row in (a, b))
    position = _last_shared(reader, one, other)
    return Comparison(
        a=_told(reader, one, position),
        b=_told(reader, other, position),
        common=CommonPart(position=position, id=_id(reader, one, position), entries=position + 1),
        same=a.head.digest == b.head.digest,
    )


def _last_shared(reader: Reader, a: _Path, b: _Path) -> int:
    """The last position at which both paths have the same entry; -1: there is none. Where they have, all
    before it is the same."""
    low, high = -1, min(a.row.head.position, b.row.head.position)
    while low < high:
        middle = (low + high + 1) // 2
        if _digest(reader, a, middle) == _digest(reader, b, middle):
            low = middle
        else:
            high = middle - 1
    return low


def _digest(reader: Reader, path: _Path, position: int) -> bytes:
    return tip_before(reader, path.segments, position + 1).digest


def _told(reader: Reader, path: _Path, position: int) -> ComparedPath:
    row = path.row
    return ComparedPath(
        session=row.id,
        title=row.title,
        head=head_of(reader, row.head),
        shared=_id(reader, path, position),
        entries_after=row.head.position - position,
        snapshot=newest_snapshot(reader, row),
    )


def _id(reader: Reader, path: _Path, position: int) -> str | None:
    if position < 0:
        return None
    return entry_id(reader.get_branch(locate(path.segments, position)).uid, position)
