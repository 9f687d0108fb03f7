"""The status of a session: what it is, who changed it, and which change is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from clew.backends.contract import Backend
from clew.errors import (
    InvalidQueryError,
    InvalidTransitionError,
    LeaseLostError,
)
from clew.model import STATUSES, Json, Status, utc
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, said, say
from tests.behaviour.values import DAY
from tests.behaviour.views import run_of
from tests.support.rows import each_row

VERBS: Final[dict[Status, Callable[[Session], Any]]] = {
    "running": lambda s: s.start("again"),
    "completed": lambda s: s.complete("done"),
    "failed": lambda s: s.fail("broken"),
    "closed": lambda s: s.close(),
    "pending": lambda s: s.reopen(),
}
"""How a caller asks for a status. `interrupted` and `expired` come to a session by themselves."""


def after(before: Status, wanted: Status) -> Status | None:
    """The status after such a step; None: it is refused."""
    if before == "closed":
        return {"running": None, "pending": "pending"}.get(wanted, "closed")
    return before if wanted == "pending" and before != "expired" else wanted


STEPS: Final = [
    (before, wanted) for before in STATUSES for wanted in VERBS if after(before, wanted) is not None
]


def bring(backend: Backend, s: Session, status: Status) -> None:
    """Give a session a status, whatever way there is to it."""
    match status:
        case "pending":
            return
        case "running":
            s.start("first")
        case "completed":
            s.start("first")
            s.complete()
        case "failed":
            s.start("first")
            s.fail("first")
        case "closed":
            s.close()
        case "interrupted":
            s.start("first")
            _set(backend, s, status)
        case "expired":
            _set(backend, s, status)
    assert s.info.status == status


def _set(backend: Backend, s: Session, status: Status) -> None:
    with backend.write() as tx:
        row = tx.get_session(s._sid)
        assert row is not None
        tx.set_session(msgspec.structs.replace(row, status=STATUSES.index(status)))


def _outcome(s: Session) -> tuple[Json, Json, str | None] | None:
    run = s.info.run
    return None if run is None else (run.request, run.response, run.error)


class TestStatus:
    """Legal changes only, each kept with who and when; what belongs to a run goes with it."""

    # -- changes

    def test_a_new_session_is_pending(self, store: Store, s: Session) -> None:
        """Nobody ever worked on it, and nothing has changed."""
        info = s.info

        assert (info.status, info.run, info.epoch, s.lease) == ("pending", None, 0, None)
        assert s.status_changes() == []
        assert [found.status for found in store.list()] == ["pending"]

    @each_row(("before", "wanted"), STEPS)
    def test_a_step_is_made_and_kept_and_made_twice_it_is_as_one(
        self, backend: Backend, store: Store, clock: Ticking, before: Status, wanted: Status
    ) -> None:
        """With what it was, the time, and the process that made it; what changes nothing is no change."""
        s = store.session(f"{before} to {wanted}")
        bring(backend, s, before)
        known = s.status_changes()
        start = clock.now
        VERBS[wanted](s)
        expected = after(before, wanted)
        changes = s.status_changes()

        assert s.info.status == expected
        assert changes[: len(known)] == known
        assert len(changes) - len(known) == (expected != before)
        if expected != before:
            assert (changes[-1].was, changes[-1].status, changes[-1].epoch) == (before, wanted, 0)
            assert changes[-1].by == s._engine.host.name
            assert utc(start) < changes[-1].at <= utc(clock.now)
        outcome = _outcome(s)
        VERBS[wanted](s)
        assert (s.info.status, s.status_changes(), _outcome(s)) == (expected, changes, outcome)

    def test_a_run_may_not_start_on_a_closed_session(self, s: Session) -> None:
        """InvalidTransitionError names both; nothing is changed, and nothing is noted."""
        s.close()
        info, known = s.info, s.status_changes()
        for start in (s.start, s.run, lambda: s.run(steal=True)):
            with pytest.raises(InvalidTransitionError) as caught:
                start()
            assert (caught.value.session, caught.value.was, caught.value.wanted) == ("s", "closed", "running")
            assert "closed" in str(caught.value)
            assert "running" in str(caught.value)
            assert (s.info, s.status_changes(), s.lease) == (info, known, None)

    @each_row("before", [status for status in STATUSES if status != "closed"])
    def test_a_run_starts_from_every_status_that_lets_it(
        self, backend: Backend, store: Store, before: Status
    ) -> None:
        """The status is running while it lasts, and completed after it."""
        s = store.session(before)
        bring(backend, s, before)
        with s.run() as run:
            assert run.info.status == "running"
        assert s.info.status == "completed"

    @pytest.mark.parametrize("steal", [False, True])
    def test_a_lease_goes_before_a_run_without_one(self, s: Session, steal: bool) -> None:
        """That is interrupted then: nobody would ever end it."""
        s.start()
        with s.run(owner="w", steal=steal):
            changes = [(change.was, change.status, change.by) for change in s.status_changes()[1:]]
            assert changes == [("running", "interrupted", "w"), ("interrupted", "running", "w")]

    def test_all_is_kept_when_a_session_is_closed(self, s: Session) -> None:
        """`close` says that nobody will work on it; reading and writing go on, and so does reopening."""
        say(s, "a")
        s.set_var("v", 1)
        s.close()
        say(s, "b")
        assert (said(s), s.vars(), s.info.status) == (["a", "b"], {"v": 1}, "closed")
        s.reopen()
        s.start()
        assert s.info.status == "running"

    def test_a_session_is_closed_while_it_runs(self, s: Session) -> None:
        """The run ends with it; what it comes to can still be told, and the session stays closed."""
        s.start("request")
        s.close()
        run = run_of(s)
        assert (s.info.status, run.request, run.ended_at is not None) == ("closed", "request", True)
        s.complete("late")
        assert (s.info.status, run_of(s).response) == ("closed", "late")

    def test_a_worker_may_close_its_session(self, s: Session) -> None:
        """It gives its lease back; leaving the block is no second end."""
        with s.run("request", owner="w") as run:
            say(run, "a")
            run.close()
        *_, change = s.status_changes()

        assert (s.info.status, s.lease, change.was, change.by, change.epoch) == (
            "closed",
            None,
            "running",
            "w",
            1,
        )
        with pytest.raises(LeaseLostError):
            say(run, "b")
        say(s, "c")
        assert said(s) == ["a", "c"]

    def test_a_lease_is_ended_by_whoever_closes_the_session_outside_of_it(self, s: Session) -> None:
        """Whoever has the lease is told."""
        with pytest.raises(LeaseLostError), s.run():
            s.outside_lease().close()
        assert (s.info.status, s.lease) == ("closed", None)

    # -- lists and totals

    def test_sessions_are_listed_by_status(self, backend: Backend, store: Store) -> None:
        """Those of one status, newest activity first, page by page."""
        for number in range(14):
            bring(backend, store.create(f"{number:02}"), STATUSES[number % 7])
        all_of_them = [info.id for info in store.list()]
        for status in STATUSES:
            expected = [id for id in all_of_them if STATUSES[int(id) % 7] == status]
            page = store.list(status=status, limit=1)
            assert {info.status for info in page} == {status}
            rest = store.list(status=status, limit=1, cursor=page.cursor)
            assert [info.id for info in (*page, *rest)] == expected
            assert rest.cursor is None
        for status in ("running", "completed", "failed"):
            assert all(info.run is not None for info in store.list(status=status))

    def test_status_is_one_filter_of_several(self, store: Store) -> None:
        """With a tag, a workspace and metadata: all of them count."""
        for id, tag in (("a", "x"), ("b", "y"), ("c", "x")):
            store.create(id, tags=[tag], workspace="/w", metadata={"k": tag})
        store.get("a").start()
        store.get("b").start()

        found = store.list(status="running", tag="x", workspace="/w", where={"k": "x"})
        assert [info.id for info in found] == ["a"]
        store.delete("a")
        assert [info.id for info in store.list(status="running")] == ["b"]
        assert [info.id for info in store.list(status="running", deleted=True)] == ["a"]

    @each_row("bad", ["", "Running", "done", 1, "pending "])
    def test_a_status_that_is_none_is_refused(self, store: Store, bad: Any) -> None:
        """The error lists those that there are."""
        with pytest.raises(InvalidQueryError) as caught:
            store.list(status=bad)
        assert all(status in str(caught.value) for status in STATUSES)

    def test_totals_by_status(self, backend: Backend, store: Store) -> None:
        """Every status is there; the trash is not counted."""
        for number, status in enumerate(STATUSES):
            for copy in range(number):
                bring(backend, store.create(f"{status} {copy}"), status)
        assert dict(store.stats().by_status) == {status: n for n, status in enumerate(STATUSES)}
        store.delete("closed 0")
        stats = store.stats()

        assert stats.by_status["closed"] == 5
        assert sum(stats.by_status.values()) == stats.sessions

    def test_totals_of_the_last_day(self, store: Store, clock: Ticking) -> None:
        """Which sessions were active and created in the last 24 hours, by the clock of the store."""
        old, active = store.create("old"), store.create("active")
        clock.now += DAY + 1
        active.start()
        store.create("new")
        stats = store.stats()

        assert {status: n for status, n in stats.active_24h.items() if n} == {"running": 1, "pending": 1}
        assert set(stats.active_24h) == set(STATUSES)
        assert stats.created_24h == 1
        old.start()
        assert store.stats().active_24h["running"] == 2
        clock.now += DAY + 1
        stats = store.stats()
        assert (sum(stats.active_24h.values()), stats.created_24h, stats.sessions) == (0, 0, 3)
