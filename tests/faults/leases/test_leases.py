"""P9, P10: at most one worker writes, and a dead one is soon replaced; with real processes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.core.runs import lease
from clew.core.runs.access import Access
from clew.session import Session
from tests.faults.crash.common import message, texts
from tests.faults.leases import workers
from tests.faults.leases.tools import lease_record
from tests.support.forks import call_in_fork
from tests.support.rows import each_row

FROZEN = ["late 1", "late 2"]


@pytest.mark.parametrize("beating", [True, False], ids=["heartbeat", "no heartbeat"])
def test_f24_a_holder_frozen_past_its_lease_is_refused_and_keeps_its_messages(
    tmp_path: Path, beating: bool
) -> None:
    """P9: the append's own transaction decides, whether or not the worker noticed."""
    found = call_in_fork(workers.freeze_holder, str(tmp_path / "a.db"), beating)

    assert found["noticed"] == beating
    assert found["refused"] == ["s", 1, 2, "second"]
    assert (found["completed"], found["ended"]) == (False, 0)
    assert found["texts"] == ["before", "taken over", "going on"]
    assert found["rescued"] == ["before", "taken over", *FROZEN]
    assert found["epochs"] == [1, 2, 2]
    assert [status for status, _ in found["statuses"]] == ["running", "interrupted", "running", "completed"]
    assert (found["violations"], found["wrong"]) == ("", [])


def test_f24_finds_an_append_that_does_not_compare_the_fence(tmp_path: Path) -> None:
    """A planted bug."""
    found = call_in_fork(workers.freeze_holder, str(tmp_path / "a.db"), False, "the fence is not compared")

    assert found["refused"] is None
    assert "J8" in found["violations"]


@pytest.mark.parametrize("reaped", [True, False], ids=["reaped", "zombie"])
def test_p10_the_lease_of_a_killed_holder_is_free_at_once(tmp_path: Path, reaped: bool) -> None:
    """However long it was taken for: no such process runs any more."""
    found = call_in_fork(workers.killed_holder, str(tmp_path / "a.db"), reaped, "run")

    assert "refused" not in found
    assert (found["before"], found["held"]) == ("running", False)
    assert found["statuses"] == [
        ["running", "first"],
        ["interrupted", "second"],
        ["running", "second"],
        ["completed", "second"],
    ]
    assert (found["texts"], found["epoch"]) == (["in s", "taken over"], 2)


def test_p10_a_plain_append_ends_the_lease_of_a_killed_holder(tmp_path: Path) -> None:
    found = call_in_fork(workers.killed_holder, str(tmp_path / "a.db"), True, "append")

    assert "refused" not in found
    assert [status for status, _ in found["statuses"]] == ["running", "interrupted"]
    assert found["texts"] == ["in s", "taken over"]


def test_p10_the_store_lists_the_session_of_a_killed_holder_as_interrupted(tmp_path: Path) -> None:
    found = call_in_fork(workers.killed_holder, str(tmp_path / "a.db"), True, "interrupted")

    assert found["interrupted"] == ["s"]
    assert [status for status, _ in found["statuses"]] == ["running", "interrupted"]


def test_p10_finds_a_store_that_waits_for_the_dead(tmp_path: Path) -> None:
    """A planted bug."""
    found = call_in_fork(workers.killed_holder, str(tmp_path / "a.db"), True, "run", "nobody is ever gone")

    assert "first holds the lease" in found["refused"]
    assert found["texts"] == ["in s"]


@pytest.mark.parametrize(
    ("me", "planted"),
    [({"namespace": "pid:[1]"}, ""), ({}, "nobody is ever gone")],
    ids=["another namespace", "nothing known"],
)
def test_p10_a_lease_holds_until_its_time_is_over_when_its_holder_can_not_be_judged(
    tmp_path: Path, me: dict[str, str], planted: str
) -> None:
    """A process number of another container means nothing here; then time alone decides."""
    found = call_in_fork(workers.holder_elsewhere, str(tmp_path / "a.db"), me, planted)

    assert (found["long"], found["at its end"], found["after its end"]) == ("first", "first", "second")
    assert found["epoch"] == 2
    assert [status for status, _ in found["statuses"]] == ["running", "interrupted", "running", "completed"]


def test_p10_finds_a_store_that_believes_the_numbers_of_another_namespace(tmp_path: Path) -> None:
    """A planted bug."""
    me = {"namespace": "everywhere"}
    found = call_in_fork(
        workers.holder_elsewhere, str(tmp_path / "a.db"), me, "numbers of any namespace are believed"
    )

    assert found["long"] == "second"


def test_p10_a_lease_from_before_the_machine_was_started_is_free_at_once(tmp_path: Path) -> None:
    """A file of one machine: whoever held a lease in another life of it is gone."""
    me = {"boot": "00000000-0000-0000-0000-000000000000"}
    found = call_in_fork(workers.holder_elsewhere, str(tmp_path / "a.db"), me)

    assert found["long"] == "second"
    assert found["epoch"] == 2


def test_f23_of_two_processes_that_both_find_a_lease_free_exactly_one_gets_it(tmp_path: Path) -> None:
    """P9: the loser hears who holds it; no epoch is lost, and none has two owners."""
    found = call_in_fork(workers.race, str(tmp_path / "a.db"), 20)

    assert (found["wrong"], found["violations"], found["ends"]) == ([], "", [0, 0])
    assert found["by epoch"] == [[number + 1, winner] for number, winner in enumerate(found["winners"])]
    assert len(found["winners"]) == 20
    assert found["status"] == "completed"


def test_f23_finds_a_lease_that_is_looked_at_only_before_the_transaction(tmp_path: Path) -> None:
    """A planted bug."""
    bug = "held leases are seen only before the transaction"
    found = call_in_fork(workers.race, str(tmp_path / "a.db"), 1, bug)

    assert len(found["wrong"]) == 2


def test_f26_a_forked_child_can_neither_use_nor_end_the_run_of_its_parent(tmp_path: Path) -> None:
    found = call_in_fork(workers.fork_with_a_run, str(tmp_path / "a.db"))

    through_the_run = ("append", "append_nowait", "checkpoint", "set_var", "complete", "fail")
    assert found["child"] == {
        **dict.fromkeys(through_the_run, "lease_lost"),
        "plain append": "lease_held",
        "run": "lease_held",
        "its messages": "kept",
        "leaving": "",
    }
    assert (found["ended"], found["running"]) == (0, "running")
    assert found["statuses"] == [["running", "parent"], ["completed", "parent"]]
    assert found["texts"] == ["before", "after"]
    assert found["fork"] == ["before", "from the child"]


# S-21: forged rights


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open("memory:" if request.param == "memory" else tmp_path / "a.db") as store:
        yield store


FORGERIES: dict[str, Callable[[Access], dict[str, int]]] = {
    "right epoch, wrong fence": lambda held: {"fence": held.fence ^ 1},
    "right fence, next epoch": lambda held: {"epoch": held.epoch + 1},
    "right fence, epoch before": lambda held: {"epoch": held.epoch - 1},
    "epoch as fence": lambda held: {"fence": held.epoch},
    "both wrong": lambda held: {"epoch": held.epoch + 1, "fence": held.fence + 1},
}
WRITES: dict[str, Callable[[Session], Any]] = {
    "append": lambda s: s.append(message("forged")),
    "clear": lambda s: s.clear(),
    "rewind": lambda s: s.rewind(0),
    "set_var": lambda s: s.set_var("k", "forged"),
    "checkpoint": lambda s: s.checkpoint("forged"),
    "add_event": lambda s: s.add_event("forged"),
    "complete": lambda s: s.complete(),
    "fail": lambda s: s.fail("forged"),
    "close": lambda s: s.close(),
}


def state(session: clew.Session) -> list[Any]:
    held = lease_record(session)
    return [
        texts(session),
        session.info,
        session.vars(),
        session.checkpoints(),
        session.status_changes(),
        held,
    ]


@each_row(("forgery", "write"), itertools.product(FORGERIES, WRITES))
def test_s21_a_write_with_a_forged_right_is_refused_and_changes_nothing(
    store: clew.Store, forgery: str, write: str
) -> None:
    session = store.session(f"{forgery}, {write}")
    session.append(message("one"), message("two"))
    with session.run(lease=600, owner="holder") as run:
        forged = msgspec.structs.replace(run._access, **FORGERIES[forgery](run._access))
        before = state(session)

        with pytest.raises(clew.LeaseLostError) as raised:
            WRITES[write](Session(store._engine, forged))

        assert state(session) == before
        assert raised.value.epoch == forged.epoch
        run.append(message("three"))
    assert texts(session) == ["one", "two", "three"]


def test_s21_a_right_that_is_over_does_not_come_back_with_the_next_lease(store: clew.Store) -> None:
    """Neither as it was nor with the new epoch: every lease has a secret of its own."""
    session = store.session("s")
    with session.run(owner="first") as run:
        old = run._access
    with session.run(owner="second") as run:
        for right in (old, msgspec.structs.replace(old, epoch=run.epoch)):
            with pytest.raises(clew.LeaseLostError, match="second took over" if right is old else None):
                Session(store._engine, right).append(message("late"))
        assert run._access.fence != old.fence
    with pytest.raises(clew.LeaseLostError):
        Session(store._engine, old).append(message("late"))
    assert texts(session) == []


@each_row("forgery", ["right epoch, wrong fence", "epoch as fence", "both wrong"])
def test_s21_nobody_renews_the_lease_of_another(store: clew.Store, forgery: str) -> None:
    session = store.session("s")
    with session.run(lease=600, owner="holder") as run:
        forged = msgspec.structs.replace(run._access, **FORGERIES[forgery](run._access))
        before = lease_record(session)

        assert store._engine.run(lambda tx: lease.renew(tx, forged)) is False
        assert lease_record(session) == before


def test_s21_without_a_right_nobody_renews_a_lease_that_is_over(store: clew.Store) -> None:
    session = store.session("s")
    with session.run() as run:
        over = run._access

    assert store._engine.run(lambda tx: lease.renew(tx, over)) is False
    assert lease_record(session) is None


def test_s21_the_secret_of_a_lease_is_not_shown_to_those_who_look(store: clew.Store) -> None:
    session = store.session("s")
    with session.run(owner="holder") as run:
        secret = run._access.fence
        with pytest.raises(clew.LeaseHeldError) as raised:
            session.append(message("x"))
        shown = [repr(run), repr(session), repr(session.lease), repr(session.info), repr(raised.value)]

    assert secret > 2**32
    assert not [text for text in shown if str(secret) in text or f"{secret:x}" in text]
