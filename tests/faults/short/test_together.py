"""F-21 to F-26: many processes at once, on every backend; each ends in the history checker."""

from __future__ import annotations

from tests.faults.campaign import campaign
from tests.faults.campaigns.together import fence, fork_with_a_store, start_together, storm
from tests.faults.subjects import Subject


def test_f21_eight_processes_that_open_a_new_store_at_once_all_succeed(subject: Subject) -> None:
    result = campaign(start_together, subject, rounds=1)

    assert result.wrong == []


def test_f22_f24_a_storm_of_processes_some_of_them_frozen_for_a_moment_loses_nothing(
    subject: Subject,
) -> None:
    """Same sessions and different ones: J1-J11."""
    result = campaign(storm, subject, processes=3, count=10, freezes=4)

    assert result.wrong == []
    assert result.acknowledged > 3 * 10


def test_f24_a_frozen_holder_that_comes_back_is_refused(subject: Subject) -> None:
    """P9, J8."""
    result = campaign(fence, subject)

    assert result.wrong == []


def test_the_fence_finds_an_append_that_does_not_compare_it(subject: Subject) -> None:
    """A planted bug."""
    result = campaign(fence, subject, planted="no fencing check")

    assert any("J8" in line for line in result.wrong)


def test_f26_processes_that_are_forked_with_an_open_store_use_it_each_for_itself(subject: Subject) -> None:
    result = campaign(fork_with_a_store, subject)

    assert result.wrong == []
