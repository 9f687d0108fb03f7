"""Appends of many requests at once share commits, and each reaches the session that has its id now."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import httpx
import pytest

import clew
from clew.server.call import SMALL
from tests.server.conftest import Running

CLIENTS = 8
EACH = 20


def say(client: httpx.Client, session: str, text: str, **headers: str) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": text}]}
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post(f"/api/v1/sessions/{session}/entries", json=body, headers=sent)


def texts(session: clew.Session) -> list[Any]:
    return [message["content"] for message in session.messages()]


def test_requests_that_come_during_a_commit_share_the_next_one(server: Running) -> None:
    store = server.store
    for number in range(CLIENTS):
        store.create(f"talk-{number}")
    really_write = store._engine.backend.write
    commits: list[bool] = []

    def counted(certain: bool = True) -> Any:
        commits.append(certain)
        return really_write(certain)

    def talk(number: int) -> None:
        with server.client() as client:
            for count in range(EACH):
                say(client, f"talk-{number}", f"{count}").raise_for_status()

    with (
        mock.patch.object(store._engine.backend, "write", counted),
        ThreadPoolExecutor(CLIENTS) as pool,
    ):
        list(pool.map(talk, range(CLIENTS)))

    assert len(commits) < CLIENTS * EACH
    for number in range(CLIENTS):
        assert texts(store.get(f"talk-{number}")) == [f"{count}" for count in range(EACH)]


def test_an_append_reaches_the_session_that_has_the_id_now(server: Running, client: httpx.Client) -> None:
    old = server.store.create("talk")
    assert say(client, "talk", "to the old one").status_code == 201
    server.store.delete("talk")
    assert say(client, "talk", "to none").status_code == 404
    new = server.store.create("talk")

    assert say(client, "talk", "to the new one").status_code == 201
    assert texts(new) == ["to the new one"]
    assert old != new


def test_an_append_follows_an_alias_that_was_moved(server: Running, client: httpx.Client) -> None:
    first, second = server.store.create("first"), server.store.create("second")
    first.add_alias("current")
    assert say(client, "current", "one").status_code == 201
    second.add_alias("current", move=True)
    assert say(client, "current", "two").status_code == 201

    assert (texts(first), texts(second)) == (["one"], ["two"])


@pytest.mark.parametrize("size", [10, SMALL + 1])
def test_key_head_and_lease_count_for_small_and_large_messages(
    serve: Callable[..., Running], size: int
) -> None:
    server = serve()
    session = server.store.create("talk")
    text = "x" * size
    with server.client() as client:
        first = say(client, "talk", text, idempotency_key="k")
        again = say(client, "talk", text, idempotency_key="k")
        assert (first.status_code, again.json()["data"]) == (201, first.json()["data"])
        assert say(client, "talk", text + "!", idempotency_key="k").json()["code"] == "key_reused"
        assert say(client, "talk", text, if_match='"start"').status_code == 412
        with session.run(owner="another"):
            assert say(client, "talk", text).status_code == 423
        assert say(client, "talk", text, clew_lease="7.abc").status_code == 409

    assert texts(session) == [text]
