"""Retention: too many sessions, sessions in which nobody spoke, messages that are removed; the log of it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from clew.backends.contract import Backend
from clew.core.log.rows import NOT_DUE
from clew.errors import CorruptEntryError
from clew.model import Json, Retention
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, assistant, calling, result, say, system
from tests.behaviour.values import DAY, HOUR, ONE_DAY
from tests.behaviour.views import done, due

IMAGE: dict[str, Json] = {
    "role": "user",
    "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0"}}
    ],
}


class TestRetention:
    """Sessions and messages go by age, count and size; what somebody may still need stays."""

    # -- too many sessions

    def test_the_longest_idle_sessions_go_when_there_are_too_many(self, store: Store) -> None:
        """Those with the newest activity stay; ties and order are always the same."""
        for number in range(6):
            say(store.create(f"s{number}"), "a")
        say(store.get("s0"), "again")
        store.set_retention(Retention(max_sessions=3))

        assert done(store.sweep()) == [("trash", "s1"), ("trash", "s2"), ("trash", "s3")]
        assert [info.id for info in store.list()] == ["s0", "s5", "s4"]
        assert store.sweep().actions == ()

    def test_the_longest_idle_sessions_go_when_they_are_too_large(self, store: Store) -> None:
        """The size is that of the messages of the sessions that are not in the trash."""
        for number in range(4):
            say(store.create(f"s{number}"), "x" * 1000)
        store.set_retention(Retention(max_bytes=2500))

        assert done(store.sweep()) == [("trash", "s0"), ("trash", "s1")]
        assert store.sweep().actions == ()

    def test_sessions_that_must_stay_count_but_do_not_go(self, store: Store) -> None:
        """Running ones, and those that a tag exempts."""
        store.create("kept", tags=["keep"])
        store.create("running").start("work")
        for id in ("a", "b"):
            store.create(id)
        store.set_retention(Retention(max_sessions=2, keep_tags=("keep",)))

        assert done(store.sweep()) == [("trash", "a"), ("trash", "b")]

    # -- nobody spoke

    def test_sessions_in_which_no_human_spoke_go(self, store: Store, clock: Ticking) -> None:
        """Empty ones too; but not before their time."""
        store.create("empty")
        store.create("robot").append(system("be good"), assistant("hello"), calling("1"), result("1"))
        say(store.create("human"), "hi")
        store.set_retention(Retention(silent_after=ONE_DAY))
        assert store.sweep().actions == ()
        clock.now += 2 * DAY

        assert done(store.sweep()) == [("trash", "empty"), ("trash", "robot")]

    @pytest.mark.parametrize(
        "message",
        [
            IMAGE,
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
            {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0"}}]},
            {"role": "user", "content": [{"type": "hologram", "data": "x"}]},
            {"role": "user", "content": {"odd": "shape"}},
            {"kind": "private", "payload": [1, 2]},
        ],
    )
    def test_an_image_is_speech_and_so_is_what_nobody_can_read(
        self, store: Store, s: Session, clock: Ticking, message: dict[str, Json]
    ) -> None:
        """In doubt a session is kept."""
        s.append(message)
        store.set_retention(Retention(silent_after=ONE_DAY))
        clock.now += 2 * DAY
        assert store.sweep().actions == ()
        assert due(store, "s") == NOT_DUE or s.info.user_turns == 0

    def test_l002_1_the_whole_log_is_judged(self, store: Store, clock: Ticking) -> None:
        """Not the newest part, and not only the path: a human may have spoken on a branch left behind."""
        long, left, forked = store.create("long"), store.create("left"), store.create("forked")
        say(long, "hi")
        long.append(*(assistant(str(number)) for number in range(600)))
        long.replace([assistant("only this")])
        say(left, "hi")
        left.clear()
        say(forked, "hi")
        fork = forked.fork("fork")
        fork.append(assistant("a"))
        fork.clear()
        assert {id: store.get(id).info.user_turns for id in ("long", "left", "fork")} == {
            "long": 0, "left": 0, "fork": 0,
        }  # fmt: skip
        store.set_retention(Retention(silent_after=ONE_DAY))
        clock.now += 2 * DAY

        assert store.sweep().actions == ()
        assert store.sweep().examined == 0

    def test_l002_2_what_can_not_be_read_is_kept(
        self, store: Store, s: Session, clock: Ticking, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A damaged entry may have been a human's."""
        s.append(assistant("a"))
        store.set_retention(Retention(silent_after=ONE_DAY))
        clock.now += 2 * DAY
        with store._engine.read() as reader:
            kind = type(reader)

        def damaged(*args: Any, **kwargs: Any) -> Any:
            raise CorruptEntryError("branch", 0, "a flipped bit")

        monkeypatch.setattr(kind, "read_entries", damaged)
        assert store.sweep().actions == ()
        assert s.info.deleted_at is None

    # -- traces

    @pytest.mark.parametrize("rules", [Retention(max_messages=1), Retention(purge_after=ONE_DAY)])
    def test_p18_traces_are_scrubbed_once_and_only_when_asked_for(
        self,
        store: Store,
        backend: Backend,
        clock: Ticking,
        monkeypatch: pytest.MonkeyPatch,
        rules: Retention,
    ) -> None:
        """A sweep that rewrote the file for each session would take hours."""
        scrubs: list[int] = []
        scrub = backend.scrub

        def counted() -> None:
            scrubs.append(1)
            scrub()

        monkeypatch.setattr(backend, "scrub", counted)
        for number in range(3):
            say(store.create(f"s{number}"), "a", "b")
            say(store.create(f"t{number}"), "a")
            store.delete(f"t{number}")
        store.set_retention(rules)
        clock.now += 2 * DAY
        assert len(store.sweep().actions) == 3
        assert scrubs == []
        store.sweep(scrub=True)
        store.sweep(scrub=True)
        assert len(scrubs) == 1

    # -- the log of removals

    def test_p22_each_removal_is_logged(
        self, store: Store, clock: Ticking, caplog: pytest.LogCaptureFixture
    ) -> None:
        """In the store, newest first, and by the logger; an expiry removes nothing."""
        say(store.create("a"), "x", "y")
        store.set_retention(
            Retention(max_messages=1, lifetime=ONE_DAY, trash_expired=True, purge_after=ONE_DAY)
        )
        with caplog.at_level(logging.INFO, "clew.retention"):
            store.sweep()
            clock.now += DAY
            store.sweep()
            clock.now += DAY
            report = store.sweep()

        found = store.removals()
        assert [(line.verb, line.session, line.messages) for line in found] == [
            ("purge", "a", 0), ("trash", "a", 0), ("remove_messages", "a", 1),
        ]  # fmt: skip
        assert found[0].at == report.at
        assert "in the trash for 1 day" in found[0].reason
        assert store.removals(limit=1) == found[:1]
        assert [line.split()[0] for line in caplog.messages] == [
            "remove_messages",
            "expire",
            "trash",
            "purge",
        ]

    def test_damage_in_one_session_does_not_stop_the_others(
        self,
        store: Store,
        backend: Backend,
        clock: Ticking,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """It is left alone, told of, and looked at again the next day."""
        for id in ("bad", "good"):
            say(store.create(id), "a")
        with backend.read() as reader:
            row = reader.find_session("bad")
            kind = type(reader)
        assert row is not None
        bad = row.sid
        details = kind.get_details

        def damaged(reader: Any, sid: int) -> Any:
            if sid == bad:
                raise CorruptEntryError("details", 0, "a flipped bit")
            return details(reader, sid)

        monkeypatch.setattr(kind, "get_details", damaged)
        store.set_retention(Retention(lifetime=ONE_DAY))
        clock.now += 2 * DAY
        with caplog.at_level(logging.WARNING, "clew.retention"):
            assert done(store.sweep()) == [("expire", "good")]
        assert ["'bad' is left alone" in line for line in caplog.messages] == [True]
        assert due(store, "bad") > clock.now + DAY - HOUR
