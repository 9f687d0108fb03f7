"""Streams of sessions and of the store, with a real server and a client that is a bare socket."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn
from urllib.parse import quote

import httpx
import pytest

from clew.errors import StoreBusyError
from clew.model import Entry
from clew.server.application import Finished
from clew.server.live.feed import Feed
from clew.session import Session
from tests.server.conftest import TOKEN, Running
from tests.server.live.client import Copy, Stream
from tests.server.routes.asking import refusal
from tests.support.rows import each_row
from tests.support.waiting import until


def say(session: Session, *texts: str) -> list[Entry]:
    return session.append(*({"role": "user", "content": text} for text in texts))


@pytest.fixture
def s(server: Running) -> Session:
    return server.store.create("s")


@pytest.fixture
def follow(server: Running) -> Iterator[Callable[..., Stream]]:
    opened: list[Stream] = []

    def start(path: str, last_id: str | None = None, **options: Any) -> Stream:
        opened.append(Stream(server.url, f"/api/v1{path}", TOKEN, last_id, **options))
        return opened[-1]

    yield start
    for one in opened:
        one.socket.close()


Follow = Callable[..., Stream]


def test_a_stream_begins_with_the_head_and_goes_on_with_what_is_appended(s: Session, follow: Follow) -> None:
    (entry,) = say(s, "before")
    stream = follow("/sessions/s/live")
    head = stream.next()
    assert stream.headers["content-type"] == "text/event-stream"
    assert stream.headers["cache-control"] == "no-store"
    assert stream.headers["x-accel-buffering"] == "no"
    assert (stream.parser.retry, stream.parser.comments) == (1000, ["hello"])
    assert (head.event, head.id) == ("head", entry.id)
    assert head.data == {
        "session": "s",
        "head": {"branch": s.head.branch, "position": 0},
        "messages": 1,
        "status": "pending",
    }
    (after,) = s.append({"role": "user", "content": "two\nlines\r\u2028"})
    event = stream.next()

    assert (event.event, event.id) == ("entry", after.id)
    assert event.data["message"] == {"role": "user", "content": "two\nlines\r\u2028"}


def test_messages_that_hold_line_ends_between_their_values_are_one_line(s: Session, follow: Follow) -> None:
    s.append('{\n  "role": "user",\r\n  "content": "x"\n}')

    assert follow("/sessions/s/live?after=start").next("entry").data["message"]["content"] == "x"


def test_what_a_client_has_counts_before_what_its_address_says(s: Session, follow: Follow) -> None:
    """A browser that connects again asks for the same address, and says in a header where it was."""
    first, second = s.append({"role": "user", "content": "one"}, {"role": "user", "content": "two"})

    again = follow("/sessions/s/live?after=start", first.id)

    assert again.next("entry").id == second.id


def test_an_empty_session_has_the_id_start(s: Session, follow: Follow) -> None:
    stream = follow("/sessions/s/live")
    head = stream.next()
    (entry,) = say(s, "first")

    assert head.id == "start"
    assert stream.next("entry").id == entry.id
    assert follow("/sessions/s/live", head.id).next("entry").id == entry.id


def test_every_way_to_move_the_head_is_followed(s: Session, follow: Follow) -> None:
    """Rewind, undo, redo, clear, replace, compact, a fork switch: what was applied is what is there."""
    copy, stream = Copy(), follow("/sessions/s/live?after=start")

    def catch_up() -> None:
        end = f"end {len(copy.entries)} {copy.moves} {catch_up.count}"  # type: ignore[attr-defined]
        catch_up.count += 1  # type: ignore[attr-defined]
        say(s, end)
        while not copy.messages or copy.messages[-1]["content"] != end:
            copy.apply(stream.next())
        assert copy.messages == s.messages()
        assert [entry["id"] for entry in copy.entries] == [entry.id for entry in s.entries()]

    catch_up.count = 0  # type: ignore[attr-defined]
    first, *_ = say(s, "a", "b", "c", "d")
    acts: list[Callable[[], object]] = [
        lambda: s.rewind(first), s.undo, s.redo, s.clear, s.undo,
        lambda: s.replace([{"role": "user", "content": "r"}]), s.undo, lambda: s.compact("so far"),
        lambda: s.set_summary("sum"), lambda: s.truncate(1), lambda: s.rewind(1),
        lambda: s.rewind(s.fork("f").append({"role": "user", "content": "of the fork"})[0].id), s.start,
    ]  # fmt: skip
    for act in acts:
        act()
        catch_up()
    assert copy.moves >= 6


def test_a_resume_behind_a_move_is_exact(s: Session, follow: Follow) -> None:
    entries = say(s, "a", "b", "c")
    s.rewind(entries[0])
    (new,) = say(s, "d")
    stream = follow("/sessions/s/live", entries[2].id)
    moved, entry = stream.next(), stream.next()

    assert (moved.event, moved.id) == ("moved", entries[0].id)
    assert moved.data == {
        "session": "s",
        "from": {"branch": entries[2].id.rpartition(".")[0], "position": 2},
        "to": {"branch": s.head.branch, "position": 1},
        "common": 0,
    }
    assert (entry.event, entry.id) == ("entry", new.id)


def test_a_status_is_told_without_an_id(s: Session, follow: Follow) -> None:
    stream = follow("/sessions/s/live")
    stream.next("head")
    s.start("work")
    event = stream.next()

    assert (event.event, event.data, event.has_id) == ("status", {"session": "s", "status": "running"}, False)


@each_row("purge", [False, True])
def test_a_deleted_session_is_gone_and_the_stream_ends(server: Running, follow: Follow, purge: bool) -> None:
    s = server.store.create("s")
    stream = follow("/sessions/s/live")
    stream.next("head")
    server.store.delete(s.id, purge=purge)
    event = stream.next()

    assert (event.event, event.data, event.has_id) == ("gone", {"session": "s"}, False)
    assert list(stream.events()) == []
    again = follow("/sessions/s/live")
    assert again.headers["content-type"] == "application/problem+json"
    assert again.status == 404


def test_an_id_that_is_none_of_this_session_means_nothing(server: Running, follow: Follow) -> None:
    """One of a session that had its id before, one of another, and one that never was: begin anew."""
    (old,) = say(server.store.create("s"), "old")
    server.store.delete("s", purge=True)
    (new,) = say(server.store.create("s"), "new")
    (other,) = say(server.store.create("t"), "other")
    for id in (old.id, other.id, "no-such-branch.0"):
        stream = follow("/sessions/s/live", id)
        moved = stream.next()
        assert (moved.event, moved.id) == ("moved", "start"), id
        assert (moved.data["from"], moved.data["common"]) == (None, -1), id
        assert stream.next().id == new.id


def test_a_restored_session_goes_on_where_it_was(server: Running, s: Session, follow: Follow) -> None:
    first, second = say(s, "a", "b")
    server.store.delete("s")
    server.store.restore_deleted("s")
    (third,) = say(server.store.get("s"), "c")
    stream = follow("/sessions/s/live", first.id)

    assert [stream.next("entry").id for _ in range(2)] == [second.id, third.id]


def test_several_sessions_are_one_stream_that_resumes_all(server: Running, follow: Follow) -> None:
    a, b = server.store.create("a"), server.store.create("b/ä")
    path = f"/live?session=a&session={quote('b/ä', safe='')}"
    stream = follow(path)
    assert {stream.next("head").data["session"], stream.next("head").data["session"]} == {"a", "b/ä"}
    say(a, "1")
    first = stream.next("entry")
    say(b, "1")
    second = stream.next("entry")
    say(a, "2")
    say(b, "2")
    again = follow(path, second.id)
    told = [again.next("entry").data for _ in range(2)]
    earlier = follow(path, first.id)

    assert sorted((one["session"], one["message"]["content"]) for one in told) == [("a", "2"), ("b/ä", "2")]
    assert len([earlier.next("entry") for _ in range(3)]) == 3


def test_of_several_sessions_one_that_is_gone_stops_no_other(server: Running, follow: Follow) -> None:
    a, _ = server.store.create("a"), server.store.create("b")
    stream = follow("/live?session=a&session=nowhere&session=b")
    assert stream.next("gone").data == {"session": "nowhere"}
    stream.next("head")
    stream.next("head")
    server.store.delete("b")
    assert stream.next("gone").data == {"session": "b"}
    (entry,) = say(a, "x")
    assert stream.next("entry").data["id"] == entry.id
    server.store.delete("a")

    assert stream.next("gone").data == {"session": "a"}
    assert list(stream.events()) == []


def test_the_stream_of_the_store_tells_of_every_session(server: Running, follow: Follow) -> None:
    stream = follow("/live")
    begin = stream.next()
    assert (begin.event, begin.has_id) == ("head", True)
    s = server.store.create("s")
    created = stream.next()
    say(s, "x")
    changed = stream.next()
    server.store.delete("s")
    deleted = stream.next()

    told = [(each.event, each.data["kind"], each.data["session"]) for each in (created, changed, deleted)]
    assert told == [("change", "created", "s"), ("change", "changed", "s"), ("change", "deleted", "s")]
    assert changed.data["head"] == {"branch": s._sid and changed.data["head"]["branch"], "position": 0}
    assert changed.data["cursor"] == changed.id
    again = follow("/live", begin.id)
    assert again.next("change").data["session"] == "s"


@pytest.mark.parametrize("idle", [False, True])
def test_the_stream_of_the_store_tells_of_all_that_a_list_shows(
    server: Running, follow: Follow, client: httpx.Client, idle: bool
) -> None:
    """Also of sessions that nobody has worked on for long; each time with the row of the list."""
    long_ago = datetime.now(UTC) - timedelta(days=9) if idle else None
    s, other = (server.store.create(id, created_at=long_ago) for id in ("s", "other"))
    for one in (s, other):
        one.append({"role": "user", "content": "x"}, at=long_ago)
    stream = follow("/live")
    begin = stream.next("head")

    def told(is_told: Callable[[Any], bool]) -> Any:
        """The next frame with which this is so: one look may tell of the state before."""
        while True:
            event = stream.next("change")
            assert event.data["session"] == "s"
            if is_told(event.data):
                return event.data

    def changed(name: str, value: object) -> None:
        found = told(lambda data: data["info"][name] == value)
        assert found["kind"] == "changed"
        (row,) = [one for one in client.get("/api/v1/sessions?usage=true").json()["data"] if one["id"] == "s"]
        assert found["info"] == row

    s.update(title="A name")
    changed("title", "A name")
    s.update(tags=["starred"])
    changed("tags", ["starred"])
    s.update(metadata={"note": "x"})
    changed("metadata", {"note": "x"})
    s.update(model="m")
    changed("model", "m")
    s.add_alias("also")
    changed("aliases", ["also"])
    s.remove_alias("also")
    changed("aliases", [])
    s.add_usage(cost="0.25", input_tokens=3, output_tokens=4)
    used = {"cost": "0.25", "input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    changed("usage", {**used, "calls": 1, "unpriced": 0})
    server.store.delete("s")
    assert told(lambda data: data["kind"] == "deleted")["info"]["deleted_at"] is not None
    server.store.restore_deleted("s")
    changed("deleted_at", None)

    again = follow("/live", begin.id)
    while (event := again.next("change").data)["session"] != "s":
        pass
    assert event["info"]["title"] == "A name"


def test_a_stream_of_the_store_that_resumes_gets_what_it_missed_page_by_page(
    server: Running, follow: Follow
) -> None:
    stream = follow("/live")
    begin = stream.next()
    stream.socket.close()
    ids = {f"s{number}" for number in range(250)}
    for id in ids:
        server.store.create(id)
    again = follow("/live", begin.id)
    told = [again.next("change").data["session"] for _ in range(250)]
    server.store.create("last")

    assert set(told) == ids
    while (event := again.next("change")).data["session"] != "last":
        assert event.data["session"] in ids


def test_a_backlog_is_sent_in_small_pieces(s: Session, follow: Follow) -> None:
    """However long it is, only a page of it is in memory; and what is appended meanwhile comes behind it."""
    for start in range(0, 3000, 1000):
        say(s, *(f"{number} {'x' * 400}" for number in range(start, start + 1000)))
    copy, stream = Copy(), follow("/sessions/s/live?after=start")
    for _ in range(1000):
        copy.apply(stream.next())
    say(s, "end")
    while not copy.messages or copy.messages[-1]["content"] != "end":
        copy.apply(stream.next())

    assert copy.messages == s.messages()


def test_an_idle_stream_is_kept_open(serve: Callable[..., Running]) -> None:
    server = serve(heartbeat=0.05)
    server.store.create("s")
    with Stream(server.url, "/api/v1/sessions/s/live", TOKEN) as stream:
        stream.next("head")
        while len(stream.parser.comments) < 3:
            list(stream.parser.feed(stream._receive(65536)))

        assert stream.parser.comments == ["hello", "still here", "still here"]


def test_a_server_that_stops_says_so(server: Running, follow: Follow) -> None:
    server.store.create("s")
    streams = [follow("/sessions/s/live"), follow("/live"), follow("/live?session=s")]
    for stream in streams:
        stream.next("head")
    server.app.stop_streams()
    for stream in streams:
        event = stream.next()
        assert (event.event, event.data, event.has_id) == ("bye", {"reason": "stopping"}, False)
        assert stream.parser.retry == 1000
        assert list(stream.events()) == []


def test_a_caller_has_so_many_streams_and_no_more(serve: Callable[..., Running]) -> None:
    server = serve(streams=2)
    server.store.create("s")
    with server.client() as client:
        with (
            Stream(server.url, "/api/v1/live", TOKEN) as one,
            Stream(server.url, "/api/v1/live", TOKEN) as two,
        ):
            one.next()
            two.next()
            refused = client.get("/api/v1/sessions/s/live")
            assert refusal(refused) == (429, "too_many_streams")
            assert refused.headers["retry-after"] == "1"
        until(lambda: not server.app.hub.streams)
        with Stream(server.url, "/api/v1/live", TOKEN) as again:
            assert again.next().event == "head"


def test_a_client_that_does_not_read_is_cut_off(serve: Callable[..., Running]) -> None:
    server = serve(stream_deadline=0.1)
    ended: list[Finished] = []
    server.app.on_finished.append(ended.append)
    s = server.store.create("s")
    say(s, *("x" * 100_000 for _ in range(100)))
    with Stream(server.url, "/api/v1/sessions/s/live?after=start", TOKEN, room=4096) as stream:
        until(lambda: ended)
        copy = Copy()
        for event in stream.events():
            copy.apply(event)
        last_id = stream.parser.last_id
    with Stream(server.url, "/api/v1/sessions/s/live", TOKEN, last_id) as again:
        while len(copy.entries) < 100:
            copy.apply(again.next())

    assert copy.messages == s.messages()


HOSTILE = [
    "x" * 4096, "v1.", "v1.e30", "start.", ".1", "a.01", "a.-1", "a.99999999999999999999", "%", "%2", "%00.1",
    "%0a.1", "a%0d%0a.1", "%ff.1", "../../etc/passwd.1", "a.1;b", "a\x7f.1", "\xff.1", "a b.1",
    "'; DROP TABLE sessions; --.0",
    "\u0661.1".encode().decode("latin-1"),
]  # fmt: skip


@each_row("path", ["/sessions/s/live", "/live", "/live?session=s"])
def test_a_hostile_id_is_refused_or_means_nothing(server: Running, follow: Follow, path: str) -> None:
    """S-37: never a crash, never another session's place."""
    say(server.store.session("s"), "x")
    joined = "&" if "?" in path else "?"
    with server.client() as client:
        for id in HOSTILE:
            stream = follow(path, id)
            assert stream.headers, id
            if stream.status == 200:
                first = stream.next()
                assert first.event in ("moved", "head"), id
                assert first.event == "head" or stream.next().event == "entry", id
            else:
                assert stream.status in (400, 422), id  # the parser of headers knows some
            stream.socket.close()
            answer = client.get(f"/api/v1{path}{joined}after={quote(id + chr(0), safe='')}")
            assert answer.status_code == 422, id
            assert answer.json()["code"] in ("invalid_event_id", "invalid_query"), id


def test_a_session_that_is_not_there_is_404(server: Running) -> None:
    with server.client() as client:
        for path in ("/sessions/nowhere/live", "/live?session=nowhere", "/live?session=a&session=b"):
            assert refusal(client.get(f"/api/v1{path}")) == (404, "session_not_found")


def test_a_head_request_opens_no_stream(server: Running, client: httpx.Client) -> None:
    server.store.create("s")
    assert client.head("/api/v1/sessions/s/live").status_code == 200
    assert server.app.hub.streams == 0


def test_the_thread_of_the_hub_ends_with_the_server(server: Running, follow: Follow) -> None:
    stream = follow("/live")
    stream.next()
    assert "clew-live" in {thread.name for thread in threading.enumerate()}
    server.app.stop_streams()
    assert stream.next().event == "bye"
    until(lambda: server.app.hub._thread is None)


def test_a_store_that_cannot_be_read_ends_a_stream_that_resumes(
    s: Session, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = follow("/sessions/s/live")
    head = stream.next("head")
    read = Feed.read

    def fail(self: Feed) -> NoReturn:
        raise StoreBusyError("others hold it")

    monkeypatch.setattr(Feed, "read", fail)
    (entry,) = say(s, "x")
    while (event := stream.next()).event == "entry":  # a look was under way
        say(s, "y")
    assert (event.event, event.data, event.has_id) == ("bye", {"reason": "unavailable"}, False)
    monkeypatch.setattr(Feed, "read", read)

    assert follow("/sessions/s/live", head.id).next().id == entry.id


def test_a_long_session_does_not_hold_up_a_short_one(server: Running, follow: Follow) -> None:
    """Of several sessions in one stream each sends a page in turn."""
    say(server.store.create("long"), *("x" for _ in range(1000)))
    say(server.store.create("short"), "y")
    stream = follow("/live?session=long&session=short&after=start")
    told = [stream.next("entry").data["session"] for _ in range(1001)]

    assert told.index("short") <= 200
