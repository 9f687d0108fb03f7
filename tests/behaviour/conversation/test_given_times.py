"""Times that are given: histories that were made elsewhere, and are brought over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

import pytest

from clew.errors import InvalidError
from clew.model import Retention, utc
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, said, say, user
from clew.testing.chain import check_store
from tests.support.rows import each_row

LONG_AGO: Final = datetime(2019, 5, 1, 12, 30, 0, 123456, tzinfo=UTC)
DAY: Final = timedelta(days=1)

BAD: Final[dict[str, Any]] = {
    "without a zone": datetime(2019, 5, 1),  # noqa: DTZ001 (that is what is refused)
    "text": "2019-05-01T00:00:00Z",
    "number": 1_556_668_800,
    "before 1970": datetime(1969, 12, 31, tzinfo=UTC),
}


class TestGivenTimes:
    """Entries and sessions may bear another time than now; nothing but what is said of time depends on it."""

    def test_entries_bear_the_time_that_is_given(self, store: Store, s: Session, clock: Ticking) -> None:
        """To the microsecond, whatever the zone; those after them bear the clock's again."""
        entries = s.append(user("a"), user("b"), at=LONG_AGO)
        (later,) = s.append(user("c"))

        assert [entry.time for entry in entries] == [LONG_AGO, LONG_AGO]
        assert later.time == utc(clock.now)
        assert [entry.time for entry in s.entries()] == [LONG_AGO, LONG_AGO, later.time]
        elsewhere = LONG_AGO.astimezone(timezone(timedelta(hours=-7)))
        assert s.append(user("d"), at=elsewhere)[0].time == LONG_AGO
        check_store(store)

    def test_the_order_is_that_of_the_appends(self, s: Session) -> None:
        """Whatever the times are."""
        for number, text in enumerate("abc"):
            s.append(user(text), at=LONG_AGO - number * DAY)
        s.rewind(1)
        s.append(user("d"), at=LONG_AGO - 9 * DAY)

        assert said(s) == ["a", "b", "d"]
        assert [entry.position for entry in s.entries()] == [0, 1, 2]

    def test_a_session_bears_the_time_that_is_given(self, store: Store) -> None:
        """It is its last activity too, until there is a newer one."""
        made = store.create("made", created_at=LONG_AGO)
        got = store.session("got", created_at=LONG_AGO + DAY)
        assert store.session("got", created_at=LONG_AGO) == got
        new = store.create("new")

        assert (made.info.created_at, made.info.updated_at) == (LONG_AGO, LONG_AGO)
        assert got.info.created_at == LONG_AGO + DAY
        assert [info.id for info in store.list()] == [new.id, "got", "made"]
        made.append(user("a"), at=LONG_AGO + 2 * DAY)
        assert made.info.updated_at == LONG_AGO + 2 * DAY
        assert [info.id for info in store.list()] == [new.id, "made", "got"]
        made.append(user("b"), at=LONG_AGO + DAY)
        assert made.info.updated_at == LONG_AGO + 2 * DAY
        say(made, "now")
        assert [info.id for info in store.list()] == ["made", new.id, "got"]

    def test_a_session_is_put_here_whether_it_is_new_or_not(self, store: Store, clock: Ticking) -> None:
        """Settings and last activity in one call; activity only moves forward, and never past the clock."""
        made = store.upsert("s", updated_at=LONG_AGO, title="first", tags=["x"])
        assert (made.info.created_at, made.info.updated_at) == (LONG_AGO, LONG_AGO)
        again = store.upsert("s", created_at=LONG_AGO - DAY, updated_at=LONG_AGO + DAY, title=None, model="m")
        info = again.info

        assert (info.title, info.tags, info.model) == (None, ("x",), "m")
        assert (info.created_at, info.updated_at) == (LONG_AGO, LONG_AGO + DAY)
        store.upsert("s", updated_at=LONG_AGO)
        assert store.get("s").info.updated_at == LONG_AGO + DAY
        store.upsert("s", updated_at=LONG_AGO + 90_000 * DAY)
        assert LONG_AGO + DAY < store.get("s").info.updated_at < LONG_AGO + 90_000 * DAY
        again.add_alias("other name")
        assert store.upsert("other name", title="second") == again
        made = store.upsert("t", created_at=LONG_AGO - DAY, updated_at=LONG_AGO)
        assert (made.info.created_at, made.info.updated_at) == (LONG_AGO - DAY, LONG_AGO)
        with pytest.raises(InvalidError):
            store.upsert("t", updated_at=LONG_AGO.replace(tzinfo=None))

    def test_an_old_message_is_no_new_activity(self, store: Store, s: Session) -> None:
        """A session that was active later stays where it is in the list."""
        store.create("newer")
        before = s.info.updated_at
        s.append(user("a"), at=LONG_AGO)
        assert (s.info.updated_at, store.list(limit=1)[0].id) == (before, "newer")

    def test_what_is_to_come_is_no_activity(self, store: Store, s: Session, clock: Ticking) -> None:
        """The entry bears its time; the session is not ahead of the clock."""
        future = utc(clock.now) + 9 * DAY
        (entry,) = s.append(user("a"), at=future)
        made = store.create("made", created_at=future)

        assert (entry.time, made.info.created_at) == (future, future)
        assert s.info.updated_at <= made.info.updated_at <= utc(clock.now)

    def test_a_key_stands_for_the_batch_whatever_its_time(self, s: Session) -> None:
        """Repeated, it gives back what was written first."""
        first = s.append(user("a"), key="k", at=LONG_AGO)
        assert s.append(user("a"), key="k", at=LONG_AGO + DAY) == s.append(user("a"), key="k") == first

    def test_runs_and_appends_that_nobody_waits_for_take_a_time_too(self, store: Store, s: Session) -> None:
        """All ways to append are alike."""
        with s.run() as run:
            run.append(user("a"), at=LONG_AGO)
            run.append_nowait(user("b"), at=LONG_AGO + DAY)
        s.append_nowait(user("c"), at=LONG_AGO + 2 * DAY)
        store.flush()

        assert [entry.time for entry in s.entries()] == [LONG_AGO, LONG_AGO + DAY, LONG_AGO + 2 * DAY]

    def test_rules_go_by_the_times_that_are_given(self, store: Store, clock: Ticking) -> None:
        """A sweep finds what became old by being brought over after the last one."""
        store.set_retention(Retention(message_age=100 * DAY))
        s = store.create("s", created_at=LONG_AGO)
        say(s, "new")
        store.sweep()
        old = store.create("old", created_at=LONG_AGO)
        old.append(user("a"), at=utc(clock.now) - 50 * DAY)
        store.sweep()
        old.rewind(0)
        old.clear()
        old.append(user("b"), at=LONG_AGO)
        store.sweep()

        assert (said(s), said(old)) == (["new"], [])

    @each_row("bad", BAD.values(), ids=BAD.keys())
    def test_a_bad_time_is_refused(self, store: Store, s: Session, bad: Any) -> None:
        """With the value; nothing is written, also by those who do not wait."""
        writes: list[Any] = [
            lambda: s.append(user("a"), at=bad),
            lambda: s.append(at=bad),
            lambda: s.append_nowait(user("a"), at=bad),
            lambda: store.create("x", created_at=bad),
            lambda: store.session("x", created_at=bad),
            lambda: store.session("s", created_at=bad),
        ]
        for write in writes:
            with pytest.raises(InvalidError) as caught:
                write()
            assert repr(bad) in str(caught.value)
        store.flush()

        assert (said(s), [info.id for info in store.list()]) == ([], ["s"])
