"""The order of branches, and which of them lead to a beginning."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from clew.core.log.rows import BranchRow
from clew.core.log.tree import in_order, misplaced, sound


def tree(seed: int, size: int) -> list[BranchRow]:
    """Branches in the order in which they were made, with numbers that tell nothing."""
    rng = random.Random(seed)
    numbers = rng.sample(range(1, 10 * size + 1), size)
    made: list[BranchRow] = []
    for age, number in enumerate(numbers):
        parent = rng.choice(made) if made and rng.random() < 0.9 else None
        fork = -1 if parent is None else parent.fork + rng.randint(1, 5)
        made.append(BranchRow(number, f"{age:08x}", 1, 1, parent.branch if parent else 0, fork))
    return made


@given(seed=st.integers(0, 10_000), size=st.integers(1, 40))
def test_p19_branches_come_behind_what_they_continue_and_else_by_age(seed: int, size: int) -> None:
    made = tree(seed, size)
    shuffled = random.Random(seed).sample(made, size)
    assert in_order(shuffled) == made == sound(shuffled)


@given(seed=st.integers(0, 10_000), size=st.integers(2, 40))
def test_p19_a_name_that_is_older_than_its_parent_comes_behind_it(seed: int, size: int) -> None:
    """Two machines whose clocks differ."""
    rng = random.Random(seed)
    made = [
        BranchRow(r.branch, f"{rng.randrange(9)}{r.uid}", 1, 1, r.parent, r.fork) for r in tree(seed, size)
    ]
    known = {0}
    for row in in_order(made):
        assert row.parent in known
        known.add(row.branch)
    assert in_order(rng.sample(made, size)) == in_order(made)


@given(
    rows=st.lists(
        st.tuples(st.integers(1, 8), st.integers(0, 9), st.integers(-1, 6), st.integers(1, 2)), max_size=8
    )
)
def test_s52_whatever_rows_say_each_is_told_once_and_no_ring_is_sound(
    rows: list[tuple[int, int, int, int]],
) -> None:
    forged = {number: BranchRow(number, f"b{number}", of, 1, up, fork) for number, up, fork, of in rows}
    assert sorted(row.branch for row in in_order(forged.values())) == sorted(forged)
    kept = {row.branch: row for row in sound(forged.values())}
    for row in kept.values():
        steps = 0
        while row.parent:
            assert misplaced(row, kept[row.parent]) is None
            row, steps = kept[row.parent], steps + 1
            assert steps <= len(kept)
