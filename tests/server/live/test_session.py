"""What comes after a path, given the path to the head now: against the two paths written out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clew.core.log.rows import BranchRow
from clew.core.log.tree import Segment, path
from clew.server.live.session import Step, common_position, cut, step


@st.composite
def trees(draw: st.DrawFn) -> dict[int, BranchRow]:
    """Branches that continue each other; each has ten entries of its own."""
    rows = {1: BranchRow(1, "u1", 1, 1, 0, -1)}
    for number in range(2, draw(st.integers(1, 8)) + 1):
        parent = draw(st.integers(0, number - 1))
        first = rows[parent].fork + 1 if parent else 0
        fork = draw(st.integers(first, first + 9)) if parent else -1
        rows[number] = BranchRow(number, f"u{number}", 1, 1, parent, fork)
    return rows


@st.composite
def places(draw: st.DrawFn, rows: dict[int, BranchRow]) -> list[Segment]:
    branch = draw(st.sampled_from(sorted(rows)))
    position = rows[branch].fork + draw(st.integers(0, 10))
    return path(branch, position, rows.__getitem__) if position >= 0 else []


def written_out(segments: list[Segment]) -> list[tuple[int, int]]:
    return [(part.branch, position) for part in segments for position in range(part.first, part.last + 1)]


@given(st.data())
def test_the_step_leads_from_one_path_to_the_other(data: st.DataObject) -> None:
    rows = data.draw(trees())
    has, now = data.draw(places(rows)), data.draw(places(rows))
    found = step(has, now)
    before, after = written_out(has), written_out(now)
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1

    assert found == Step(same - 1, len(before) > same, len(after) - 1)
    assert found.is_nothing == (before == after)
    kept = before[: found.common + 1]
    assert kept + after[found.common + 1 : found.last + 1] == after
    assert written_out(cut(now, found.common)) == after[: found.common + 1]
    assert common_position(has, now) == common_position(now, has)


def test_an_empty_path_has_nothing_in_common() -> None:
    some = [Segment(1, 0, 3)]

    assert step([], some) == Step(-1, False, 3)
    assert step(some, []) == Step(-1, True, -1)
    assert step([], []).is_nothing
