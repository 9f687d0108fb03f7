"""Events: a stream beside the conversation, numbered without a gap, each kept once."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from clew.backends.contract import STORE_WIDE, Backend
from clew.errors import InvalidError, KeyReusedError
from clew.model import Event, EventCounts, Retention, utc
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, said, say
from tests.support.rows import each_row
from tests.support.storage import Watched


def types(events: list[Event]) -> list[str]:
    return [event.type for event in events]


def set_cap(backend: Backend, max_events: int | None) -> None:
    """Let only so many events of each session stay."""
    with backend.write() as tx:
        rules = msgspec.json.encode(Retention(max_events=max_events))
        tx.put_record(STORE_WIDE, "retention", "rules", rules)


class TestEvents:
    """Events are no part of the path; they come back in their order, exactly as they were given."""

    # -- what comes back

    def test_an_event_comes_back(self, s: Session, clock: Ticking) -> None:
        """Type, data, stream, id and time, with a number that leads to those after it."""
        event = s.add_event("tool", {"name": "ls", "args": []}, stream="ui", id="call-1")

        assert (event.cursor, event.type, event.stream, event.id) == (1, "tool", "ui", "call-1")
        assert event.data == {"name": "ls", "args": []}
        assert event.at <= utc(clock.now)
        assert s.events() == [event]

        bare = s.add_event("beat")
        assert (bare.cursor, bare.data, bare.stream, bare.id) == (2, None, "", None)

    def test_events_of_other_sessions_are_others(self, store: Store, s: Session) -> None:
        """Numbers and ids belong to a session; a fork begins without events."""
        say(s, "a")
        s.add_event("mine", 1, id="x")
        other, fork = store.create("other"), s.fork()
        there = other.add_event("theirs", 2, id="x")

        assert there.cursor == 1
        assert types(s.events()) == ["mine"]
        assert types(other.events()) == ["theirs"]
        assert fork.events() == []

    def test_no_move_takes_an_event_away(self, s: Session) -> None:
        """Events are beside the conversation."""
        say(s, "a", "b")
        s.add_event("e")
        s.rewind(0)
        s.clear()
        assert types(s.events()) == ["e"]

    def test_a_read_of_the_conversation_reads_no_events(self, backend: Backend, s: Session) -> None:
        """However many events there are, messages, context and list do not pass by them."""
        say(s, "a")
        s.add_events([{"type": "e"}] * 20)
        asked: list[str] = []
        with Store(Watched(backend, lambda name, args: asked.append(name))) as watched:
            again = watched.get("s")
            asked.clear()
            assert said(again) == ["a"]
            assert len(again.context()) == len(watched.list()) == 1
            assert asked
            assert not [name for name in asked if "event" in name]

            asked.clear()
            assert len(again.events()) == 20
            assert {"read_messages", "read_entries", "get_entry"}.isdisjoint(asked)

    # -- reading on

    def test_events_are_read_on_from_a_cursor(self, s: Session) -> None:
        """After an event or its number, at most `limit`; at the end nothing."""
        added = s.add_events([{"type": f"e{number}"} for number in range(5)])
        assert [event.cursor for event in added] == [1, 2, 3, 4, 5]

        assert s.events(limit=2) == added[:2]
        assert s.events(after=added[1], limit=2) == added[2:4]
        assert s.events(after=4) == added[4:]
        assert s.events(after=added[-1]) == s.events(after=10**30) == []
        assert s.events(after=0, limit=10**30) == added

    def test_streams_are_told_apart(self, s: Session) -> None:
        """One stream, those of no stream, or all; the numbers are those of the session."""
        s.add_event("a", stream="x")
        s.add_event("b")
        s.add_event("c", stream="y")
        s.add_event("d", stream="x")

        assert types(s.events(stream="x")) == ["a", "d"]
        assert types(s.events(stream="")) == ["b"]
        assert types(s.events(stream="z")) == []
        assert types(s.events()) == ["a", "b", "c", "d"]
        for bad in (5, 0, "\ud800", "a\0"):
            with pytest.raises(InvalidError, match="stream"):
                s.events(stream=bad)  # type: ignore[arg-type]
        assert types(s.events(stream="x", after=1)) == types(s.events(stream="x", after=3, limit=1)) == ["d"]

    # -- once

    def test_a_repeated_event_is_one(self, s: Session) -> None:
        """P4: the same id, type, stream and data again: the first one comes back, nothing is written."""
        first = s.add_event("e", {"a": 1}, stream="x", id="1")
        s.add_event("other")

        assert s.add_event("e", {"a": 1}, stream="x", id="1") == first
        assert s.count_events().added == 2

    @each_row("change", [{"type": "f"}, {"data": 2}, {"data": 1.0}, {"data": None}, {"stream": ""}], ids=repr)
    def test_an_id_stands_for_one_event(self, s: Session, change: dict[str, Any]) -> None:
        """KeyReusedError for anything else under it; nothing is written."""
        event: dict[str, Any] = {"type": "e", "data": 1, "stream": "x", "id": "1"}
        s.add_event(**event)
        with pytest.raises(KeyReusedError) as caught:
            s.add_event(**{**event, **change})
        assert caught.value.key == "1"
        with pytest.raises(KeyReusedError):
            s.add_events([{"type": "new"}, {**event, **change}])
        with pytest.raises(KeyReusedError):
            s.add_events([{**event, "id": "2"}, {**event, **change, "id": "2"}])

        assert types(s.events()) == ["e"]

    # -- batches

    def test_a_batch_of_events_is_in_order_and_each_once(self, s: Session) -> None:
        """An id that is known, or that the batch has already had, stands for the first event."""
        known = s.add_event("a", id="a")
        batch = s.add_events(
            [
                {"type": "b", "data": [1], "stream": "x", "id": "b"},
                {"type": "a", "id": "a"},
                MappingProxyType({"type": "c"}),
                {"type": "b", "data": [1], "stream": "x", "id": "b"},
            ]
        )

        assert types(batch) == ["b", "a", "c", "b"]
        assert batch[1] == known
        assert batch[0] == batch[3]
        assert s.events() == [known, batch[0], batch[2]]
        assert s.add_events([]) == []

    @each_row(
        ("bad", "named"),
        [
            ({"type": "x", "date": 1}, r"events\[1\].*'date'"),
            ({"type": "x", 5: 1}, r"events\[1\].*5"),
            ({"data": 1}, r"events\[1\].*'type'"),
            ({"type": ""}, r"events\[1\]\.type"),
            ({"type": "x", "data": {"a": float("nan")}}, r"events\[1\]\.data.*a"),
            ({"type": "x", "stream": None}, r"events\[1\]\.stream"),
            ({"type": "x", "id": 5}, r"events\[1\]\.id"),
            ("x", r"events\[1\].*str"),
            (None, r"events\[1\].*NoneType"),
        ],
    )
    def test_a_batch_of_events_is_all_or_nothing(self, s: Session, bad: Any, named: str) -> None:
        """P3: one bad event, named by its place, and none is written."""
        with pytest.raises(InvalidError, match=named):
            s.add_events([{"type": "good"}, bad])

        assert s.events() == []

    @each_row("given", ["text", b"text", {"type": "e"}, None, 5], ids=repr)
    def test_what_is_no_list_of_events_is_refused(self, s: Session, given: Any) -> None:
        """One mapping is not a batch."""
        with pytest.raises(InvalidError, match=type(given).__name__):
            s.add_events(given)

    # -- the cap

    def test_events_are_counted(self, s: Session) -> None:
        """All that there ever were, those that are kept, those that were dropped."""
        assert s.count_events() == EventCounts(added=0, kept=0, dropped=0)
        s.add_events([{"type": "e"}] * 3)
        assert s.count_events() == EventCounts(added=3, kept=3, dropped=0)

    def test_a_cap_drops_the_oldest_events(self, backend: Backend, store: Store, s: Session) -> None:
        """P22: only when a rule says so; the count and the numbers go on."""
        s.add_events([{"type": f"e{number}"} for number in range(5)])
        assert len(s.events()) == 5
        set_cap(backend, 3)
        assert len(s.events()) == 5

        s.add_event("e5")

        assert types(s.events()) == ["e3", "e4", "e5"]
        assert [event.cursor for event in s.events(after=0)] == [4, 5, 6]
        assert s.count_events() == EventCounts(added=6, kept=3, dropped=3)

        added = s.add_events([{"type": f"f{number}"} for number in range(5)])
        assert types(added) == ["f0", "f1", "f2", "f3", "f4"]
        assert s.events() == added[2:]
        assert s.count_events() == EventCounts(added=11, kept=3, dropped=8)

        other = store.create("other")
        other.add_events([{"type": "e"}] * 3)
        assert other.count_events().dropped == 0

    def test_a_cap_holds_after_every_event(self, backend: Backend, s: Session) -> None:
        """Not one more than it says, and not one fewer."""
        set_cap(backend, 2)
        kept = []
        for number in range(4):
            s.add_event(str(number))
            kept.append(types(s.events()))

        assert kept == [["0"], ["0", "1"], ["1", "2"], ["2", "3"]]

    def test_a_repeated_event_drops_none(self, backend: Backend, s: Session) -> None:
        """What writes nothing removes nothing; the id of an event that was dropped is free again."""
        s.add_events([{"type": "e", "id": str(number)} for number in range(3)])
        set_cap(backend, 2)
        s.add_event("e", id="2")
        assert s.count_events() == EventCounts(added=3, kept=3, dropped=0)

        s.add_event("e", id="3")
        assert [event.id for event in s.events()] == ["2", "3"]
        assert s.add_event("e", id="0").cursor == 5

    @pytest.mark.parametrize("cap", [1, 0], ids=str)
    def test_the_newest_event_stays(self, backend: Backend, s: Session, cap: int) -> None:
        """It holds the count."""
        set_cap(backend, cap)
        s.add_events([{"type": "a"}, {"type": "b"}])
        s.add_event("c")

        assert types(s.events()) == ["c"]
        assert s.count_events() == EventCounts(added=3, kept=1, dropped=2)

    def test_rules_without_a_cap_keep_all_events(self, backend: Backend, s: Session) -> None:
        """Other rules have no say in it."""
        set_cap(backend, None)
        s.add_events([{"type": "e"}] * 30)

        assert s.count_events().kept == 30
