"""Appends of many requests at once share commits, whatever their size."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import httpx

import clew
from clew.server.call import SMALL
from tests.server.conftest import Running
from tests.support.rows import each_row
from tests.support.waiting import until

CLIENTS = 8


def say(client: httpx.Client, session: str, text: str, **headers: str) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": text}]}
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post(f"/api/v1/sessions/{session}/entries", json=body, headers=sent)


def texts(session: clew.Session) -> list[Any]:
    return [message["content"] for message in session.messages()]


def test_requests_that_come_during_a_commit_share_the_next_one(server: Running) -> None:
    engine, is_first, go_on = server.store._engine, threading.Event(), threading.Event()
    for number in range(CLIENTS):
        server.store.create(f"talk-{number}")
    write, post = engine.backend.write, engine.background.post
    commits: list[bool] = []
    posted: list[Any] = []

    def slow_write(certain: bool = True) -> Any:
        commits.append(certain)
        if len(commits) == 1:
            is_first.set()
            go_on.wait()
        return write(certain)

    def noted_post(group: Any, *, wait: bool = True) -> None:
        post(group, wait=wait)
        posted.extend(group)

    def talk(number: int) -> None:
        with server.client() as client:
            say(client, f"talk-{number}", f"{number}").raise_for_status()

    with (
        mock.patch.object(engine.backend, "write", slow_write),
        mock.patch.object(engine.background, "post", noted_post),
        ThreadPoolExecutor(CLIENTS) as pool,
    ):
        talks = [pool.submit(talk, 0)]
        is_first.wait()
        talks += [pool.submit(talk, number) for number in range(1, CLIENTS)]
        until(lambda: len(posted) == CLIENTS)
        go_on.set()
        for each in talks:
            each.result()

    assert len(commits) == 2
    for number in range(CLIENTS):
        assert texts(server.store.get(f"talk-{number}")) == [f"{number}"]


@each_row("size", [10, SMALL + 1])
def test_key_head_and_lease_count_for_small_and_large_messages(server: Running, size: int) -> None:
    id = f"talk-{size}"
    session = server.store.create(id)
    text = "x" * size
    with server.client() as client:
        first = say(client, id, text, idempotency_key="k")
        again = say(client, id, text, idempotency_key="k")
        assert (first.status_code, again.json()["data"]) == (201, first.json()["data"])
        assert say(client, id, text + "!", idempotency_key="k").json()["code"] == "key_reused"
        assert say(client, id, text, if_match='"start"').status_code == 412
        with session.run(owner="another"):
            assert say(client, id, text).status_code == 423
        assert say(client, id, text, clew_lease="7.abc").status_code == 409

    assert texts(session) == [text]
