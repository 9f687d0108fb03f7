"""Expiry, the trash and the purge: what a sweep does with whole sessions, and what it never does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from clew.backends.contract import Backend
from clew.errors import InvalidError
from clew.model import Retention, utc
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import START, Ticking, said, say
from tests.behaviour.values import DAY, HOUR, ONE_DAY
from tests.behaviour.views import done
from tests.support.rows import each_row


class TestExpiry:
    """Sessions expire, go to the trash and are purged by rules that somebody set, and never early."""

    # -- the rules

    def test_p22_retention_is_off_by_default(self, store: Store, s: Session, clock: Ticking) -> None:
        """Nobody set a rule: a sweep does nothing, however old a session is."""
        say(s, "a")
        clock.now += 1000 * DAY

        assert store.retention == Retention()
        assert store.sweep().actions == ()
        assert (s.info.status, said(s)) == ("pending", ["a"])
        assert store.removals() == []

    def test_rules_are_kept_in_the_store(self, store: Store, backend: Backend, clock: Ticking) -> None:
        """Whoever opens the store has the same rules; Retention() switches everything off."""
        rules = Retention(
            idle_timeout=timedelta(days=1, microseconds=1),
            lifetime=timedelta(days=36525),
            trash_expired=True,
            max_bytes=2**62,
            max_events=1,
            keep_tags=("keep", "é"),
        )
        store.set_retention(rules)

        assert Store(backend, clock=clock).retention == rules
        store.set_retention(Retention())
        assert store.retention == Retention()

    @each_row(
        ("field", "value"),
        [
            ("idle_timeout", timedelta(0)),
            ("lifetime", timedelta(microseconds=-1)),
            ("max_idle", timedelta(days=36526)),
            ("silent_after", 5),
            ("purge_after", float("nan")),
            ("message_age", "1d"),
            ("max_sessions", 0),
            ("max_bytes", True),
            ("max_messages", 1.5),
            ("max_message_bytes", -1),
            ("max_events", 2**63),
            ("trash_expired", 1),
            ("keep_tags", "tag"),
            ("keep_tags", ("",)),
        ],
    )
    def test_i25_a_rule_that_makes_no_sense_is_refused(self, store: Store, field: str, value: Any) -> None:
        """The error names the field, and the rules before stay in force."""
        store.set_retention(Retention(max_sessions=7))
        with pytest.raises(InvalidError, match=field):
            store.set_retention(Retention(**{field: value}))
        assert store.retention == Retention(max_sessions=7)

    def test_only_a_retention_is_a_set_of_rules(self, store: Store) -> None:
        """A dict would be accepted with its misspelled keys."""
        with pytest.raises(InvalidError, match="dict"):
            store.set_retention({"max_sessions": 7})  # type: ignore[arg-type]

    # -- expiry

    def test_a_session_expires_after_its_idle_timeout(self, store: Store, s: Session, clock: Ticking) -> None:
        """The status says so, with who and when; nothing else changes, the time of activity neither."""
        say(s, "a")
        store.set_retention(Retention(idle_timeout=ONE_DAY))
        before = s.info
        clock.now += DAY - HOUR
        assert store.sweep().actions == ()
        clock.now += 2 * HOUR

        report = store.sweep()

        assert done(report) == [("expire", "s")]
        assert s.info == msgspec.structs.replace(before, status="expired")
        assert [(change.status, change.by, change.at) for change in s.status_changes()] == [
            ("expired", "clew sweep", report.at)
        ]
        assert store.sweep().actions == ()

    def test_activity_renews_an_idle_timeout(self, store: Store, s: Session, clock: Ticking) -> None:
        """It counts from the last activity, though an append says nothing to the sweep."""
        store.set_retention(Retention(idle_timeout=ONE_DAY))
        for number in range(4):
            clock.now += DAY - HOUR
            say(s, "still here") if number % 2 else s.touch()
            assert store.sweep().actions == ()
        clock.now += DAY + HOUR
        assert done(store.sweep()) == [("expire", "s")]

    def test_a_lifetime_is_not_renewed(self, store: Store, s: Session, clock: Ticking) -> None:
        """It counts from the creation, active or not."""
        store.set_retention(Retention(lifetime=ONE_DAY))
        clock.now += DAY - HOUR
        say(s, "a")
        assert store.sweep().actions == ()
        clock.now += HOUR
        assert done(store.sweep()) == [("expire", "s")]

    def test_a_session_may_have_its_own_end(self, store: Store, clock: Ticking) -> None:
        """Its own expiry and its own idle timeout come before those of the store."""
        store.set_retention(Retention(lifetime=ONE_DAY, idle_timeout=ONE_DAY))
        store.create("ended").update(expires_at=utc(START + HOUR))
        store.create("short").update(idle_timeout=3600.0)
        store.create("later").update(expires_at=utc(START + 9 * DAY), idle_timeout=timedelta(days=9))
        store.create("never").update(expires_at="never")

        clock.now = START + 2 * HOUR
        assert sorted(done(store.sweep())) == [("expire", "ended"), ("expire", "short")]
        clock.now = START + 8 * DAY
        assert done(store.sweep()) == []
        clock.now = START + 10 * DAY
        assert done(store.sweep()) == [("expire", "later")]
        assert store.get("never").info.status == "pending"

    def test_its_own_end_needs_no_rule_of_the_store(self, store: Store, s: Session, clock: Ticking) -> None:
        """Also when it is set long after a sweep has looked at the session."""
        store.sweep()
        s.update(expires_at=datetime.fromtimestamp(START / 1e6, UTC) + ONE_DAY)
        assert store.sweep().actions == ()
        clock.now += 2 * DAY
        assert done(store.sweep()) == [("expire", "s")]

    def test_ended_runs_expire_and_closed_sessions_do_not(self, store: Store, clock: Ticking) -> None:
        """Expired may follow pending, completed and failed, nothing else."""
        store.set_retention(Retention(idle_timeout=ONE_DAY))
        for id in ("completed", "failed", "closed", "running"):
            store.create(id).start("work")
        store.get("completed").complete("ok")
        store.get("failed").fail("no")
        store.get("closed").complete("ok")
        store.get("closed").close()
        clock.now += 9 * DAY

        assert sorted(done(store.sweep())) == [("expire", "completed"), ("expire", "failed")]
        assert {id: store.get(id).info.status for id in ("closed", "running")} == {
            "closed": "closed",
            "running": "running",
        }

    # -- the trash

    def test_expired_sessions_go_to_the_trash_if_a_rule_says_so(
        self, store: Store, s: Session, clock: Ticking
    ) -> None:
        """In the same sweep; from there they can be restored, and then they are expired."""
        say(s, "a")
        store.set_retention(Retention(idle_timeout=ONE_DAY, trash_expired=True))
        clock.now += 2 * DAY

        assert done(store.sweep()) == [("expire", "s"), ("trash", "s")]
        assert store.find("s") is None
        restored = store.restore_deleted("s")
        assert (said(restored), restored.info.status) == (["a"], "expired")

    def test_what_was_active_after_it_expired_stays(self, store: Store, s: Session, clock: Ticking) -> None:
        """Until it was idle for as long again."""
        store.set_retention(Retention(idle_timeout=ONE_DAY))
        clock.now += 2 * DAY
        assert done(store.sweep()) == [("expire", "s")]
        say(s, "wait")
        store.set_retention(Retention(idle_timeout=ONE_DAY, trash_expired=True))

        assert store.sweep().actions == ()
        clock.now += DAY + HOUR
        assert done(store.sweep()) == [("trash", "s")]

    def test_max_idle_is_for_closed_sessions_too(self, store: Store, clock: Ticking) -> None:
        """And for those that never expire: it says what is kept, not what may be worked on."""
        store.create("closed").close()
        store.create("never").update(expires_at="never")
        store.create("busy")
        store.set_retention(Retention(max_idle=ONE_DAY))
        clock.now += 2 * DAY
        say(store.get("busy"), "a")

        assert sorted(done(store.sweep())) == [("trash", "closed"), ("trash", "never")]

    def test_the_trash_is_emptied_after_its_time(self, store: Store, clock: Ticking) -> None:
        """Counted from the deletion, whoever deleted; forks keep what they share."""
        base = store.create("base")
        say(base, "a", "b")
        base.fork("fork")
        store.set_retention(Retention(purge_after=ONE_DAY))
        clock.now += 5 * DAY
        store.delete("base")
        assert store.sweep().actions == ()
        clock.now += DAY + HOUR

        assert done(store.sweep()) == [("purge", "base")]
        assert (store.stats().deleted, said(store.get("fork"))) == (0, ["a", "b"])

    def test_a_restored_session_starts_anew(self, store: Store, s: Session, clock: Ticking) -> None:
        """Its purge is off."""
        store.set_retention(Retention(purge_after=ONE_DAY))
        store.delete("s")
        store.sweep()
        store.restore_deleted("s")
        clock.now += 2 * DAY
        assert store.sweep().actions == ()
        assert store.get("s").info.deleted_at is None
