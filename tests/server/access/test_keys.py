"""An Idempotency-Key is its caller's business: no store holds it in clear, and no answer shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import clew
from clew.core.log.keys import HASHED, key_name
from clew.server.access.tokens import add_token
from tests.server.conftest import Running
from tests.server.routes.asking import refusal, user

KEY = "invoice-4711-of-ana"
SENT = {"idempotency-key": KEY}
A = "/api/v1/sessions/a"
SHOWN = [
    A, f"{A}/entries", f"{A}/events", f"{A}/usage/records", f"{A}/tree", f"{A}/context", "/api/v1/stats",
    *(f"{A}/export?format={format}" for format in ("jsonl", "json", "markdown", "html")),
]  # fmt: skip


def post_all(client: httpx.Client) -> list[httpx.Response]:
    """Everything that takes a key, with the same one."""
    answers = [
        client.post(f"{A}/entries", json={"messages": [user("pay")]}, headers=SENT),
        client.post(f"{A}/events", json={"events": [{"type": "t"}, {"type": "u"}]}, headers=SENT),
        client.post(f"{A}/usage", json={"model": "m", "input_tokens": 5}, headers=SENT),
        client.post("/v1/conversations", json={"items": [user("pay")]}, headers=SENT),
    ]
    assert {answer.status_code for answer in answers} <= {200, 201}, [answer.text for answer in answers]
    return answers


@pytest.fixture
def reader(server: Running) -> Iterator[httpx.Client]:
    """A client that may read, and nothing else."""
    _, text = add_token(server.store, "reader", scopes=["read"])
    with server.client(text) as found:
        yield found


def counts(store: clew.Store) -> tuple[int, ...]:
    a = store.get("a")
    return len(a.messages()), a.count_events().added, len(a.usage_records()), store.stats().sessions


@pytest.mark.parametrize("who", ["owner", "token"])
def test_no_key_is_stored_or_shown(server: Running, reader: httpx.Client, tmp_path: Path, who: str) -> None:
    """Neither that of the owner, nor that of a token; and a repeat finds its answer all the same."""
    server.store.create("a")
    _, text = add_token(server.store, f"writer of {who}", scopes=["write"])
    with server.client() if who == "owner" else server.client(text) as client:
        first, again = post_all(client), post_all(client)
        assert [answer.content for answer in again] == [answer.content for answer in first]
    assert counts(server.store) == (1, 2, 1, 2)

    told = b"".join(answer.content for answer in (*first, *map(reader.get, SHOWN)))
    assert KEY.encode() not in told
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert all(KEY.encode() not in content for content in files)


def test_a_key_that_stands_for_something_else_is_named_as_it_was_sent(
    server: Running, client: httpx.Client
) -> None:
    """Not by its hash, which says nothing to its caller."""
    server.store.create("a")
    post_all(client)
    for path, body in (
        ("entries", {"messages": [user("another")]}),
        ("events", {"events": [{"type": "other"}, {"type": "u"}]}),
        ("usage", {"model": "other", "input_tokens": 5}),
    ):
        answer = client.post(f"{A}/{path}", json=body, headers=SENT)
        assert refusal(answer) == (422, "key_reused"), path
        assert answer.json()["key"] == KEY
        assert HASHED not in answer.text


def test_no_caller_takes_the_place_of_a_key(server: Running, client: httpx.Client) -> None:
    """Ids of the form that is made of keys are nobody's to choose."""
    server.store.create("a")
    for path, body in (
        ("events", {"events": [{"type": "t", "id": f"{HASHED}abc/0"}]}),
        ("usage", {"model": "m", "id": f"{HASHED}abc"}),
    ):
        assert refusal(client.post(f"{A}/{path}", json=body)) == (422, "invalid"), path
    assert server.store.get("a").count_events().added == 0


@pytest.mark.parametrize("who", ["owner", "token"])
def test_what_an_older_clew_stored_in_clear_is_found_by_its_key(
    server: Running, reader: httpx.Client, who: str
) -> None:
    """And shown no more, as far as it can be told from an id that somebody chose: that of a token."""
    token, text = add_token(server.store, "writer", scopes=["write"])
    key = KEY if who == "owner" else f"{token.id}:{KEY}"
    a = server.store.create("a")
    a.append(user("pay"), key=key)
    a.add_events([{"type": "t", "id": f"{key}/0"}, {"type": "u", "id": f"{key}/1"}])
    a.add_usage(model="m", input_tokens=5, id=key)

    def store_in_clear(tx: Any) -> None:
        row = tx.find_session("a")
        tx.put_record(row.sid, "key", key, tx.get_record(row.sid, "key", key_name(key)))
        tx.drop_record(row.sid, "key", key_name(key))

    server.store._engine.run(store_in_clear)
    with server.client() if who == "owner" else server.client(text) as client:
        post_all(client)
    assert counts(server.store) == (1, 2, 1, 2)
    shown = {path: reader.get(path).text for path in SHOWN}
    if who == "owner":
        shown = {A: shown[A]}
    assert [path for path, told in shown.items() if KEY in told] == []


def test_a_copy_and_an_import_find_what_a_key_stands_for(server: Running, tmp_path: Path) -> None:
    """Keys are stored under names that every store computes alike, also those that were stored in clear."""
    a = server.store.create("a")
    once = a.append(user("pay"), key=KEY)

    def store_in_clear(tx: Any) -> None:
        row = tx.find_session("a")
        tx.put_record(row.sid, "key", KEY, tx.get_record(row.sid, "key", key_name(KEY)))
        tx.drop_record(row.sid, "key", key_name(KEY))

    server.store._engine.run(store_in_clear)
    assert a.append(user("pay"), key=KEY) == once
    file = tmp_path / "a.jsonl"
    file.write_text(server.store.export("a", "jsonl"))
    assert KEY not in file.read_text()
    with clew.open(tmp_path / "imported.db") as imported, clew.open(tmp_path / "copied.db") as copied:
        imported.import_path(file)
        clew.copy(server.store, copied)
        for other in (imported, copied):
            assert other.get("a").append(user("pay"), key=KEY) == once
            assert len(other.get("a").messages()) == 1
