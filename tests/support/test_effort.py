"""The choice that the tests make of long lists of cases."""

from __future__ import annotations

import itertools

import pytest

from tests.support import effort
from tests.support.effort import spread, usually
from tests.support.rows import each_row


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "THOROUGH", False)


@each_row("count", [9, 10, 11, 99, 1000])
def test_a_choice_has_the_first_and_the_last_case_and_leaves_no_wide_gap(count: int) -> None:
    chosen = spread(range(count), 9)

    assert (chosen[0], chosen[-1], len(set(chosen))) == (0, count - 1, 9)
    gaps = [after - before for before, after in itertools.pairwise(chosen)]
    assert max(gaps) - min(gaps) <= 1


def test_a_short_list_is_taken_as_it_is() -> None:
    assert spread("abc", 9) == ["a", "b", "c"]


def test_a_small_tier_takes_fewer_where_a_test_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for tier, wanted in {"check": 2, "test": 2, "full": 5}.items():
        monkeypatch.setenv("CLEW_TIER", tier)
        assert len(spread(range(1000), 5, quick=2)) == wanted
        assert usually(5, quick=2, thorough=9) == wanted
        assert usually(5, thorough=9) == 5


def test_a_thorough_run_takes_every_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "THOROUGH", True)

    assert spread(range(1000), 9, quick=2) == list(range(1000))
    assert usually(1, quick=0, thorough=5) == 5
