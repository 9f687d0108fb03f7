"""The status of a session: what it is, who changed it, and which change is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from clew.backends.contract import Backend
from clew.core.status import LEGAL
from clew.errors import InvalidError, InvalidQueryError, InvalidTransitionError
from clew.model import STATUSES, Status, utc
from clew.session import Session
from clew.store import Store
from clew.testing.conformance_base import Conformance, Ticking, said, say

DAY: Final = 86_400_000_000

VERBS: Final[dict[Status, Callable[[Session], Any]]] = {
    "running": lambda s: s.start("again"),
    "completed": lambda s: s.complete("done"),
    "failed": lambda s: s.fail("broken"),
    "closed": lambda s: s.close(),
    "pending": lambda s: s.reopen(),
}
"""How a caller asks for a status. `interrupted` and `expired` come to a session by themselves."""


def _changes(*, legal: bool) -> list[Any]:
    return [
        pytest.param(before, wanted, id=f"{before} to {wanted}")
        for was, before in enumerate(STATUSES)
        for wanted in VERBS
        if (STATUSES.index(wanted) in LEGAL[was]) == legal
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


def status_of(session: Session) -> tuple[str, str | None]:
    """The status, and the error of the run."""
    info = session.info
    return info.status, info.run.error if info.run else None


class StatusConformance(Conformance):
    """Legal changes only, each kept with who and when; what belongs to a run goes with it."""

    # -- changes

    def test_a_new_session_is_pending(self, store: Store, s: Session) -> None:
        """Nobody ever worked on it, and nothing has changed."""
        info = s.info

        assert (info.status, info.run, info.epoch, s.lease) == ("pending", None, 0, None)
        assert s.status_changes() == []
        assert [found.status for found in store.list()] == ["pending"]

    @pytest.mark.parametrize(("before", "wanted"), _changes(legal=True))
    def test_a_legal_change_is_made_and_kept(
        self, backend: Backend, s: Session, clock: Ticking, before: Status, wanted: Status
    ) -> None:
        """With what it was before, the time, and the process that made it."""
        bring(backend, s, before)
        known = s.status_changes()
        start = clock.now
        VERBS[wanted](s)
        *earlier, change = s.status_changes()

        assert earlier == known
        assert (change.was, change.status, change.epoch) == (before, wanted, 0)
        assert change.by == s._engine.here.name
        assert utc(start) < change.at <= utc(clock.now)
        assert s.info.status == wanted

    @pytest.mark.parametrize(("before", "wanted"), _changes(legal=False))
    def test_an_illegal_change_is_refused(
        self, backend: Backend, s: Session, before: Status, wanted: Status
    ) -> None:
        """InvalidTransitionError names both; nothing is changed, and nothing is noted."""
        bring(backend, s, before)
        info, known = s.info, s.status_changes()
        with pytest.raises(InvalidTransitionError) as caught:
            VERBS[wanted](s)

        assert (caught.value.session, caught.value.was, caught.value.wanted) == ("s", before, wanted)
        assert before in str(caught.value)
        assert wanted in str(caught.value)
        assert (s.info, s.status_changes()) == (info, known)

    @pytest.mark.parametrize("before", [status for status in STATUSES if status not in ("running", "closed")])
    def test_a_run_starts_from_every_status_that_lets_it(
        self, backend: Backend, s: Session, before: Status
    ) -> None:
        """The status is running while it lasts, and completed after it."""
        bring(backend, s, before)
        with s.run() as run:
            assert run.info.status == "running"
        assert s.info.status == "completed"

    @pytest.mark.parametrize("before", ["running", "closed"])
    def test_no_run_starts_where_none_may(self, backend: Backend, s: Session, before: Status) -> None:
        """A closed session is to be opened first; a run without a lease ends first, or is stolen."""
        bring(backend, s, before)
        with pytest.raises(InvalidTransitionError) as caught:
            s.run()

        assert (caught.value.was, caught.value.wanted) == (before, "running")
        assert (s.info.status, s.info.epoch, s.lease) == (before, 0, None)

    def test_a_run_without_a_lease_can_be_stolen(self, s: Session) -> None:
        """It is interrupted then: nobody would ever end it."""
        s.start()
        with s.run(owner="w", steal=True):
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

    # -- what belongs to a run

    def test_the_run_is_known_while_it_lasts_and_after_it(self, s: Session, clock: Ticking) -> None:
        """Who, for what, since when; then until when and what came of it."""
        s.start({"n": 10**30, "\0": [None]}, task="sync")
        run = s.info.run
        assert run is not None
        assert (run.request, run.task, run.epoch) == ({"n": 10**30, "\0": [None]}, "sync", 0)
        assert (run.owner, run.started_at) == (s._engine.here.name, utc(clock.now))
        assert (run.ended_at, run.response, run.error) == (None, None, None)
        s.complete(["done"])
        ended = s.info.run
        assert ended is not None
        assert (ended.ended_at, ended.response, ended.error) == (utc(clock.now), ["done"], None)
        assert (ended.request, ended.started_at) == (run.request, run.started_at)

    @pytest.mark.parametrize("end", ["complete", "fail"])
    @pytest.mark.parametrize("leased", [False, True])
    def test_the_next_run_clears_what_the_last_one_left(self, s: Session, end: str, leased: bool) -> None:
        """Request, task, response and error belong to one run."""
        s.start("request", task="task")
        getattr(s, end)("outcome")
        if leased:
            s.run(owner="w")
        else:
            s.start()
        run = s.info.run

        assert run is not None
        assert (run.request, run.task, run.response, run.error, run.ended_at) == (
            None,
            None,
            None,
            None,
            None,
        )
        assert (run.epoch, run.owner) == ((1, "w") if leased else (0, s._engine.here.name))

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            ("broken", "broken"),
            (ValueError("bad"), "ValueError: bad"),
            (KeyboardInterrupt(), "KeyboardInterrupt"),
            ("\ud800 half", "? half"),
            (ValueError("\udfff"), "ValueError: ?"),
            ("", ""),
        ],
        ids=["text", "exception", "exception without a text", "surrogate", "surrogate inside", "empty"],
    )
    def test_an_error_is_kept_as_text(self, s: Session, error: Any, text: str) -> None:
        """A text as it is, an exception with its type; what no backend can keep is replaced."""
        s.start()
        s.fail(error)
        run = s.info.run

        assert run is not None
        assert run.error == text

    @pytest.mark.parametrize("bad", [float("nan"), {1}, b"x", "\ud800", {"a": object()}])
    def test_what_is_no_json_is_refused_and_changes_nothing(self, s: Session, bad: Any) -> None:
        """As a request or as a response."""
        for ask in (s.start, s.run):
            with pytest.raises(InvalidError):
                ask(bad)
        assert status_of(s) == ("pending", None)
        s.start()
        with pytest.raises(InvalidError):
            s.complete(bad)
        no_errors: list[Any] = [None, 5, b"x"]
        for no_error in no_errors:
            with pytest.raises(InvalidError):
                s.fail(no_error)
        assert status_of(s) == ("running", None)

    @pytest.mark.parametrize("bad", ["", "a\0b", "x" * 513, "\ud800", 5, b"x"])
    def test_a_bad_task_or_owner_is_refused(self, s: Session, bad: Any) -> None:
        """The rules of ids; nothing is started."""
        for ask in (lambda: s.start(task=bad), lambda: s.run(task=bad), lambda: s.run(owner=bad)):
            with pytest.raises(InvalidError):
                ask()
        assert (s.info.status, s.info.epoch) == ("pending", 0)

    def test_status_and_run_do_not_rewind(self, s: Session) -> None:
        """They belong to the session, not to the conversation."""
        say(s, "a", "b")
        s.start("request")
        s.rewind(0)
        s.complete("response")
        s.undo()
        run = s.info.run

        assert s.info.status == "completed"
        assert run is not None
        assert (run.request, run.response) == ("request", "response")

    def test_a_fork_starts_pending(self, s: Session) -> None:
        """It has no run of its own yet, and none of the changes of its base."""
        s.start("request")
        fork = s.fork()

        assert (fork.info.status, fork.info.run, fork.status_changes()) == ("pending", None, [])
        fork.start()
        s.fail("x")
        assert (s.info.status, fork.info.status) == ("failed", "running")

    def test_a_change_of_status_is_activity_unless_it_ends_all(self, store: Store, s: Session) -> None:
        """Starting, ending and opening again move a session to the front; closing does not."""
        order: list[str] = []
        for verb in (s.start, s.complete, s.close, s.reopen):
            store.create(f"newer {len(order)}")
            verb()
            order.append(store.list(limit=1)[0].id)

        assert order == ["s", "s", "newer 2", "s"]

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

    @pytest.mark.parametrize("bad", ["", "Running", "done", 1, "pending "])
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
