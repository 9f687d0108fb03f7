"""Appends over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import httpx

import clew
from tests.server.conftest import Running
from tests.server.routes.asking import JSON, A, S, refusal, user
from tests.support.rows import each_row


def append(client: httpx.Client, *messages: Any, session: str = "a", **headers: str) -> httpx.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post(f"{S}/{session}/entries", json={"messages": messages}, headers=sent)


def test_the_answer_names_what_was_written(session: clew.Session, client: httpx.Client) -> None:
    answer = append(client, user("one"), user("two"))
    known = list(session.entries())
    assert answer.status_code == 201
    assert [(one["id"], one["position"], one["hash"], one["kind"]) for one in answer.json()["data"]] == [
        (entry.id, entry.position, entry.hash, "message") for entry in known
    ]
    head = session.head
    assert answer.json()["head"] == {"branch": head.branch, "position": head.position}
    assert answer.headers["etag"] == f'"{head}"'
    assert client.get(answer.headers["location"]).json()["message"] == user("two")


def test_messages_are_kept_byte_for_byte(session: clew.Session, client: httpx.Client) -> None:
    bodies = [b'{"b":1,\n "a" : [1.0, 1e5, "caf\\u00e9"] }', '{"x":"caf\u00e9 \U0001f600"}'.encode(), b"{}"]
    content = b'{"strict": true, "messages": [' + b",".join(bodies) + b"]}"
    answer = client.post(f"{A}/entries", content=content, headers=JSON)
    assert answer.status_code == 201, answer.text
    assert [entry.raw for entry in session.entries()] == bodies


def test_a_large_batch_takes_the_other_way(session: clew.Session, client: httpx.Client) -> None:
    append(client, *(user("x" * 1000) for _ in range(500)), idempotency_key="k").raise_for_status()
    append(client, *(user("x" * 1000) for _ in range(500)), idempotency_key="k").raise_for_status()
    assert session.info.messages == 500


def test_a_repeat_with_the_same_key_happens_once(session: clew.Session, client: httpx.Client) -> None:
    first = append(client, user("x"), idempotency_key="turn-1")
    append(client, user("between")).raise_for_status()
    again = append(client, user("x"), idempotency_key="turn-1")
    quoted = append(client, user("x"), idempotency_key='"turn-1"')
    assert again.content == quoted.content == first.content
    assert again.status_code == first.status_code == 201
    assert session.info.messages == 2
    assert refusal(append(client, user("y"), idempotency_key="turn-1")) == (422, "key_reused")


def test_an_append_to_an_old_head_is_refused_with_the_present_one(
    session: clew.Session, client: httpx.Client
) -> None:
    first = append(client, user("0"), if_match='"start"')
    assert first.status_code == 201
    tag = first.headers["etag"]
    assert append(client, user("1"), if_match=tag).status_code == 201
    late = append(client, user("late"), if_match=tag)
    assert refusal(late) == (412, "head_moved")
    head = session.head
    assert late.json()["head"] == {"branch": head.branch, "position": head.position}
    assert [message["content"] for message in session.messages()] == ["0", "1"]
    weak = client.get(A).headers["etag"]
    assert append(client, user("2"), if_match=weak).status_code == 201
    assert append(client, user("3"), if_match="*").status_code == 201
    for bad in ("x", '"x"', '""', 'W/"1"'):
        assert refusal(append(client, user("no"), if_match=bad)) == (400, "invalid_header"), bad


def test_a_time_from_elsewhere_is_kept(session: clew.Session, client: httpx.Client) -> None:
    sent = {"messages": [user("x")], "at": "2020-02-03T04:05:06.000007+01:00"}
    answer = client.post(f"{A}/entries", json=sent)
    assert answer.json()["data"][0]["at"] == "2020-02-03T03:05:06.000007Z"
    assert next(session.entries()).time == datetime(2020, 2, 3, 3, 5, 6, 7, tzinfo=UTC)
    naive = client.post(f"{A}/entries", json={"messages": [user("x")], "at": "2020-02-03T04:05:06"})
    assert naive.status_code == 422


def test_half_a_character_costs_itself_and_nothing_else(session: clew.Session, client: httpx.Client) -> None:
    messages = [
        rb'{ "a": "\ud83d\ude00 \\ud800 \u00e9" }',
        rb'{"b": "\uD83D", "c": "\\\udfffx", "d": "\ud800\ud83d\ude00"}',
        rb'{"e" : "\ue000"}',
    ]
    body = b'{"messages": [' + b" , ".join(messages) + b"]}"
    answer = client.post(f"{A}/entries", content=body, headers=JSON)
    assert answer.status_code == 201, answer.text
    first, second, third = session.entries()
    assert (first.raw, third.raw) == (messages[0], messages[2])
    assert second.message == {"b": "\ufffd", "c": "\\\ufffdx", "d": "\ufffd\U0001f600"}
    assert [entry.replaced for entry in (first, second, third)] == [False, True, False]
    assert [one.get("replaced", False) for one in answer.json()["data"]] == [False, True, False]
    elsewhere = b'{"messages": [{"a": "\\ud800"}], "at": "\\udc00"}'
    assert refusal(client.post(f"{A}/entries", content=elsewhere, headers=JSON)) == (400, "invalid_json")


@each_row(
    ("body", "status", "code"),
    [
        (b'{"messages": []}', 422, "invalid"),
        (b'{"messages": {}}', 422, "invalid"),
        (b"{}", 422, "invalid"),
        (b'{"messages": [1]}', 422, "invalid_entry"),
        (b'{"messages": ["x"]}', 422, "invalid_entry"),
        (b'{"messages": [null]}', 422, "invalid_entry"),
        (b'{"messages": [{"role": "user"}, "bad"]}', 422, "invalid_entry"),
        (b'{"messages": [{"a": "\\ud800"}], "strict": true}', 422, "invalid_entry"),
        (b'{"messages": [{"a": NaN}]}', 400, "invalid_json"),
        (b'{"messages": [{"a": 1, "a": 2}]}', 422, "invalid_entry"),
        (b'{"messages": [{"a": 1}', 400, "invalid_json"),
        (b'{"messages": [{}], "mesages": []}', 422, "invalid"),
        (b'{"messages": [' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"]}", 422, "invalid_entry"),
        (b'{"messages": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}", 400, "invalid_json"),
        (b'{"messages": [' + b",".join([b"{}"] * 1001) + b"]}", 413, "too_many"),
        (b"\xff\xfe", 400, "invalid_json"),
        (b"", 415, "unsupported_media_type"),
    ],
)
def test_what_is_no_batch_is_refused(
    session: clew.Session, client: httpx.Client, body: bytes, status: int, code: str
) -> None:
    answer = client.post(f"{A}/entries", content=body, headers=JSON if body else {})
    assert refusal(answer) == (status, code), answer.text
    assert session.info.messages == 0


def test_a_limit_of_the_server(serve: Callable[..., Running]) -> None:
    server = serve(max_batch=2)
    server.store.create("a")
    with server.client() as client:
        assert append(client, user("1"), user("2")).status_code == 201
        assert append(client, user("1"), user("2"), user("3")).json()["code"] == "too_many"


def test_only_the_worker_writes_while_its_lease_holds(session: clew.Session, client: httpx.Client) -> None:
    run = client.post(f"{A}/runs", json={"owner": "w"}).json()
    assert refusal(append(client, user("other"))) == (423, "lease_held")
    assert append(client, user("mine"), clew_lease=run["secret"]).status_code == 201
    assert append(client, user("remark"), clew_lease="*").status_code == 201
    session.run(steal=True, owner="thief")
    assert refusal(append(client, user("late"), clew_lease=run["secret"])) == (409, "lease_lost")
    assert [(entry.message["content"], entry.epoch) for entry in session.entries()] == [
        ("mine", 1),
        ("remark", 0),
    ]


# -- handles that are remembered


def test_a_session_of_the_same_id_that_came_later_gets_the_append(
    server: Running, session: clew.Session, client: httpx.Client
) -> None:
    append(client, user("old")).raise_for_status()
    server.store.delete("a")
    assert refusal(append(client, user("to nobody"))) == (404, "session_not_found")
    new = server.store.create("a")
    append(client, user("new")).raise_for_status()
    assert new.messages() == [user("new")]
    server.store.delete("a", purge=True)
    other = server.store.create("a")
    append(client, user("newest")).raise_for_status()
    assert other.messages() == [user("newest")]


def test_an_alias_is_looked_up_every_time(
    server: Running, session: clew.Session, client: httpx.Client
) -> None:
    other = server.store.create("b")
    session.add_alias("now")
    append(client, user("1"), session="now").raise_for_status()
    other.add_alias("now", move=True)
    append(client, user("2"), session="now").raise_for_status()
    assert (session.messages(), other.messages()) == ([user("1")], [user("2")])


def test_many_clients_at_once_lose_nothing(server: Running, session: clew.Session) -> None:
    def work(worker: int) -> list[int]:
        with server.client() as client:
            answers = [append(client, user(f"{worker}-{number}")) for number in range(25)]
        return [answer.json()["data"][0]["position"] for answer in answers]

    with ThreadPoolExecutor(8) as pool:
        positions = sorted(chain(*pool.map(work, range(8))))
    assert positions == list(range(200))
    assert len({json.dumps(message) for message in session.messages()}) == 200
