"""The sweep itself: whom it never touches, which time it goes by, what it leaves when it is stopped."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from clew.backends.contract import STORE_WIDE, Backend
from clew.core.log.lease import Lease, encode_lease
from clew.core.log.rows import SessionRow
from clew.core.retention.sweep import look
from clew.errors import InvalidError, LeaseHeldError
from clew.model import Retention
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import START, Ticking, said, say
from tests.behaviour.values import DAY, HOUR, ONE_DAY
from tests.behaviour.views import done, due
from tests.support.rows import each_row
from tests.support.storage import Watched
from tests.support.waiting import until


class TestSweep:
    """A sweep removes nothing early, nothing that somebody needs, and nothing half."""

    # -- what is never touched

    def test_a_leased_session_is_never_touched(self, store: Store, clock: Ticking) -> None:
        """Neither expired nor trashed nor trimmed, whatever its age; when the run ends, the rules apply."""
        s = store.create("s")
        say(s, "a", "b", "c")
        clock.now += 9 * DAY
        everything = Retention(
            lifetime=ONE_DAY, max_idle=timedelta(microseconds=1), max_bytes=1, max_messages=1,
            message_age=ONE_DAY, trash_expired=True,
        )  # fmt: skip
        store.set_retention(everything)
        with s.run(lease=30) as run:
            assert store.sweep(dry_run=True).actions == ()
            assert store.sweep().actions == ()
            assert (said(run), run.info.status) == (["a", "b", "c"], "running")
        clock.now += HOUR
        assert done(store.sweep())[:2] == [("expire", "s"), ("trash", "s")]

    def test_a_run_whose_holder_is_gone_is_interrupted(self, store: Store, clock: Ticking) -> None:
        """Its lease is over: the sweep says so, and the next one applies the rules."""
        s = store.create("s")
        _desert(store, s, clock)
        store.set_retention(Retention(lifetime=ONE_DAY))
        clock.now += 2 * DAY

        assert done(store.sweep(dry_run=True)) == [("interrupt", "s")]
        assert done(store.sweep()) == [("interrupt", "s")]
        assert s.info.status == "interrupted"
        assert done(store.sweep()) == [("expire", "s")]

    def test_a_tag_exempts_from_every_rule(self, store: Store, clock: Ticking) -> None:
        """Also in the trash; taking the tag away ends it."""
        for id in ("kept", "trashed"):
            say(store.create(id, tags=["x", "keep"]), "a", "b")
        store.delete("trashed")
        store.set_retention(
            Retention(
                lifetime=ONE_DAY, max_idle=ONE_DAY, max_sessions=1, max_bytes=1, max_messages=1,
                message_age=ONE_DAY, silent_after=ONE_DAY, purge_after=ONE_DAY, trash_expired=True,
                keep_tags=("keep",),
            )
        )  # fmt: skip
        clock.now += 9 * DAY
        assert store.sweep().actions == ()
        assert said(store.get("kept")) == ["a", "b"]

        store.get("kept").update(tags=["x"])
        assert ("trash", "kept") in done(store.sweep())

    def test_what_is_not_due_is_not_touched(self, backend: Backend, clock: Ticking) -> None:
        """A sweep with nothing to do looks at no session and writes to none."""
        asked: list[tuple[str, tuple[Any, ...]]] = []
        watched = Watched(backend, lambda name, args: asked.append((name, args)))
        with Store(watched, clock=clock) as store:
            for number in range(30):
                say(store.create(f"s{number}"), "a")
            store.set_retention(Retention(idle_timeout=ONE_DAY, message_age=ONE_DAY, max_messages=5))
            assert store.sweep().examined == 30
            clock.now += HOUR
            asked.clear()

            assert store.sweep().examined == 0
            per_session = {"get_session", "get_details", "read_entries", "tree_sessions", "read_messages"}
            assert per_session.isdisjoint(name for name, _ in asked)

    # -- rules for one sweep

    def test_rules_can_hold_for_one_sweep(self, store: Store, clock: Ticking) -> None:
        """Whatever the store has; a dry run says the same and writes nothing; they are not kept."""
        kept = Retention(lifetime=timedelta(days=100))
        store.set_retention(kept)
        old, new = store.create("old"), store.create("new", tags=["keep"])
        say(old, "a", "b")
        store.delete(store.create("in the trash").id)
        store.sweep()
        dues = due(store, "old"), due(store, "new")
        clock.now += 9 * DAY
        once = Retention(max_idle=ONE_DAY, purge_after=ONE_DAY, keep_tags=("keep",))
        planned = store.sweep(rules=once, dry_run=True)
        assert done(planned) == [("purge", "in the trash"), ("trash", "old")]
        assert (planned.examined, due(store, "old"), due(store, "new")) == (3, *dues)
        assert store.list(deleted=True)[0].id == "in the trash"
        report = store.sweep(rules=once)

        assert (done(report), report.examined) == (done(planned), 3)
        assert [info.id for info in store.list()] == [new.id]
        assert [line.verb for line in store.removals()] == ["trash", "purge"]
        assert store.retention == kept
        assert due(store, "new") == dues[1]
        assert store.sweep().actions == ()

    def test_one_sweep_leaves_the_rules_of_the_store_their_turn(self, store: Store, clock: Ticking) -> None:
        """What it changed they look at anew, and they find all that was not swept by them."""
        store.set_retention(Retention(max_messages=1, purge_after=timedelta(days=2)))
        store.sweep()
        gone, s = store.create("gone"), store.create("s")
        say(s, "a", "b", "c")
        clock.now += DAY
        say(s, "d")
        assert done(store.sweep(rules=Retention(max_idle=timedelta(hours=23)))) == [("trash", gone.id)]
        assert done(store.sweep()) == [("remove_messages", "s")]
        clock.now += 3 * DAY
        assert done(store.sweep()) == [("purge", gone.id)]

    def test_one_sweep_removes_messages(self, store: Store, s: Session) -> None:
        """Of every session, also if none was written to since the last sweep."""
        say(s, *"abcd")
        store.sweep()
        assert store.sweep(rules=Retention(max_messages=2), dry_run=True).actions[0].messages == 2
        assert said(s) == [*"abcd"]
        store.sweep(rules=Retention(max_messages=2))
        assert said(s) == ["c", "d"]
        assert store.retention == Retention()

    def test_one_sweep_looks_at_every_page_of_sessions(
        self, store: Store, clock: Ticking, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """None is passed over because others go."""
        monkeypatch.setattr("clew.core.retention.sweep.BATCH", 2)
        for number in range(5):
            store.create(f"old {number}")
            store.delete(store.create(f"trash {number}").id)
        clock.now += 2 * DAY
        store.create("new")
        report = store.sweep(rules=Retention(max_idle=ONE_DAY, purge_after=ONE_DAY))

        assert report.examined == 11
        assert sorted(done(report)) == sorted(
            [("trash", f"old {number}") for number in range(5)]
            + [("purge", f"trash {number}") for number in range(5)]
        )
        assert [info.id for info in store.list()] == ["new"]

    @pytest.mark.parametrize("bad", ["rules", Retention(max_events=1), Retention(max_messages=0)], ids=repr)
    def test_bad_rules_for_one_sweep_are_refused(self, store: Store, s: Session, bad: Any) -> None:
        """Before anything is done; also `max_events`, which no sweep applies."""
        for dry_run in (False, True):
            with pytest.raises(InvalidError):
                store.sweep(rules=bad, dry_run=dry_run)

    def test_a_rule_that_is_set_again_makes_nothing_due(self, store: Store, s: Session) -> None:
        """Programs set their rules whenever they start."""
        store.set_retention(Retention(idle_timeout=ONE_DAY))
        store.sweep()
        before = due(store, "s")
        store.set_retention(Retention(idle_timeout=ONE_DAY))
        assert due(store, "s") == before > START

    # -- time

    @pytest.mark.parametrize("jump", [DAY, -DAY, 400 * DAY])
    def test_f25_a_clock_that_jumps_removes_nothing_early(
        self, backend: Backend, clock: Ticking, jump: int
    ) -> None:
        """The machine's own clock tells that no day has passed; the report tells how far it is off."""
        steady = Ticking(5 * DAY)
        store = Store(backend, clock=clock, steady=steady)
        say(store.create("s"), "a")
        say(store.create("t"), "a")
        store.delete("t")
        store.set_retention(
            Retention(
                idle_timeout=timedelta(hours=2),
                max_idle=timedelta(hours=3),
                purge_after=timedelta(hours=4),
                message_age=timedelta(hours=2),
            )
        )
        store.sweep()
        # Another process: within one, time does not go back anyway.
        wrong = Ticking(clock.now + jump + HOUR)
        steady.now += HOUR
        with Store(backend, clock=wrong, steady=steady) as store:
            report = store.sweep()
            assert report.actions == ()
            assert abs(report.clock_off_by - timedelta(microseconds=jump)) < timedelta(seconds=1)
            wrong.now += 2 * HOUR
            steady.now += 2 * HOUR
            assert {verb for verb, _ in done(store.sweep())} == {"expire", "trash", "remove_messages"}
            assert store.stats().deleted == 2

    # -- sweeping

    def test_a_dry_run_tells_and_writes_nothing(self, store: Store, clock: Ticking) -> None:
        """It says what the sweep after it does, word for word."""
        store.create("silent")
        for number in range(5):
            say(store.create(f"s{number}"), *"abcdef")
        store.delete("s4")
        store.set_retention(
            Retention(
                silent_after=ONE_DAY, purge_after=ONE_DAY, max_sessions=3, max_messages=2, lifetime=ONE_DAY
            )
        )
        clock.now += 2 * DAY
        with store._engine.read() as reader:
            before = reader.due_sessions(clock.now, 99)

        dry = store.sweep(dry_run=True)

        with store._engine.read() as reader:
            assert reader.due_sessions(clock.now, 99) == before
            assert reader.scan_records(STORE_WIDE, "lease") == []
        assert store.removals() == []
        assert {action.verb for action in dry.actions} == {"expire", "trash", "purge", "remove_messages"}
        real = store.sweep()
        assert (dry.dry_run, real.dry_run) == (True, False)
        assert (dry.actions, dry.examined) == (real.actions, real.examined)

    def test_two_do_not_sweep_at_once(self, store: Store, backend: Backend, clock: Ticking) -> None:
        """The second one is told who sweeps; a dry run does no harm; a lease that ended is nobody's."""
        host = store._engine.host
        now = host.moment()
        lease = Lease(
            1, 5, "other", 60_000_000, now.wall, now.domain, now.steady + 60_000_000, now.wall + 60_000_000
        )
        with backend.write() as tx:
            tx.put_record(STORE_WIDE, "lease", "sweep", encode_lease(lease))

        with pytest.raises(LeaseHeldError, match="other holds the lease of this store to sweep it") as held:
            store.sweep()
        assert held.value.session is None
        assert store.sweep(dry_run=True).actions == ()
        clock.now += 62_000_000
        assert store.sweep().actions == ()
        assert store.sweep().actions == ()

    @pytest.mark.parametrize("change", ["append", "run", "tag"])
    def test_what_changes_while_a_sweep_looks_at_it_stays(
        self, store: Store, s: Session, clock: Ticking, monkeypatch: pytest.MonkeyPatch, change: str
    ) -> None:
        """What was decided from a look is done only if the session is still as it was."""
        store.set_retention(Retention(max_idle=ONE_DAY, keep_tags=("keep",)))
        clock.now += 2 * DAY

        def overtaken(*args: Any) -> Any:
            found = look(*args)
            match change:
                case "append":
                    say(s, "wait")
                case "run":
                    s.start("work")
                case "tag":
                    s.update(tags=["keep"])
            return found

        monkeypatch.setattr("clew.core.retention.sweep.look", overtaken)
        assert store.sweep().actions == ()
        monkeypatch.undo()
        assert store.sweep().actions == ()
        assert s.info.deleted_at is None

    def test_an_interrupted_sweep_leaves_nothing_locked(
        self, store: Store, clock: Ticking, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ctrl-C half-way: what was done is done, and the next sweep goes on."""
        for number in range(4):
            store.create(f"s{number}")
        store.set_retention(Retention(lifetime=ONE_DAY))
        clock.now += 2 * DAY
        looks: list[str] = []

        def interrupted(read: Any, row: SessionRow, *args: Any) -> Any:
            looks.append(row.id)
            if len(looks) == 3:
                raise KeyboardInterrupt
            return look(read, row, *args)

        monkeypatch.setattr("clew.core.retention.sweep.BATCH", 2)
        monkeypatch.setattr("clew.core.retention.sweep.look", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.sweep()
        assert [store.get(f"s{number}").info.status for number in range(4)] == [
            "expired", "expired", "pending", "pending",
        ]  # fmt: skip
        assert done(store.sweep()) == [("expire", "s2"), ("expire", "s3")]

    def test_maintenance_sweeps_until_it_is_stopped(self, store: Store, clock: Ticking) -> None:
        """Stopping it twice is fine; closing the store stops it too."""
        store.create("s")
        store.set_retention(Retention(lifetime=ONE_DAY))
        clock.now += 2 * DAY
        with store.maintain(every=0.001) as maintenance:
            until(lambda: maintenance.last_report)
        assert store.get("s").info.status == "expired"
        assert maintenance.last_error is None
        maintenance.stop()
        assert not maintenance.is_running
        another = store.maintain(every=1000)
        store.close()
        assert not another.is_running

    @each_row("every", [0, -1.0, True, float("nan"), float("inf"), "5", None])
    def test_i25_a_pause_that_makes_no_sense_is_refused(self, store: Store, every: Any) -> None:
        """By maintenance and by those who watch; the error names the value."""
        for call in (store.maintain, store.watch):
            with pytest.raises(InvalidError, match="every"):
                call(every=every)


def _desert(store: Store, session: Session, clock: Ticking) -> None:
    """Leave a run behind as a killed worker does: the lease is there, and nobody renews it."""
    session.start("work")
    now = store._engine.host.moment()
    lease = Lease(1, 77, "worker", 1, now.wall, now.domain, now.steady + 1, now.wall + 1)
    with store._engine.backend.write() as tx:
        row = tx.find_session(session.id)
        assert row is not None
        tx.put_record(row.sid, "lease", "", encode_lease(lease))
        tx.set_session(msgspec.structs.replace(row, fence=77, epoch=1))
