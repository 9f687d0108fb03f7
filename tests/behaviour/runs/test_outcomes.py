"""What belongs to a run: request, response, error, and for how long they are kept."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import InvalidError
from clew.model import utc
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, say
from tests.behaviour.rows import each_session
from tests.behaviour.views import status_of
from tests.support.rows import each_row


class TestOutcomes:
    """The latest run of a session is known, with what came of it; the next one begins with nothing."""

    def test_an_end_without_a_beginning_is_a_run_that_is_over(self, s: Session, clock: Ticking) -> None:
        """What came of it is kept; a request of an earlier run does not stay with it."""
        s.complete("answer")
        run = s.info.run
        assert run is not None
        assert (run.request, run.response, run.started_at, run.ended_at) == (
            None,
            "answer",
            utc(clock.now),
            utc(clock.now),
        )
        s.start("request")
        s.complete()
        s.close()
        s.reopen()
        s.fail("broken")
        run = s.info.run
        assert run is not None
        assert (run.request, run.response, run.error) == (None, None, "broken")

    def test_the_last_word_about_a_run_counts(self, s: Session) -> None:
        """But to say once more that it is complete takes no response away."""
        s.start("request")
        s.complete("first")
        s.complete()
        assert s.info.run is not None
        assert s.info.run.response == "first"
        s.complete("second")
        assert s.info.run.response == "second"
        s.fail("after all")
        assert status_of(s) == ("failed", "after all")
        s.complete()
        assert status_of(s) == ("completed", None)
        assert s.info.run.request == "request"
        assert [change.status for change in s.status_changes()] == [
            "running",
            "completed",
            "failed",
            "completed",
        ]

    def test_a_second_start_is_a_new_run(self, s: Session) -> None:
        """A program that died has left the first one running."""
        s.start("first", task="task")
        s.start("second")
        run = s.info.run

        assert run is not None
        assert (run.request, run.task, s.info.status) == ("second", None, "running")
        assert len(s.status_changes()) == 1

    def test_the_run_is_known_while_it_lasts_and_after_it(self, s: Session, clock: Ticking) -> None:
        """Who, for what, since when; then until when and what came of it."""
        s.start({"n": 10**30, "\0": [None]}, task="sync")
        run = s.info.run
        assert run is not None
        assert (run.request, run.task, run.epoch) == ({"n": 10**30, "\0": [None]}, "sync", 0)
        assert (run.owner, run.started_at) == (s._engine.host.name, utc(clock.now))
        assert (run.ended_at, run.response, run.error) == (None, None, None)
        s.complete(["done"])
        ended = s.info.run
        assert ended is not None
        assert (ended.ended_at, ended.response, ended.error) == (utc(clock.now), ["done"], None)
        assert (ended.request, ended.started_at) == (run.request, run.started_at)

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
        run = s.info.run

        assert run is not None
        assert (run.request, run.task, run.response, run.error, run.ended_at) == (
            None,
            None,
            None,
            None,
            None,
        )
        assert (run.epoch, run.owner) == ((1, "w") if leased else (0, s._engine.host.name))

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
        run = s.info.run

        assert run is not None
        assert run.error == text

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
