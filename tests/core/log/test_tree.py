"""Paths through branches, also those whose rows are damaged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from clew.core.log.rows import BranchRow
from clew.core.log.tree import Segment, clip, clipped, locate, path
from clew.errors import CorruptError
from tests.support.rows import each_row


def test_a_path_runs_through_its_branches() -> None:
    rows = {1: BranchRow(1, "a", 1, 1, 0, -1), 2: BranchRow(2, "b", 1, 1, 1, 3)}

    assert path(2, 5, rows.__getitem__) == [Segment(1, 0, 3), Segment(2, 4, 5)]


@each_row(
    "rows",
    [
        {1: BranchRow(1, "a", 1, 1, 1, 3)},
        {1: BranchRow(1, "a", 1, 1, 2, 3), 2: BranchRow(2, "b", 1, 1, 1, 3)},
        {1: BranchRow(1, "a", 1, 1, 2, 2), 2: BranchRow(2, "b", 1, 1, 1, 9)},
    ],
)
def test_branches_that_lead_round_are_damage_not_an_endless_search(rows: dict[int, BranchRow]) -> None:
    """P6: a flipped bit in the row of a branch."""
    with pytest.raises(CorruptError):
        path(1, 5, rows.__getitem__)


def test_s52_a_part_of_a_path_of_many_segments_is_found_without_looking_at_all() -> None:
    class Looked(list[Segment]):
        """Counts the segments that are looked at."""

        looked = 0

        def __getitem__(self, at: Any) -> Any:
            found = super().__getitem__(at)
            self.looked += len(found) if isinstance(at, slice) else 1
            return found

        def __iter__(self) -> Iterator[Segment]:
            self.looked += len(self)
            return super().__iter__()

        def __reversed__(self) -> Iterator[Segment]:
            self.looked += len(self)
            return super().__reversed__()

    segments = Looked(Segment(n + 1, 2 * n, 2 * n + 1) for n in range(1000))
    assert clip(segments, 701, 703) == [Segment(351, 701, 701), Segment(352, 702, 703)]
    assert [locate(segments, position) for position in (-1, 0, 701, 1999, 2000)] == [0, 1, 351, 1000, 0]
    assert next(clipped(segments, 3, 1998, reverse=True)) == Segment(1000, 1998, 1998)
    assert next(clipped(segments, 3, 1998)) == Segment(2, 3, 3)
    assert segments.looked < 140
