"""Entries over HTTP: reading."""

from __future__ import annotations

import base64
import json
from itertools import chain
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

import clew
from clew.model import Entry
from clew.server.routes import entries as routes
from tests.server.conftest import Running, running
from tests.server.routes.asking import JSON, A, pages, refusal, user
from tests.support.rows import each_row


def said(page: Any) -> list[str]:
    return [one["message"]["content"] for one in page["data"]]


def read(client: httpx.Client, **params: Any) -> Any:
    answer = client.get(f"{A}/entries", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def all_pages(client: httpx.Client, **params: Any) -> list[list[str]]:
    return [[one["id"] for one in page["data"]] for page in pages(client, f"{A}/entries", **params)]


# -- pages


def test_entries_are_what_the_library_gives(session: clew.Session, client: httpx.Client) -> None:
    session.append(*(user(f"{number}") for number in range(5)))
    session.compact("in short")
    session.annotate(2, label="here", note={"a": None})
    page = read(client)
    known = list(session.entries())
    assert [one["id"] for one in page["data"]] == [entry.id for entry in known]
    assert page["cursor"] is None
    assert page["head"] == {"branch": session.head.branch, "position": 5}
    for one, entry in zip(page["data"], known, strict=True):
        assert one["message"] == entry.message
        assert (one["kind"], one["position"], one["hash"]) == (entry.kind, entry.position, entry.hash)
        assert one.get("annotations", {}) == entry.annotations
        assert one["at"].endswith("Z")


def test_a_message_is_given_byte_for_byte(session: clew.Session, client: httpx.Client) -> None:
    text = '{ "role":"user",\n "content" : "caf\\u00e9",  "n": 1.0, "big": 123456789012345678901234567890 }'
    session.append(text)
    assert text.encode() in client.get(f"{A}/entries").content
    assert text.encode() in client.get(f"{A}/entries/{next(session.entries()).id}").content
    assert text.encode() in client.get(f"{A}/messages").content


def test_pages_give_every_entry_once(session: clew.Session, client: httpx.Client) -> None:
    session.append(*(user(f"{number}") for number in range(12)))
    known = [entry.id for entry in session.entries()]
    for limit in (1, 3, 7, 50):
        forward = all_pages(client, limit=limit)
        assert list(chain(*forward)) == known
        assert {len(page) for page in forward[:-1]} <= {limit}
        assert list(chain(*all_pages(client, limit=limit, newest_first="true"))) == known[::-1]
        ends = all_pages(client, last=limit)
        assert list(chain(*reversed(ends))) == known
        assert ends[0] == known[-limit:]


def test_pages_stay_right_while_the_session_grows(session: clew.Session, client: httpx.Client) -> None:
    session.append(*(user(f"{number}") for number in range(6)))
    forward, backward, end = (
        read(client, **params) for params in ({"limit": 4}, {"limit": 4, "newest_first": "true"}, {"last": 4})
    )
    session.append(user("6"), user("7"))
    assert said(read(client, limit=4, cursor=forward["cursor"])) == ["4", "5", "6", "7"]
    assert said(read(client, limit=4, newest_first="true", cursor=backward["cursor"])) == ["1", "0"]
    assert said(read(client, last=4, cursor=end["cursor"])) == ["0", "1"]


def test_a_cursor_that_left_the_path_is_told(session: clew.Session, client: httpx.Client) -> None:
    session.append(*(user(f"{number}") for number in range(6)))
    cursor = read(client, limit=4)["cursor"]
    session.rewind(1)
    session.append(user("x"))
    answer = client.get(f"{A}/entries", params={"limit": 4, "cursor": cursor})
    assert refusal(answer) == (404, "entry_not_found")


def test_s37_a_cursor_is_checked(server: Running, session: clew.Session, client: httpx.Client) -> None:
    session.append(user("mine"))
    other = server.store.create("b").append(user("theirs"))[0]
    session.checkpoint("half")
    for cursor, status in (("half", 422), ("x", 422), ("", 422), ("0", 422), (other.id, 404), ("x.1", 404)):
        answer = client.get(f"{A}/entries", params={"cursor": cursor})
        assert answer.status_code == status, (cursor, answer.text)


def test_points_are_positions_names_and_ids(session: clew.Session, client: httpx.Client) -> None:
    session.append(*(user(f"{number}") for number in range(6)))
    session.checkpoint("half")
    third = list(session.entries())[3]
    assert said(read(client, after=2)) == ["3", "4", "5"]
    assert said(read(client, after=third.id)) == ["4", "5"]
    assert said(read(client, before=2)) == ["0", "1"]
    assert said(read(client, after="start", before=2)) == ["0", "1"]
    session.rewind(1)
    session.append(user("other"))
    assert said(read(client)) == ["0", "1", "other"]
    assert said(read(client, at="half", last=2)) == ["4", "5"]
    assert said(read(client, at=third.id, after=1)) == ["2", "3"]
    session.rewind(0)
    session.checkpoint("start")
    session.append(user("behind"))
    assert said(read(client, after="start")) == ["behind"]


def test_entries_are_found_by_their_label(session: clew.Session, client: httpx.Client) -> None:
    session.append(*(user(f"{number}") for number in range(9)))
    for position in (1, 4, 7):
        session.annotate(position, label="star")
    assert said(read(client, label="star")) == ["1", "4", "7"]
    assert said(read(client, label="star", last=2)) == ["4", "7"]
    page = read(client, label="star", limit=2)
    assert said(read(client, label="star", limit=2, cursor=page["cursor"])) == ["7"]


@each_row(
    ("params", "status", "code"),
    [
        ({"limit": 201}, 422, "invalid"),
        ({"last": 0}, 422, "invalid"),
        ({"view": "xml"}, 422, "invalid"),
        ({"damaged": "maybe"}, 422, "invalid"),
        ({"after": "9"}, 404, "entry_not_found"),
        ({"before": "x" * 600}, 404, "entry_not_found"),
        ({"at": "nowhere"}, 404, "checkpoint_not_found"),
        ({"label": "a\x00"}, 422, "invalid"),
        ({"after": "9" * 4000}, 404, "entry_not_found"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    session: clew.Session, client: httpx.Client, params: dict[str, Any], status: int, code: str
) -> None:
    assert refusal(client.get(f"{A}/entries", params=params)) == (status, code)


# -- large ones


def test_a_page_is_bounded_by_its_size(
    session: clew.Session, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "PAGE_BYTES", 50_000)
    session.append(*(user(f"{number}" + "x" * 20_000) for number in range(6)))
    pages = all_pages(client, limit=6)
    assert [len(page) for page in pages] == [3, 3]
    assert [len(page) for page in all_pages(client, limit=6, view="blocks")] == [2, 2, 2]


def test_a_large_message_is_a_link(session: clew.Session, client: httpx.Client) -> None:
    session.append(user("small"), user("x" * 300_000), user("after"))
    for view in ("raw", "blocks", "html"):
        first, large, _ = read(client, view=view)["data"]
        assert "large" not in first
        assert large["large"]["bytes"] == len(list(session.entries())[1].raw)
        assert not {"message", "blocks", "html"} & large.keys()
        assert len(read(client, view=view, large="true")["data"][1].get("html", "x" * 300_000)) >= 300_000
    whole = client.get(large["large"]["link"]).json()
    assert whole["message"] == user("x" * 300_000)
    assert len(client.get(f"{A}/entries", params={"view": "line"}).content) < 2000


def test_media_are_inline_or_a_link(session: clew.Session, client: httpx.Client) -> None:
    small, big = (base64.b64encode(b"\x89PNG" + bytes(size)).decode() for size in (100, 400_000))
    svg = base64.b64encode(b"<svg onload=alert(1)>" + bytes(40_000)).decode()
    source = {"type": "base64", "media_type": "image/png"}
    session.append(
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image", "source": {**source, "data": small}},
                {"type": "image", "source": {**source, "data": big}},
                {"type": "image", "source": {**source, "media_type": "image/svg+xml", "data": svg}},
                {"type": "image", "source": {"type": "url", "url": "https://elsewhere.example/x.png"}},
                {"type": "image", "source": {**source, "data": "not base64"}},
            ],
        }
    )
    blocks = read(client, view="blocks")["data"][0]["blocks"]
    media = [block["media"] for block in blocks[1:5]]
    assert media[0]["data"] == small
    assert "link" not in media[0]
    assert "data" not in media[1]
    picture = client.get(media[1]["link"])
    assert picture.content == base64.b64decode(big)
    assert picture.headers["content-type"] == "image/png"
    assert picture.headers["x-content-type-options"] == "nosniff"
    assert picture.headers["cache-control"] == "no-store"
    drawing = client.get(media[2]["link"])
    assert drawing.headers["content-type"] == "application/octet-stream"
    assert drawing.headers["content-disposition"].startswith("attachment")
    assert "link" not in media[3]
    assert all("elsewhere" not in block["html"] for block in blocks if "html" in block)
    place = media[1]["link"].rpartition("/")[0]
    for number in ("3", "4", "5", "-1", "x", "9" * 99):
        assert refusal(client.get(f"{place}/{number}")) == (404, "no_such_media"), number


# -- one entry


def test_an_entry_is_immutable(session: clew.Session, client: httpx.Client) -> None:
    session.append(user("x"))
    session.annotate(0, label="l")
    entry = next(session.entries())
    answer = client.get(f"{A}/entries/{entry.id}")
    assert answer.headers["etag"] == f'"{entry.hash}"'
    assert answer.headers["cache-control"] == "no-store", "who signs out leaves nothing on the disk"
    assert "annotations" not in answer.json()
    same = client.get(f"{A}/entries/{entry.id}", headers={"if-none-match": answer.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")
    shown = client.get(f"{A}/entries/{entry.id}", params={"view": "blocks"})
    assert shown.headers["cache-control"] == "no-store"
    assert "etag" not in shown.headers
    assert shown.json()["blocks"][0]["text"] == "x"


def test_entries_of_left_branches_are_found(session: clew.Session, client: httpx.Client) -> None:
    left = session.append(user("a"), user("b"))[1]
    session.rewind(0)
    assert client.get(f"{A}/entries/{left.id}").json()["message"] == user("b")


def test_an_entry_of_another_session_is_not_there(
    server: Running, session: clew.Session, client: httpx.Client
) -> None:
    own = session.append(user("by its hash it is not found"))[0]
    other = server.store.create("b").append(user("x"))[0]
    session.checkpoint("c")
    for id in (other.id, own.hash, "c", "0", "x.0", f"{other.id[:-1]}9"):
        assert refusal(client.get(f"{A}/entries/{id}")) == (404, "entry_not_found"), id


# -- damage


@pytest.fixture
def harmed(tmp_path: Path) -> Path:
    """A store with five messages, one of which is not what was written, and one that is no JSON object."""
    path = tmp_path / "harmed.db"
    with clew.open(path) as store:
        session = store.create("a")
        session.append(*(user(f"{number}") for number in range(5)))
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE entries SET body = zeroblob(5) WHERE (key & 4294967295) = 1")
    connection.close()
    return path


def test_a_damaged_entry_costs_itself(harmed: Path) -> None:
    with clew.open(harmed) as store, running(store) as server, server.client() as client:
        for view in ("raw", "blocks", "line"):
            page = read(client, view=view)
            assert [one["position"] for one in page["data"]] == [0, 2, 3, 4]
            assert [one["position"] for one in page["damaged"]] == [1]
            assert page["damaged"][0]["reason"]
        assert read(client, limit=1)["damaged"] == []
        assert read(client, newest_first="true", limit=3)["damaged"] == []
        assert [one["position"] for one in read(client, newest_first="true", limit=4)["damaged"]] == [1]
        for path in (f"{A}/entries?damaged=raise", f"{A}/messages"):
            answer = client.get(path)
            assert refusal(answer) == (500, "corrupt_entry")
            assert answer.json()["position"] == 1


def test_a_body_that_is_no_json_object_is_never_part_of_an_answer(
    server: Running, session: clew.Session, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a store from elsewhere may hold it: right by its checksums."""
    session.append(user("0"), user("1"), user("2"))
    good = list(session.entries())
    hostile = b'{}},{"id":"forged"'

    def forged(self: clew.Session, **options: Any) -> Any:
        bad = good[1]
        entry = Entry(bad.id, 1, "message", hostile, bad.stamp, bad.digest)
        return iter([good[0], entry, good[2]])

    monkeypatch.setattr(clew.Session, "entries", forged)
    for view in ("raw", "blocks", "html", "line"):
        page = read(client, view=view)
        assert [one["position"] for one in page["data"]] == [0, 2]
        assert [one["position"] for one in page["damaged"]] == [1]
    assert client.get(f"{A}/messages").json()["code"] == "corrupt_entry"


# -- messages, context


def test_messages_are_those_of_the_library(session: clew.Session, client: httpx.Client) -> None:
    session.append(*(user(f"{number}") for number in range(4)))
    session.set_summary("so far")
    session.append(*(user(f"{number}") for number in range(4, 7)))

    def messages(**params: Any) -> Any:
        return client.get(f"{A}/messages", params=params).json()["data"]

    assert messages() == session.messages()
    assert messages(last=4) == session.messages(last=4)
    assert messages(last=4, newest_first="true") == session.messages(last=4, newest_first=True)
    assert messages(before=3) == session.messages(before=3)
    assert messages(after=3) == session.messages(after=3)
    assert messages(at=2) == session.messages(at=2)
    page = client.get(f"{A}/messages", params={"last": 4})
    rest = client.get(page.links["next"]["url"])
    assert rest.json()["data"] + page.json()["data"] == session.messages()
    assert rest.json()["cursor"] is None


def test_the_context_is_that_of_the_library(session: clew.Session, client: httpx.Client) -> None:
    session.append(*(user(f"{number}") for number in range(4)))
    session.compact("in short", upto=1)
    session.append({"role": "tool", "tool_call_id": "lost", "content": "nobody asked"})
    for options in ({}, {"max_messages": 2}, {"max_tokens": 10}, {"at": 3}, {"repair": False}):
        context = session.context(**options)
        answer = client.get(f"{A}/context", params=options).json()
        assert answer["data"] == list(context)
        assert answer["report"]["left_out"] == context.report.left_out
        assert tuple(answer["report"]["repairs"]) == context.report.repairs
    assert client.get(f"{A}/context", params={"max_tokens": -1}).status_code == 422


# -- annotations


def test_annotations_are_merged(session: clew.Session, client: httpx.Client) -> None:
    entry = session.append(user("x"))[0]
    place = f"{A}/entries/{entry.id}/annotations"
    first = client.patch(place, json={"label": "star", "note": {"a": 1, "b": 2}, "self": 1, "entry": 2})
    assert first.status_code == 200, first.text
    second = client.patch(place, json={"note": {"a": None}, "self": None, "none": None})
    known = {"label": "star", "note": {"b": 2}, "entry": 2}
    assert second.json() == {"id": entry.id, "annotations": known}
    assert client.get(place).json()["annotations"] == known == next(session.entries()).annotations
    assert said(read(client, label="star")) == ["x"]
    client.patch(place, json={"label": None, "note": None, "entry": None}).raise_for_status()
    assert next(session.entries()).annotations == {}
    assert read(client, label="star")["data"] == []


def test_an_annotation_that_cannot_be_one_is_refused(session: clew.Session, client: httpx.Client) -> None:
    entry = session.append(user("x"))[0]
    place = f"{A}/entries/{entry.id}/annotations"
    bodies: list[Any] = [{"label": 1}, {"label": ""}, [], {"x": "\ud800"}]
    for body in bodies:
        sent = json.dumps(body)
        answer = client.patch(place, content=sent, headers=JSON)
        assert answer.status_code in (400, 422), (body, answer.text)
    assert client.patch(f"{A}/entries/x.1/annotations", json={}).json()["code"] == "entry_not_found"
