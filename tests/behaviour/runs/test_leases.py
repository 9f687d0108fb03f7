"""Leases: who gets one, and how it is given back."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, Final

import pytest

from clew.backends.contract import Backend
from clew.errors import (
    InvalidError,
    LeaseHeldError,
    LeaseLostError,
    SessionDeletedError,
)
from clew.model import utc
from clew.run import Run
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import START, Ticking, said, say, user
from tests.behaviour.threads import in_threads
from tests.behaviour.values import SECOND
from tests.behaviour.views import run_of, status_of
from tests.support.rows import each_row
from tests.support.storage import Watched

TOO_SHORT_TO_RENEW: Final = 0.01
BAD_LEASES: Final = (0, -1.0, TOO_SHORT_TO_RENEW, math.nan, math.inf, 10**30, 86_401, True, "30", None)
BAD_WAITS: Final = (-1, math.nan, True, "1")


class TestLeases:
    """P9: one worker at a time, by its own wish; and all of them know who it is."""

    # -- taking it

    def test_a_lease_is_granted(self, timed: Store) -> None:
        """With an epoch that grows, for as long as was asked for; everybody can see who holds it."""
        s = timed.session("s")
        run = s.run({"fix": "it"}, task="bugfix", lease=60, owner="worker-1")
        lease = s.lease
        info = s.info

        assert (run.id, run.owner, run.epoch, run.task, run.lost) == ("s", "worker-1", 1, "bugfix", False)
        assert lease is not None
        assert (lease.owner, lease.epoch, lease.taken_at) == ("worker-1", 1, utc(START))
        assert lease.expires_at == utc(START + 60 * SECOND)
        assert (info.status, info.epoch) == ("running", 1)
        known = run_of(s)
        assert (known.owner, known.task, known.epoch) == ("worker-1", "bugfix", 1)
        assert known.request == {"fix": "it"}
        assert "worker-1" in repr(run)
        run.complete()
        assert s.run().epoch == 2

    def test_a_lease_that_is_held_is_refused(self, timed: Store, wall: Ticking, steady: Ticking) -> None:
        """The error says who holds it, and until when; the holder is not disturbed."""
        s = timed.session("s")
        run = s.run(owner="worker-1")
        wall.now += 10 * SECOND
        steady.now += 10 * SECOND
        with pytest.raises(LeaseHeldError) as caught:
            timed.get("s").run(owner="worker-2")

        assert (caught.value.session, caught.value.owner) == ("s", "worker-1")
        assert caught.value.expires_at == utc(START + 30 * SECOND)
        assert caught.value.retryable
        run.append(user("a"))
        assert (said(s), s.info.epoch, len(s.status_changes())) == (["a"], 1, 1)

    def test_a_lease_is_refused_by_another_store_object(self, backend: Backend, real: Store) -> None:
        """What decides is in storage, not in an object."""
        run = real.session("s").run()
        with Store(backend) as other:
            with pytest.raises(LeaseHeldError):
                other.get("s").run()
            lease = other.get("s").lease
            assert lease is not None
            assert (lease.owner, lease.epoch) == (run.owner, run.epoch)
            run.complete()
            other.get("s").run().complete()

    def test_a_run_in_a_run_is_refused(self, s: Session) -> None:
        """Whoever holds the lease cannot take it again."""
        with s.run() as run:
            for ask in (run.run, s.run, s.outside_lease().run):
                with pytest.raises(LeaseHeldError):
                    ask()
            say(run, "a")
        assert (said(s), s.info.epoch) == (["a"], 1)

    def test_of_many_who_ask_at_once_one_gets_it(self, store: Store, s: Session) -> None:
        """The others are refused; each round has another epoch."""
        for number in range(1, 6):
            barrier = threading.Barrier(8)
            won: list[Run] = []
            lost: list[LeaseHeldError] = []

            def ask(
                barrier: threading.Barrier,
                won: list[Run] = won,
                lost: list[LeaseHeldError] = lost,
            ) -> None:
                barrier.wait()
                try:
                    won.append(store.get("s").run())
                except LeaseHeldError as held:
                    lost.append(held)

            in_threads(ask, [barrier] * 8)
            assert (len(won), len(lost), won[0].epoch) == (1, 7, number)
            won[0].complete()
        assert s.info.epoch == 5

    def test_a_lease_is_waited_for(self, backend: Backend, s: Session, clock: Ticking) -> None:
        """`wait=`: whoever waits gets it as soon as it is given back."""
        run = s.run(owner="first")
        asked = threading.Event()

        def tell(name: str, args: tuple[Any, ...]) -> None:
            if name == "get_record" and args[1] == "lease":
                asked.set()

        other = Store(Watched(backend, tell), clock=clock)
        got: list[Run] = []
        thread = threading.Thread(target=lambda: got.append(other.get("s").run(wait=math.inf)))
        thread.start()
        asked.wait()
        assert got == []
        run.append(user("a"))
        run.complete()
        thread.join()

        assert [one.epoch for one in got] == [2]
        assert s.info.status == "running"
        got[0].complete()
        other.close()

    def test_waiting_ends_with_a_refusal(self, s: Session) -> None:
        """When the time is up, or at once if there is none."""
        run = s.run(owner="first")
        for wait in (0, 0.02, None):
            with pytest.raises(LeaseHeldError) as caught:
                s.run(wait=wait)
            assert caught.value.owner == "first"
        run.complete()
        s.run(wait=math.inf).complete()

    def test_a_lease_can_be_stolen(self, s: Session) -> None:
        """By name only: the run that had it is interrupted, and the next one has the next epoch."""
        old = s.run("first", owner="old")
        new = s.run("second", owner="new", steal=True)
        changes = [(change.was, change.status, change.by, change.epoch) for change in s.status_changes()]

        assert (new.epoch, new.owner) == (2, "new")
        assert changes[1:] == [("running", "interrupted", "new", 1), ("interrupted", "running", "new", 2)]
        with pytest.raises(LeaseLostError) as caught:
            old.append(user("a"))
        assert (caught.value.epoch, caught.value.current_epoch, caught.value.owner) == (1, 2, "new")
        say(new, "b")
        assert said(s) == ["b"]

    @each_row(
        ("option", "bad"),
        [*(("lease", bad) for bad in BAD_LEASES), *(("wait", bad) for bad in BAD_WAITS)],
        ids=repr,
    )
    def test_a_lease_or_a_wait_that_can_not_be_is_refused(self, s: Session, option: str, bad: Any) -> None:
        """I-25: zero, negative, too short or too long, not a number; even if nobody holds the lease."""
        with pytest.raises(InvalidError) as caught:
            s.run(**{option: bad})

        assert repr(bad) in str(caught.value)
        assert (s.info.status, s.info.epoch) == ("pending", 0)

    # -- how it ends

    def test_leaving_the_block_completes_the_run(self, s: Session) -> None:
        """And gives the lease back: others may write again."""
        with s.run(owner="w") as run:
            say(run, "a")
        say(s, "b")

        assert (said(s), s.lease, status_of(s)) == (["a", "b"], None, ("completed", None))
        last = s.status_changes()[-1]
        assert (last.by, last.epoch) == ("w", 1)

    @pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), KeyboardInterrupt(), SystemExit(3)])
    def test_an_exception_fails_the_run(self, s: Session, error: BaseException) -> None:
        """It comes out as it was; its text is kept; what was written stays."""

        def work() -> None:
            with s.run() as run:
                say(run, "a")
                raise error

        with pytest.raises(type(error)) as caught:
            work()
        assert caught.value is error
        assert not hasattr(error, "__notes__")
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        assert (said(s), s.lease, status_of(s)) == (["a"], None, ("failed", text))

    @pytest.mark.parametrize("end", ["complete", "fail"])
    def test_a_run_can_be_ended_in_its_block(self, s: Session, end: str) -> None:
        """Leaving the block adds nothing; what is written through it then is refused."""
        with s.run() as run:
            getattr(run, end)("outcome")
            info = s.info
            with pytest.raises(LeaseLostError) as caught:
                run.append(user("late"))
        assert s.info == info
        assert info.status == ("completed" if end == "complete" else "failed")
        assert (caught.value.epoch, caught.value.owner, caught.value.messages) == (1, None, (user("late"),))

    def test_an_end_that_is_refused_ends_nothing(self, s: Session) -> None:
        """A response that is no JSON: the run goes on, and can be ended."""
        with s.run() as run:
            with pytest.raises(InvalidError):
                run.complete({1})
            say(run, "a")
            run.complete("done")
        assert (said(s), s.info.status) == (["a"], "completed")

    # -- deleting

    @pytest.mark.parametrize("purge", [False, True])
    def test_a_session_that_is_worked_on_is_not_deleted(self, store: Store, s: Session, purge: bool) -> None:
        """Neither by its id nor with all others, unless it is forced."""
        store.create("other")
        run = s.run(owner="w")
        removals: list[Callable[[], Any]] = [
            lambda: store.delete("s", purge=purge),
            lambda: store.clear(confirm=True, purge=purge),
        ]
        for remove in removals:
            with pytest.raises(LeaseHeldError) as caught:
                remove()
            assert (caught.value.session, caught.value.owner) == ("s", "w")
        say(run, "a")
        assert (said(s), len(store.list())) == (["a"], 2)
        run.complete()
        assert store.delete("s", purge=purge) is True

    def test_a_purge_of_everything_asks_who_works_in_the_transaction_that_purges(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """P9: somebody takes a lease right behind its first transaction, and keeps what it holds."""
        say(store.session("old"), "a")
        engine, runs = store._engine, list[Run]()
        commit = engine.run

        def run(work: Callable[..., Any]) -> Any:
            done = commit(work)
            monkeypatch.undo()
            runs.append(store.create("new").run())
            return done

        monkeypatch.setattr(engine, "run", run)
        store.clear(confirm=True, purge=True)
        say(runs[0], "b")

        assert said(store.get("new")) == ["b"]
        assert [info.id for info in store.list()] == ["new"]

    @pytest.mark.parametrize("what", ["delete", "clear"])
    def test_a_forced_deletion_takes_the_lease_away(self, store: Store, s: Session, what: str) -> None:
        """What comes back from the trash is interrupted; the worker is told."""
        run = s.run()
        if what == "delete":
            assert store.delete("s", force=True) is True
        else:
            assert store.clear(confirm=True, force=True) == 1
        with pytest.raises(SessionDeletedError):
            say(run, "a")
        again = store.restore_deleted("s")
        assert (again.info.status, again.lease) == ("interrupted", None)
        with pytest.raises(LeaseLostError):
            run.append(user("b"))
        assert again.run().epoch == 2

    def test_a_lease_that_is_over_stops_no_deletion(self, timed: Store, steady: Ticking) -> None:
        """Nobody works there any more."""
        timed.session("s").run()
        timed.create("t").run()
        steady.now += 31 * SECOND

        assert timed.delete("s") is True
        assert timed.clear(confirm=True, purge=True) == 2
