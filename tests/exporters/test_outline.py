"""The branches of a session, cut into segments and put together to paths."""

from __future__ import annotations

from clew.exporters.transcript import BranchShape, outline


def _root(last: int) -> BranchShape:
    return BranchShape(uid="A", parent=None, fork=-1, last=last)


def test_one_branch_is_one_segment_and_one_path() -> None:
    found = outline([_root(4)], ("A", 4))
    assert [(s.first, s.last) for s in found.segments] == [(0, 4)]
    assert [path.segments for path in found.paths] == [(0,)]


def test_a_branch_cuts_the_one_that_it_leaves() -> None:
    b = BranchShape(uid="B", parent="A", fork=1, last=3)
    found = outline([_root(4), b], ("B", 3))
    assert [(s.branch, s.first, s.last) for s in found.segments] == [(0, 0, 1), (0, 2, 4), (1, 2, 3)]
    assert [(path.segments, path.is_current) for path in found.paths] == [((0, 2), True), ((0, 1), False)]


def test_a_head_in_the_middle_is_a_path_of_its_own() -> None:
    found = outline([_root(4)], ("A", 2))
    assert [(path.leaf, path.segments) for path in found.paths] == [((0, 2), (0,)), ((0, 4), (0, 1))]


def test_an_empty_head_leaves_the_other_paths() -> None:
    found = outline([_root(1)], ("", -1))
    assert [path.segments for path in found.paths] == [(), (0,)]


def test_a_branch_that_starts_at_the_tip_of_another_continues_it() -> None:
    b = BranchShape(uid="B", parent="A", fork=4, last=5)
    assert [path.segments for path in outline([_root(4), b], ("B", 5)).paths] == [(0, 1)]


def test_every_entry_is_in_exactly_one_segment() -> None:
    b = BranchShape(uid="B", parent="A", fork=1, last=3)
    c = BranchShape(uid="C", parent="B", fork=2, last=6)
    found = outline([_root(4), b, c], ("A", 0))
    places = [(s.branch, p) for s in found.segments for p in range(s.first, s.last + 1)]
    assert len(places) == len(set(places)) == 5 + 2 + 4
    assert [found.segment_of(*place) for place in places] == [
        number for number, s in enumerate(found.segments) for _ in range(s.first, s.last + 1)
    ]
    assert found.segment_of(0, 5) is None


def _comb(teeth: int) -> list[BranchShape]:
    """A long branch that another one leaves at each entry."""
    leaving = (BranchShape(uid=str(at), parent="A", fork=at, last=at + 1) for at in range(teeth))
    return [_root(teeth), *leaving]


def test_s52_paths_that_share_much_are_not_listed_one_by_one() -> None:
    """Together they would have twelve million segments."""
    found = outline(_comb(5_000), ("A", 5_000))
    assert found.unlisted == 5_000
    assert [len(path.segments) for path in found.paths] == [5_001]


def test_paths_of_a_usual_number_of_branches_are_listed() -> None:
    found = outline(_comb(100), ("A", 100))
    assert (len(found.paths), found.unlisted) == (101, 0)
