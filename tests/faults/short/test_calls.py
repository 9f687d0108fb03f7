"""F-02, F-08, F-10: system calls that kill, fail, or write less than all. A choice of them: `make faults`
takes every call of every operation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.campaign import campaign
from tests.faults.campaigns.calls import fail_at_calls, kill_at_calls, shorten_writes
from tests.faults.campaigns.unreadable import unreadable_files
from tests.faults.requirements import needs_strace
from tests.faults.subjects import JsonlSubject, Subject
from tests.support.effort import usually


@needs_strace
@pytest.mark.parametrize(
    ("operations", "every"),
    [
        (["begin", "append", "append a batch"], 9),
        (["rewind", "fork", "compact"], 13),
        (["delete", "purge", "restore files"], 17),
    ],
    ids=["append", "move", "delete"],
)
def test_f02_a_program_killed_at_a_system_call_leaves_the_state_before_an_operation_or_after_it(
    subject: Subject, operations: list[str], every: int
) -> None:
    """P1, P2, P12, P13."""
    every *= usually(2, thorough=1)
    result = campaign(kill_at_calls, subject, operations=operations, every=every, first=3)

    assert result.wrong == []
    assert result.cycles > 5


@needs_strace
def test_f08_a_system_call_that_fails_is_told_and_costs_nothing_that_was_acknowledged(
    subject: Subject,
) -> None:
    """P4, P23: a BackendError, of a full disk a DiskFullError, or success; the same store goes on."""
    every = usually(17, thorough=7)
    result = campaign(fail_at_calls, subject, operations=["append"], every=every, first=5)

    assert result.wrong == []
    assert sum(result.seen.values()) > 3  # errors that were told


def test_f10_a_short_write_is_told_and_leaves_nothing_half(subject: Subject) -> None:
    result = campaign(shorten_writes, subject, operations=["append a batch"], samples=8)

    assert result.wrong == []
    assert sum(result.seen.values()) > 0


@needs_strace
def test_f08_a_read_that_fails_is_told_and_the_same_program_sees_everything_afterwards(
    subject: Subject,
) -> None:
    """P6: also while an index is made anew."""
    every = usually(40, thorough=5)
    operations = ["rebuild", "read"]
    result = campaign(fail_at_calls, subject, operations=operations, reads=True, every=every, first=35)

    assert result.wrong == []
    assert sum(result.seen.values()) > 0


@needs_strace
def test_f08_a_file_that_can_not_be_read_costs_what_it_holds(subject: Subject) -> None:
    """P6: by errors of ours; what lies in other files is read, found and listed, and a full look names it."""
    result = campaign(unreadable_files, subject)

    assert result.wrong == []
    assert sum(result.seen.values()) > 0


@needs_strace
def test_an_index_that_is_made_in_its_place_is_found(tmp_path: Path) -> None:
    planted = "jsonl: an index made in its place"
    subject = JsonlSubject(tmp_path / "subject")
    result = campaign(
        fail_at_calls, subject, operations=["rebuild"], reads=True, every=3, first=1, planted=planted
    )

    assert any("the same program sees" in line for line in result.wrong)


@needs_strace
def test_errors_of_the_system_that_are_let_out_are_found(tmp_path: Path) -> None:
    planted = "jsonl: errors of the system let out"
    result = campaign(unreadable_files, JsonlSubject(tmp_path / "subject"), planted=planted)

    assert any("a.jsonl cannot be read" in line for line in result.wrong)
