"""F-26: a store that is open when its process forks."""

from __future__ import annotations

from pathlib import Path

from tests.faults.crash import forks
from tests.support.forks import call_in_fork

BEFORE = ["p0", "p1"]


def test_f26_parent_and_child_both_append_and_nothing_is_lost(tmp_path: Path) -> None:
    """The child's end, sudden as it is, does not fold the log of the parent."""
    found = call_in_fork(forks.child_goes_first, str(tmp_path / "a.db"))

    mine = [f"c{number}" for number in range(20)] + ["last"]
    assert (found["heard"], found["status"], found["log kept"]) == (mine, 0, True)
    assert (found["wrong"], found["integrity"]) == ([], "ok")
    assert found["child"] == mine
    meanwhile = {f"meanwhile {number}" for number in range(20)}
    assert set(found["parent"]) == {*BEFORE, "from the child", *meanwhile, "after"}
    assert found["parent"][-1] == "after"
    assert {key: found[key] for key in found["again"]} == found["again"]


def test_f26_the_child_goes_on_after_the_parent_closed_the_store(tmp_path: Path) -> None:
    """What it appends is seen by others at once, and is there when all are gone."""
    found = call_in_fork(forks.parent_goes_first, str(tmp_path / "a.db"))

    mine = ["before", *(f"alone {number}" for number in range(5))]
    assert found["status"] == 0
    assert found["first"]["child"] == mine
    assert found["then"]["child"] == [*mine, "at last"]
    assert found["first"]["parent"] == found["then"]["parent"] == [*BEFORE, "goodbye"]
    assert (found["then"]["wrong"], found["then"]["integrity"]) == ([], "ok")


def test_f26_a_child_that_closes_the_store_or_just_ends_does_not_harm_the_parent(tmp_path: Path) -> None:
    found = call_in_fork(forks.child_closes, str(tmp_path / "a.db"))

    assert found["heard"] == ["closed", 0, 0]
    assert found["parent"] == [*BEFORE, "first", "second"]
    assert (found["wrong"], found["integrity"]) == ([], "ok")


def test_f26_workers_of_a_forked_pool_use_the_store_they_inherit(tmp_path: Path) -> None:
    found = call_in_fork(forks.pool_of_workers, str(tmp_path / "a.db"))

    expected = [[f"{number}.{n}" for n in range(10)] for number in range(8)]
    assert found["told"] == found["kept"] == expected
    assert found["parent"] == [*BEFORE, *(f"meanwhile {number}" for number in range(20))]
    assert (found["wrong"], found["integrity"]) == ([], "ok")


def test_f26_no_child_hangs_that_was_forked_while_other_threads_used_the_store(tmp_path: Path) -> None:
    found = call_in_fork(forks.fork_in_a_storm, str(tmp_path / "a.db"), 12)

    assert found["heard"] == [["one", "two"]] * 12
    assert found["lost"] == {}
    assert (found["wrong"], found["integrity"]) == ([], "ok")


def test_f26_a_child_uses_the_async_store_that_it_inherits(tmp_path: Path) -> None:
    found = call_in_fork(forks.fork_an_async_store, str(tmp_path / "a.db"))

    assert found["heard"] == found["child"] == ["c0"]
    assert found["parent"] == ["p0", "p0"]
    assert (found["wrong"], found["integrity"]) == ([], "ok")
