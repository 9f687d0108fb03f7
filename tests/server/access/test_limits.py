"""How much one caller may ask for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import httpx

from clew.server.access.limits import MOST_KEPT, Buckets
from clew.server.access.shares import add_share
from clew.server.access.tokens import add_token
from tests.server.access.requests import answer_with
from tests.server.conftest import Running

Serve = Callable[..., Running]


def test_a_bucket_holds_a_burst_and_fills_again() -> None:
    buckets = Buckets(2, 3)
    assert [buckets.take("a", 0.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("b", 0.0) == 0
    assert buckets.take("a", 0.5) == 0
    assert buckets.take("a", 0.5) == 0.5
    assert buckets.wait("a", 100.0) == 0
    assert [buckets.take("a", 100.0) for _ in range(4)] == [0, 0, 0, 0.5], "it never holds more"
    assert buckets.take("c", 5.0) == 0
    assert buckets.take("c", 1.0) == 0, "a clock that goes back takes nothing away"


def test_there_is_a_bound_on_what_is_remembered() -> None:
    buckets = Buckets(1, 1)
    for number in range(MOST_KEPT + 100):
        buckets.take(str(number), 0.0)
    assert len(buckets._held) == MOST_KEPT
    assert buckets.take(str(MOST_KEPT + 99), 0.0) > 0, "the newest are kept"


def test_a_token_that_asks_too_often_has_to_wait_and_others_do_not(serve: Serve) -> None:
    server = serve(rate=5, burst=10)
    tokens = [add_token(server.store, name)[1] for name in ("one", "two")]
    with server.client(tokens[0]) as client:
        answers = [client.get("/api/v1/me") for _ in range(20)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused
        assert int(refused[0].headers["retry-after"]) >= 1
        assert refused[0].json()["code"] == "too_many_requests"
        assert [answer.status_code for answer in answers[:10]] == [200] * 10
        time.sleep(0.5)
        assert client.get("/api/v1/me").status_code == 200
    with server.client(tokens[1]) as client:
        assert client.get("/api/v1/me").status_code == 200
    with server.client() as owner:
        assert {owner.get("/api/v1/me").status_code for _ in range(30)} == {200}


def test_a_share_may_ask_for_a_tenth(serve: Serve) -> None:
    server = serve(rate=10, burst=50)
    session = server.store.create("a")
    _, token = add_share(server.store, session, at=None)
    with server.client(token) as client:
        seen = [client.get("/api/v1/me").status_code for _ in range(10)]
    assert seen[:5] == [200] * 5
    assert 429 in seen


def test_requests_at_the_same_time_are_bounded(serve: Serve) -> None:
    server = serve(concurrent=2, threads=8)
    go_on = threading.Event()

    def waiting(**_: object) -> dict[str, bool]:
        return {"done": go_on.wait(25)}

    answer_with(server, "GET /api/v1/stats", waiting)
    _, token = add_token(server.store, "one")
    seen: list[int] = []

    def ask() -> None:
        with server.client(token, timeout=30) as client:
            seen.append(client.get("/api/v1/stats").status_code)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    while len(seen) < 2 and time.monotonic() - began < 20:
        time.sleep(0.02)
    assert seen == [429, 429]
    with httpx.Client(base_url=server.url, trust_env=False) as nobody:
        assert nobody.get("/health").status_code == 200
    go_on.set()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [200, 200, 429, 429]
