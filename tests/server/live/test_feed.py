"""Feeds of one session: damage, ids of others, shares, and how much is held at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import clew
from clew.core.log.ids import parse_entry_id
from clew.model import Entry, Head
from clew.server.access.principal import OWNER, Principal
from clew.server.live.event_ids import NOWHERE
from clew.server.live.feed import PAGE, PAGE_BYTES, EntryFrame, Feed, Frame
from clew.server.wire.views import Viewer
from clew.session import Session
from clew.store import Store

BOUND = Principal(id="t1", name="bound", kind="token", scopes=frozenset({"read"}), tags=("mine",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clew.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with clew.open(path) as store:
        yield store


@pytest.fixture
def s(store: Store) -> Session:
    return store.create("s")


def say(session: Session, *texts: str) -> list[Entry]:
    return session.append(*({"role": "user", "content": text} for text in texts))


def feed_of(session: Session, after: Head | Entry | None = NOWHERE, principal: Principal = OWNER) -> Feed:
    place = parse_entry_id(after.id) if isinstance(after, Entry) else after
    viewer = Viewer("raw", "/entries")
    return Feed(session._scope, session._sid, session.id, principal, place, viewer.show)  # type: ignore[arg-type]


def read_all(feed: Feed) -> list[Frame]:
    frames: list[Frame] = []
    while True:
        page = feed.read()
        frames += page.frames
        if not page.has_more:
            return frames


def told(frames: list[Frame]) -> list[tuple[str, object]]:
    """Events with their positions."""
    return [
        (
            frame.event,
            frame.data.position if isinstance(frame.data, EntryFrame) else frame.data.get("position"),
        )
        for frame in frames
        if frame.event != "status"
    ]


def spoil(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()


def test_a_page_is_small(s: Session) -> None:
    say(s, *("x" for _ in range(PAGE * 2 + 5)))
    feed = feed_of(s)
    sizes = [len(feed.read().frames) for _ in range(3)]

    assert sizes == [PAGE, PAGE, 6]  # the status too
    assert feed.read().frames == []


def test_a_page_of_large_messages_is_no_larger(s: Session) -> None:
    say(s, *("x" * (PAGE_BYTES // 2) for _ in range(5)))
    feed = feed_of(s)

    assert [len(feed.read().frames) for _ in range(3)] == [2, 2, 2]


@pytest.mark.parametrize("spoilt", [0, 3, 70, 99])
def test_a_damaged_entry_is_told_in_its_place_and_the_others_come(
    s: Session, path: Path, spoilt: int
) -> None:
    say(s, *("x" for _ in range(100)))
    spoil(path, f"UPDATE entries SET body = zeroblob(9) WHERE key & 0xFFFFFFFF = {spoilt}")
    frames = read_all(feed_of(s))

    assert told(frames) == [
        ("damaged" if position == spoilt else "entry", position) for position in range(100)
    ]
    assert frames[spoilt].place is None


def test_missing_entries_are_told_and_the_others_come(s: Session, path: Path) -> None:
    say(s, *("x" for _ in range(10)))
    spoil(path, "DELETE FROM entries WHERE key & 0xFFFFFFFF IN (4, 5)")

    assert told(read_all(feed_of(s))) == [
        ("damaged" if position in (4, 5) else "entry", position) for position in range(10)
    ]


def test_a_damaged_head_far_behind_the_last_entry_is_told_once(s: Session, path: Path) -> None:
    say(s, "a", "b")
    spoil(path, "UPDATE sessions SET position = 4000000000")
    feed = feed_of(s)

    assert told(read_all(feed))[:2] == [("entry", 0), ("entry", 1)]
    assert len(read_all(feed)) == 0


def test_a_damaged_branch_ends_nothing(store: Store, s: Session, path: Path) -> None:
    """The stream says so once, and goes on when it is repaired."""
    (first, second) = say(s, "a", "b")
    feed = feed_of(s, second)
    read_all(feed)
    s.rewind(first)
    say(s, "c")
    store.close()
    spoil(path, "UPDATE branches SET parent = 99 WHERE parent > 0")
    with clew.open(path) as again:
        feed._engine = again._engine
        assert told(read_all(feed)) == [("damaged", None)]
        assert told(read_all(feed)) == []


def test_an_entry_that_was_removed_by_a_rule_is_told_as_removed(store: Store, s: Session) -> None:
    say(s, *("x" for _ in range(6)))
    store.set_retention(clew.Retention(max_messages=2))
    store.sweep()
    frames = [frame for frame in read_all(feed_of(s)) if isinstance(frame.data, EntryFrame)]

    assert [frame.data.kind for frame in frames] == ["removed"] * 4 + ["message"] * 2  # type: ignore[union-attr]


class TestIdsOfOthers:
    """An id of an entry that the caller may not read means nothing, as one that there never was."""

    def test_an_entry_of_a_fork_that_is_not_the_callers(self, store: Store) -> None:
        s = store.create("s", tags=["mine"])
        say(s, "a", "b")
        fork = s.fork("f")
        fork.update(tags=["other"])
        (secret,) = say(fork, "secret")

        (reset, *rest) = read_all(feed_of(s, secret, BOUND))
        assert (reset.event, reset.place) == ("moved", NOWHERE)
        assert reset.data["from"] is None  # type: ignore[index]
        assert told(rest) == [("entry", 0), ("entry", 1)]
        assert read_all(feed_of(s, Head("none", 3), BOUND))[0].data == reset.data

    def test_an_entry_that_the_session_had_before_is_known(self, store: Store) -> None:
        """Of its own, or of what it has forked, before it was rewound."""
        base = store.create("base")
        shared = say(base, "a", "b", "c")
        s = base.fork("s")
        s.update(tags=["mine"])
        (own,) = say(s, "d")
        s.rewind(shared[0])

        for place in (own, shared[2]):
            (moved,) = [frame for frame in read_all(feed_of(s, place, BOUND)) if frame.event != "status"]
            assert moved.data["common"] == 0  # type: ignore[index]


class TestShares:
    def test_a_share_of_the_empty_beginning_shows_nothing(self, s: Session) -> None:
        say(s, "a")
        share = Principal(id="s1", name="", kind="share", session="s", head="start")

        assert read_all(feed_of(s, NOWHERE, share)) == []
