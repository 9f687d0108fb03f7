"""F-02, F-08, F-10: system calls that kill, fail, or write less than all. A choice of them: `make faults`
takes every call of every operation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.campaign import campaign
from tests.faults.campaigns.calls import fail_at_calls, kill_at_calls, shorten_writes
from tests.faults.campaigns.unreadable import unreadable_files
from tests.faults.requirements import needs_strace
from tests.faults.subjects import JsonlSubject, SqliteSubject, Subject


@needs_strace
@pytest.mark.parametrize(("operation", "every"), [("append a batch", 12), ("restore files", 30)])
def test_f02_a_program_killed_at_a_system_call_leaves_the_state_before_an_operation_or_after_it(
    subject: Subject, operation: str, every: int
) -> None:
    """P1, P2, P12, P13."""
    result = campaign(kill_at_calls, subject, operations=[operation], every=every, first=3)

    assert result.wrong == []
    assert result.cycles > 2


@needs_strace
def test_the_kills_at_calls_find_a_planted_bug(tmp_path: Path) -> None:
    subject, planted = SqliteSubject(tmp_path / "subject"), "batch in pieces"
    result = campaign(
        kill_at_calls, subject, operations=["append a batch"], every=4, first=1, planted=planted
    )

    assert any("operations were done" in line for line in result.wrong)


@needs_strace
def test_f08_a_system_call_that_fails_is_told_and_costs_nothing_that_was_acknowledged(
    subject: Subject,
) -> None:
    """P4, P23: a BackendError, of a full disk a DiskFullError, or success; the same store goes on."""
    result = campaign(fail_at_calls, subject, operations=["append"], every=97, first=13)

    assert result.wrong == []
    assert sum(result.seen.values()) > 1  # errors that were told


@needs_strace
def test_f08_a_new_store_on_a_full_disk_says_so(tmp_path: Path) -> None:
    """P4: it is not taken for one that is there and can be read."""
    full = {"errors": ["ENOSPC"], "modes": ["once"]}
    subject = SqliteSubject(tmp_path / "subject")
    result = campaign(fail_at_calls, subject, operations=["begin"], every=60, first=58, **full)

    assert result.wrong == []
    assert result.seen["disk_full"] > 0


def test_f10_a_short_write_is_told_and_leaves_nothing_half(subject: Subject) -> None:
    result = campaign(shorten_writes, subject, operations=["append a batch"], samples=7)

    assert result.wrong == []
    assert sum(result.seen.values()) > 0


@needs_strace
@pytest.mark.parametrize("operation", ["rebuild", "read"])
def test_f08_a_read_that_fails_is_told_and_the_same_program_sees_everything_afterwards(
    subject: Subject, operation: str
) -> None:
    """P6: also while an index is made anew. Of JSON lines that is many reads: it takes 2 seconds."""
    result = campaign(fail_at_calls, subject, operations=[operation], reads=True, every=40, first=1)

    assert result.wrong == []
    assert sum(result.seen.values()) > 0


@needs_strace
def test_f08_a_file_that_can_not_be_read_costs_what_it_holds(subject: Subject) -> None:
    """P6: by errors of ours; what lies in other files is read, found and listed, and a full look names it.

    Each file of a store is read by a program of its own under strace: that takes two seconds."""
    result = campaign(unreadable_files, subject)

    assert result.wrong == []
    assert sum(result.seen.values()) > 0


@needs_strace
def test_an_index_that_is_made_in_its_place_is_found(tmp_path: Path) -> None:
    """It takes a second: some reads have to fail in vain."""
    options = {"reads": True, "modes": ["once"], "planted": "jsonl: an index made in its place"}
    subject = JsonlSubject(tmp_path / "subject")
    result = campaign(fail_at_calls, subject, operations=["rebuild"], every=8, first=1, **options)

    assert any("the same program sees" in line for line in result.wrong)


@needs_strace
def test_errors_of_the_system_that_are_let_out_are_found(tmp_path: Path) -> None:
    planted = "jsonl: errors of the system let out"
    result = campaign(unreadable_files, JsonlSubject(tmp_path / "subject"), planted=planted)

    assert any("cannot be read: the wrong error" in line for line in result.wrong)
