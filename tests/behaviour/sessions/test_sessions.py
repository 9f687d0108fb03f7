"""Sessions: their ids, their titles, what is known of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from clew.backends.contract import Backend
from clew.errors import (
    InvalidError,
    SessionExistsError,
    SessionNotFoundError,
)
from clew.model import Head, SessionInfo
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import START, Ticking, assistant, calling, result, said, say, user
from tests.behaviour.rows import each_session
from tests.behaviour.values import BAD_IDS
from tests.support.rows import each_row
from tests.support.storage import Watched

GOOD_IDS = {
    "dot": ".",
    "parent": "..",
    "slash": "a/b",
    "absolute": "/etc/passwd",
    "backslash": "a\\b",
    "device": "CON",
    "newline": "a\nb",
    "encoded": "%2e%2e%2f",
    "option": "-rf",
    "quote": "'; DROP TABLE sessions; --",
    "wildcard": "%",
    "space": " ",
    "look-alike": "раураl",
    "composed": "é",
    "decomposed": "e\u0301",
    "upper": "ABC",
    "lower": "abc",
    "emoji": "\U0001f469\u200d\U0001f680",
    "controls": "\x01\x1b[2J\u202e\u2028",
    "512 bytes": "ü" * 256,
}


class TestSessions:
    """A session is found by its id, and describes itself without reading its messages."""

    # -- ids

    def test_the_session_without_an_id_is_called_default(self, store: Store) -> None:
        """`session()` is `session("default")`."""
        assert store.session().id == "default"
        assert store.session() == store.session("default")

    def test_session_gets_or_creates(self, store: Store) -> None:
        """The second time it is the same session, and its settings are not touched."""
        first = store.session("a", title="first", tags=["x"])
        say(first, "hello")
        second = store.session("a", title="second", tags=["y"])

        assert second == first
        assert hash(second) == hash(first)
        assert said(second) == ["hello"]
        assert (second.info.title, second.info.tags) == ("first", ("x",))

    def test_create_get_and_find(self, store: Store) -> None:
        """`create` raises if it is there, `get` if it is not, `find` gives None."""
        made = store.create("a")

        assert store.get("a") == made == store.find("a")
        with pytest.raises(SessionExistsError) as exists:
            store.create("a")
        assert exists.value.session == "a"
        assert store.find("b") is None
        with pytest.raises(SessionNotFoundError) as missing:
            store.get("b")
        assert missing.value.session == "b"

    def test_created_ids_sort_by_time(self, store: Store) -> None:
        """Without an id, `create` makes one that is later than all it made before."""
        ids = [store.create().id for _ in range(20)]

        assert ids == sorted(set(ids))

    def test_any_text_is_an_id(self, store: Store) -> None:
        """I-11, S-01: an id is data. No two of these are the same session, and none is a path."""
        for name, id in GOOD_IDS.items():
            say(store.create(id), name)

        assert {id: store.get(id).id for id in GOOD_IDS.values()} == {id: id for id in GOOD_IDS.values()}
        assert [said(store.get(id)) for id in GOOD_IDS.values()] == [[name] for name in GOOD_IDS]
        assert {info.id for info in store.list(limit=100)} == set(GOOD_IDS.values())

    @each_row("id", BAD_IDS.values(), ids=BAD_IDS.keys())
    def test_what_is_no_id_is_refused(self, store: Store, id: Any) -> None:
        """I-11: empty text, more than 512 bytes, NUL, lone surrogates, and what is no text."""
        calls: list[Callable[[Any], Any]] = [
            store.session,
            store.get,
            store.find,
            store.delete,
            store.restore_deleted,
        ]
        for call in calls if id is None else [*calls, store.create]:
            with pytest.raises(InvalidError):
                call(id)

        assert len(store.list()) == 0

    # -- the title and the preview

    def test_the_first_words_of_the_user_become_the_title(self, store: Store, s: Session) -> None:
        """Not what the assistant, a tool or the system says, nor an empty text; once, and on one line."""
        assert _title(s) == (None, False)
        s.append({"role": "system", "content": "be kind"}, assistant("hello"), calling("c"), result("c"))
        say(s, "   ")
        assert _title(s) == (None, False)

        say(s, "fix\n  the\tlogin", "later")

        assert _title(s) == ("fix the login", True)

    @each_session(
        ("unit", "of"),
        [("ab", "text"), ("e\u0301", "accents"), ("\U0001f469\u200d\U0001f680", "emoji"), ("🇩🇪", "flags")],
    )
    def test_a_long_title_is_cut_between_characters(self, s: Session, unit: str, of: str) -> None:
        """I-02: at most 60 code points, an ellipsis at the end, no character in halves."""
        say(s, unit * 100)
        title = s.info.title or ""

        assert len(title) <= 60
        assert title.endswith("…")
        whole = title.removesuffix("…")
        assert whole == unit * (len(whole) // len(unit)) or (of == "text" and whole in unit * 100)

    @pytest.mark.parametrize("when", ["at creation", "before the first message", "after it"])
    def test_a_title_set_by_the_user_wins(self, store: Store, when: str) -> None:
        """It is never replaced by an automatic one, and may be longer."""
        mine = "m" * 500
        s = store.create("a", title=mine if when == "at creation" else None)
        if when == "before the first message":
            s.update(title=mine)
        say(s, "first")
        if when == "after it":
            assert s.info.title == "first"
            s.update(title=mine)
        say(s, "second")

        assert _title(s) == (mine, False)

    def test_an_emptied_title_becomes_automatic_again(self, store: Store) -> None:
        """`update(title=None)` gives the title up: it is again what the user said first on the path."""
        s = store.create("a", title="mine")
        s.update(title=None)
        assert _title(s) == (None, False)
        s.update(title="mine")
        say(s, "first", "second")
        s.update(title=None)
        assert _title(s) == ("first", True)

        s.replace([{"role": "assistant", "content": "hello"}, {"role": "user", "content": "other"}])
        s.update(title=None)
        assert _title(s) == ("other", True)

    def test_the_title_stays_when_the_session_rewinds(self, s: Session) -> None:
        """It belongs to the session, not to the conversation."""
        say(s, "first")
        s.clear()
        say(s, "second")

        assert s.info.title == "first"

    def test_the_preview_is_what_the_user_said_last_on_the_path(self, s: Session) -> None:
        """It goes with the head: back with rewind and undo, forth with redo, empty after clear."""
        first, _, _ = s.append(user("first"), assistant("answer"), user("second\n line"))
        assert s.info.preview == "second line"
        s.append(assistant("last word"))
        assert s.info.preview == "second line"

        s.rewind(first)
        assert s.info.preview == "first"
        s.undo()
        assert s.info.preview == "second line"
        s.clear()
        assert s.info.preview == ""
        s.undo()
        s.redo()
        assert s.info.preview == ""

    def test_the_preview_is_the_same_however_the_head_got_there(self, s: Session) -> None:
        """J11: after an append, a rewind, undo, in a fork: it depends on the path alone."""
        picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}
        (_, entry) = s.append(user("words"), picture)
        appended = s.info.preview
        say(s, "later")
        s.rewind(entry)

        assert s.info.preview == s.fork(at=entry).info.preview == appended

    # -- info

    def test_info_counts_what_is_on_the_path(self, s: Session) -> None:
        """Messages, user turns, entries with the marks, bytes of the messages as JSON text."""
        assert _counts(s.info) == (0, 0, 0, 0)
        entries = s.append(user("a"), assistant("b"), calling("c"), result("c"))
        size = sum(len(entry.raw) for entry in entries)
        assert _counts(s.info) == (4, 1, 4, size)
        s.set_summary("…")
        assert _counts(s.info) == (4, 1, 5, size)
        s.rewind(entries[0])
        assert _counts(s.info) == (1, 1, 1, len(entries[0].raw))

    def test_info_reads_no_message(self, backend: Backend, store: Store, s: Session) -> None:
        """Counts, preview and times come from the session's row; the same for every line of a list."""
        asked: list[str] = []
        say(s, "a", "b")
        watched = Store(Watched(backend, lambda name, _: asked.append(name)))

        assert watched.get("s").info.messages == 2
        assert [info.messages for info in watched.list()] == [2]
        assert not {"get_entry", "read_entries", "read_messages", "last_position"} & set(asked)

    def test_info_tells_the_times(self, store: Store, clock: Ticking) -> None:
        """Of creation, and of the last append or move; to the microsecond, in UTC."""
        s = store.create("a")
        created = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=clock.now)
        clock.now += 777_777
        say(s, "x")
        updated = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=clock.now)

        assert (s.info.created_at, s.info.updated_at) == (created, updated)
        assert s.info.deleted_at is None

    def test_a_touched_session_is_the_latest_active_one_and_else_the_same(
        self, store: Store, clock: Ticking
    ) -> None:
        """Its time of activity is that of the touch, and nothing else changes."""
        touched, other = store.create("touched"), store.create("other")
        say(touched, "x")
        say(other, "y")
        before = touched.info
        clock.now += 777_777
        touched.touch()
        now = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=clock.now)

        assert touched.info == msgspec.structs.replace(before, updated_at=now)
        assert [info.id for info in store.list()] == ["touched", "other"]
        clock.now = START - 10**12
        touched.touch()
        assert touched.info.updated_at == now

    def test_activity_does_not_go_back_with_the_clock(self, store: Store, clock: Ticking) -> None:
        """P3: a clock that jumps back changes neither the order of messages nor the latest activity."""
        s = store.create("a")
        say(s, "first")
        active = s.info.updated_at
        clock.now = START - 10**12
        say(s, "second")

        assert said(s) == ["first", "second"]
        assert s.info.updated_at == active

    def test_head_and_hash_name_the_history(self, store: Store, clock: Ticking) -> None:
        """Equal hashes, equal histories; the head is comparable and that of the last entry."""
        clock.step = 0
        a, b = store.create("a"), store.create("b")
        assert a.head == Head("", -1) == a.info.head
        say(a, "x")
        say(b, "x")

        assert a.info.hash == b.info.hash
        assert a.head != b.head
        say(b, "y")
        assert a.info.hash != b.info.hash


def _title(s: Session) -> tuple[str | None, bool]:
    return s.info.title, s.info.title_is_auto


def _counts(info: SessionInfo) -> tuple[int, int, int, int]:
    return info.messages, info.user_turns, info.entries, info.bytes
