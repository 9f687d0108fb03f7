"""Leases and time: when one is over, what keeps it, and which clock is believed."""

from __future__ import annotations

import gc
import time
import weakref

import msgspec
import pytest

from clew.backends.contract import Backend
from clew.core.log.lease import Holder
from clew.errors import LeaseHeldError, LeaseLostError, StoreClosedError
from clew.model import utc
from clew.run import Heartbeat, Run
from clew.store import Store
from clew.testing.backend.base import START, Ticking, said, say, user
from tests.behaviour.values import DAY, SECOND
from tests.support.waiting import until


def let_time_pass(run: Run | Heartbeat, seconds: float) -> Heartbeat:
    """Let the thread that renews leases believe that it is so much later than it is."""
    heartbeat = run._heartbeat if isinstance(run, Run) else run
    assert heartbeat is not None
    until(lambda: heartbeat._due)  # what was just renewed is scheduled again a moment later
    with heartbeat._changed:
        heartbeat.clock = lambda: time.monotonic() + seconds
        heartbeat._changed.notify_all()
    return heartbeat


class TestLeaseTime:
    """P9, P10, F-25: time decides when the next one may take over, and nothing else."""

    # -- time

    def test_a_lease_ends_when_its_time_is_over(self, timed: Store, wall: Ticking, steady: Ticking) -> None:
        """Not a moment before, for somebody else who wants it or who writes."""
        s = timed.session("s")
        s.run(lease=30, owner="frozen")
        steady.now += 30 * SECOND
        with pytest.raises(LeaseHeldError):
            s.run()
        assert s.lease is not None
        steady.now += 1
        assert s.lease is None
        assert s.run(owner="next").epoch == 2
        assert [change.status for change in s.status_changes()] == ["running", "interrupted", "running"]

    def test_a_plain_write_ends_a_lease_that_is_over(self, timed: Store, steady: Ticking) -> None:
        """Its run is interrupted, and its holder cannot come back to it (F-24)."""
        s = timed.session("s")
        run = s.run()
        steady.now += 31 * SECOND
        say(s, "a")
        assert (s.info.status, s.info.epoch, s.lease) == ("interrupted", 1, None)
        with pytest.raises(LeaseLostError) as caught:
            run.append(user("b"), user("c"))
        assert (caught.value.epoch, caught.value.current_epoch, caught.value.owner) == (1, 1, None)
        assert caught.value.messages == (user("b"), user("c"))
        assert said(s) == ["a"]

    def test_a_lease_that_nobody_wanted_is_still_there(self, timed: Store, steady: Ticking) -> None:
        """A holder that slept too long goes on, if nobody came meanwhile."""
        s = timed.session("s")
        with s.run() as run:
            steady.now += DAY
            assert s.lease is None
            say(run, "a")
        assert (said(s), s.info.status, s.info.epoch) == (["a"], "completed", 1)

    @pytest.mark.parametrize("jump", [365 * DAY, 3600 * SECOND, -3600 * SECOND, -365 * DAY])
    def test_the_clock_on_the_wall_decides_nothing(
        self, timed: Store, wall: Ticking, steady: Ticking, jump: int
    ) -> None:
        """F-25: set forth, no lease is stolen; set back, none is kept for ever."""
        s = timed.session("s")
        s.run(lease=30)
        wall.now += jump
        with pytest.raises(LeaseHeldError) as caught:
            s.run()
        expected = START + max(jump, 0) + 30 * SECOND  # it is not believed when it goes back
        assert caught.value.expires_at == utc(expected)
        steady.now += 30 * SECOND + 1
        assert s.run().epoch == 2

    def test_without_a_clock_in_common_the_wall_decides_with_a_grace(
        self, backend: Backend, timed: Store, wall: Ticking
    ) -> None:
        """A machine that tells nothing of itself: a lease holds for one second longer."""
        if backend.clock() is not None:
            pytest.skip("this storage has a clock for all")
        timed._engine.host.me, timed._engine.host.domain = Holder(), ""
        s = timed.session("s")
        s.run(lease=30)
        wall.now += 31 * SECOND
        with pytest.raises(LeaseHeldError):
            s.run()
        wall.now += 1
        assert s.run().epoch == 2

    def test_the_lease_of_a_process_that_is_gone_is_over_at_once(self, timed: Store) -> None:
        """P10: on the same machine, whatever time is left; its number may be given out again."""
        me = timed._engine.host.me
        if not me.started:
            pytest.skip("this machine does not tell when a process began")
        s = timed.session("s")
        timed._engine.host.me = msgspec.structs.replace(me, started="1")
        run = s.run(owner="killed")
        timed._engine.host.me = me

        assert s.lease is None
        assert [found.id for found in timed.interrupted()] == ["s"]
        assert s.run(owner="next").epoch == 2
        with pytest.raises(LeaseLostError):
            say(run, "a")

    def test_interrupted_runs_are_found(self, timed: Store, steady: Ticking) -> None:
        """Those whose lease is over, and no others; asking twice changes nothing."""
        for id in ("frozen", "alive", "plain", "done", "idle"):
            timed.create(id)
        frozen = timed.get("frozen").run()
        timed.get("plain").start()
        timed.get("done").run().complete()
        assert timed.interrupted() == []
        steady.now += 31 * SECOND
        timed.get("alive").run()
        for _ in range(2):
            assert [s.id for s in timed.interrupted()] == ["frozen"]
        statuses = {info.id: info.status for info in timed.list()}

        assert statuses == {
            "frozen": "interrupted", "alive": "running", "plain": "running", "done": "completed",
            "idle": "pending",
        }  # fmt: skip
        with pytest.raises(LeaseLostError):
            frozen.complete()
        assert len(timed.get("frozen").status_changes()) == 2

    # -- the heartbeat

    def test_a_lease_is_renewed_while_its_run_lasts(
        self, timed: Store, wall: Ticking, steady: Ticking
    ) -> None:
        """By a thread of its own, after a third of its time: its worker need not do anything."""
        s = timed.session("s")
        with s.run(lease=30) as run:
            for beat in range(1, 4):
                wall.now += 10 * SECOND
                steady.now += 10 * SECOND
                let_time_pass(run, beat * 10)
                expected = utc(START + (30 + beat * 10) * SECOND)
                until(lambda: s.lease and s.lease.expires_at == expected)  # noqa: B023 (called at once)
            say(run, "a")
            assert (run.lost, s.info.epoch, s.info.status) == (False, 1, "running")
        assert s.info.status == "completed"

    def test_a_run_that_nobody_holds_is_not_renewed(
        self, timed: Store, wall: Ticking, steady: Ticking
    ) -> None:
        """A worker that forgot its run does not block the session for ever."""
        s, other = timed.session("s"), timed.session("other")
        run = s.run(lease=30)
        heartbeat, known = let_time_pass(run, 0), weakref.ref(run)
        del run
        gc.collect()
        until(lambda: known() is None)
        with other.run(lease=30):  # renewed together with it, if that is renewed
            wall.now += SECOND
            steady.now += SECOND
            let_time_pass(heartbeat, 11)
            until(lambda: other.lease and other.lease.expires_at == utc(START + 31 * SECOND))
            steady.now += 29 * SECOND + 1
            assert (s.lease is None, other.lease is None) == (True, False)

        assert [found.id for found in timed.interrupted()] == ["s"]

    def test_a_worker_is_told_that_its_lease_was_taken(self, timed: Store) -> None:
        """`lost` becomes true with the next heartbeat; the heartbeat takes nothing back."""
        s = timed.session("s")
        run = s.run(lease=30)
        assert run.lost is False
        thief = s.run(steal=True)
        let_time_pass(run, 10)
        until(lambda: run.lost)
        say(thief, "a")
        assert (s.info.epoch, thief.lost) == (2, False)

    def test_a_store_closes_with_a_run_open(self, real: Store) -> None:
        """The lease is left to run out; no thread stays behind."""
        run = real.session("s").run()
        assert run._heartbeat is not None
        thread = run._heartbeat._thread
        assert thread is not None
        real.close()

        assert not thread.is_alive()
        with pytest.raises(StoreClosedError):
            say(run, "a")
