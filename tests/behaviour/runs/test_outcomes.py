"""What belongs to a run: request, response, error, and for how long they are kept."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from clew.errors import InvalidError
from clew.model import RunInfo, utc
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, say
from tests.behaviour.rows import each_session
from tests.behaviour.views import run_of, status_of
from tests.support.rows import each_row


def a_run(s: Session, started: int, **known: Any) -> RunInfo:
    """A run of this process without a lease, of which nothing else is known."""
    fields: dict[str, Any] = {"owner": s._engine.host.name, "epoch": 0, "started_at": utc(started)}
    nothing = dict.fromkeys(("task", "ended_at", "request", "response", "error"))
    return RunInfo(**{**fields, **nothing, **known})


class TestOutcomes:
    """The latest run of a session is known, with what came of it; the next one begins with nothing."""

    def test_an_end_without_a_beginning_is_a_run_that_is_over(self, s: Session, clock: Ticking) -> None:
        """What came of it is kept; a request of an earlier run does not stay with it."""
        s.complete("answer")
        assert run_of(s) == a_run(s, clock.now, ended_at=utc(clock.now), response="answer")
        s.start("request")
        s.complete()
        s.close()
        s.reopen()
        s.fail("broken")
        assert run_of(s) == a_run(s, clock.now, ended_at=utc(clock.now), error="broken")

    def test_the_last_word_about_a_run_counts(self, s: Session) -> None:
        """But to say once more that it is complete takes no response away."""
        s.start("request")
        s.complete("first")
        s.complete()
        assert run_of(s).response == "first"
        s.complete("second")
        assert run_of(s).response == "second"
        s.fail("after all")
        assert status_of(s) == ("failed", "after all")
        s.complete()
        assert status_of(s) == ("completed", None)
        assert run_of(s).request == "request"
        assert [change.status for change in s.status_changes()] == [
            "running",
            "completed",
            "failed",
            "completed",
        ]

    def test_a_second_start_is_a_new_run(self, s: Session, clock: Ticking) -> None:
        """A program that died has left the first one running."""
        s.start("first", task="task")
        s.start("second")

        assert (run_of(s), s.info.status) == (a_run(s, clock.now, request="second"), "running")
        assert len(s.status_changes()) == 1

    def test_the_run_is_known_while_it_lasts_and_after_it(self, s: Session, clock: Ticking) -> None:
        """Who, for what, since when; then until when and what came of it."""
        s.start({"n": 10**30, "\0": [None]}, task="sync")
        run = a_run(s, clock.now, request={"n": 10**30, "\0": [None]}, task="sync")
        assert run_of(s) == run
        s.complete(["done"])
        assert run_of(s) == replace(run, ended_at=utc(clock.now), response=["done"])

    @each_row("end", ["complete", "fail"])
    @each_session("leased", [False, True])
    def test_the_next_run_clears_what_the_last_one_left(self, s: Session, end: str, leased: bool) -> None:
        """Request, task, response and error belong to one run."""
        s.start("request", task="task")
        getattr(s, end)("outcome")
        if leased:
            s.run(owner="w")
        else:
            s.start()
        run = run_of(s)

        expected = a_run(s, 0, started_at=run.started_at)
        assert run == (replace(expected, owner="w", epoch=1) if leased else expected)

    @each_session(
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

        assert status_of(s) == ("failed", text)

    def test_what_is_no_error_is_refused_and_changes_nothing(self, s: Session) -> None:
        """An error is a text or an exception."""
        s.start()
        no_errors: list[Any] = [None, 5, b"x"]
        for no_error in no_errors:
            with pytest.raises(InvalidError):
                s.fail(no_error)
        assert status_of(s) == ("running", None)

    def test_status_and_run_do_not_rewind(self, s: Session) -> None:
        """They belong to the session, not to the conversation."""
        say(s, "a", "b")
        s.start("request")
        s.rewind(0)
        s.complete("response")
        s.undo()

        assert s.info.status == "completed"
        assert (run_of(s).request, run_of(s).response) == ("request", "response")

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
