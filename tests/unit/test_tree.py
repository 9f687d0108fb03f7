"""Paths through branches whose rows are damaged."""

from __future__ import annotations

import pytest

from clew.core.rows import BranchRow
from clew.core.tree import Segment, path
from clew.errors import CorruptError


def test_a_path_runs_through_its_branches() -> None:
    rows = {1: BranchRow(1, "a", 1, 1, 0, -1), 2: BranchRow(2, "b", 1, 1, 1, 3)}

    assert path(2, 5, rows.__getitem__) == [Segment(1, 0, 3), Segment(2, 4, 5)]


@pytest.mark.parametrize(
    "rows",
    [
        {1: BranchRow(1, "a", 1, 1, 1, 3)},
        {1: BranchRow(1, "a", 1, 1, 2, 3), 2: BranchRow(2, "b", 1, 1, 1, 3)},
        {1: BranchRow(1, "a", 1, 1, 2, 2), 2: BranchRow(2, "b", 1, 1, 1, 9)},
    ],
    ids=["its own parent", "two that continue each other", "a parent that begins behind"],
)
def test_branches_that_lead_round_are_damage_not_an_endless_search(rows: dict[int, BranchRow]) -> None:
    """P6: a flipped bit in the row of a branch."""
    with pytest.raises(CorruptError):
        path(1, 5, rows.__getitem__)
