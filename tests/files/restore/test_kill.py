"""F-43, P13: a restore that is killed, wherever, can be finished and can be undone; head and files agree.

At a few of its moments here; `test_many_kills.py` takes more of them."""

from __future__ import annotations

import pytest

from tests.faults.requirements import needs_strace
from tests.files.restore.kills import (
    kill_a_snapshot_at_every_change,
    kill_at_every_call,
    kill_at_every_change,
    kill_the_recovery_at_every_change,
)
from tests.support.forks import call_in_fork

FEW = 5


def test_f43_a_rewind_killed_at_any_change_is_finished_or_undone_with_its_head() -> None:
    """P13: exactly the target, or exactly the state before, at each change of the tree or the store."""
    result = call_in_fork(kill_at_every_change, "rewind", 1, "", False, FEW)

    assert result["wrong"] == {}
    assert min(result["seen"].values()) > 0  # kills before, between and after


def test_f43_a_restore_with_several_threads_killed_at_its_changes_is_finished_or_undone() -> None:
    """P13: the threads that write files make no difference."""
    result = call_in_fork(kill_at_every_change, "rewind", 6, "", True, 3)

    assert result["wrong"] == {}
    assert result["seen"]["half"] > 0


def test_p13_an_undo_killed_at_any_change_is_finished_or_taken_back_with_all_permissions() -> None:
    """P13: an undo is a restore as well: cut off, it goes on or back."""
    result = call_in_fork(kill_at_every_change, "undo", 2, "", False, FEW)

    assert result["wrong"] == {}
    assert result["seen"]["half"] > 0


@pytest.mark.parametrize("how", ["finish", "roll back"])
def test_f43_a_recovery_that_is_killed_too_is_recovered_in_both_ways(how: str) -> None:
    """P13: whoever finishes or undoes a restore may be killed as well, and the other way is still open."""
    result = call_in_fork(kill_the_recovery_at_every_change, how, 50, 2, FEW)

    assert result["wrong"] == {}
    assert result["seen"]["half"] > 0


@needs_strace
def test_f43_a_rewind_killed_at_its_system_calls_is_finished_or_undone() -> None:
    """P13: the same with the calls that the kernel sees."""
    result = call_in_fork(kill_at_every_call, ["renameat", "pwrite64"], 2, 4)

    assert result["wrong"] == {}
    assert min(result["killed"].values()) > 0


def test_p13_a_snapshot_killed_at_any_change_is_there_as_a_whole_or_not_at_all() -> None:
    """Whatever is listed is whole, and the next snapshot holds what is there."""
    result = call_in_fork(kill_a_snapshot_at_every_change, FEW)

    assert result["wrong"] == {}
    assert result["changes"] > 5


def test_the_kills_find_a_restore_that_writes_in_place() -> None:
    """A planted bug: without the temporary file and the rename, files are left half-written."""
    result = call_in_fork(kill_at_every_change, "rewind", 1, "writes in place")

    assert any("changed while restoring" in line for line in result["wrong"].values())


def test_the_kills_find_a_head_that_moves_after_the_journal_was_closed() -> None:
    """A planted bug: head and files do not agree for a moment."""
    result = call_in_fork(kill_at_every_change, "rewind", 1, "head moves later")

    assert any("target with 2 messages" in line for line in result["wrong"].values())
