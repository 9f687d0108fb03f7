"""How much one caller may ask for."""

from __future__ import annotations

import threading
from collections.abc import Callable

import httpx

from clew.server.access.limits import MOST_KEPT, Buckets
from clew.server.access.shares import add_share
from clew.server.access.tokens import add_token
from tests.server.access.requests import answer_with
from tests.server.conftest import Running
from tests.support.waiting import until

Serve = Callable[..., Running]


def test_a_bucket_holds_a_burst_and_fills_again() -> None:
    buckets = Buckets(2, 3)
    assert [buckets.take("a", 0.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("b", 0.0) == 0
    assert buckets.take("a", 0.5) == 0
    assert buckets.take("a", 0.5) == 0.5
    assert [buckets.take("a", 100.0) for _ in range(4)] == [0, 0, 0, 0.5], "it never holds more"
    assert buckets.take("c", 5.0) == 0
    assert buckets.take("c", 1.0) == 0, "a clock that goes back takes nothing away"


def test_there_is_a_bound_on_what_is_remembered() -> None:
    buckets = Buckets(1, 1)
    for number in range(MOST_KEPT + 100):
        buckets.take(str(number), 0.0)
    assert len(buckets._held) == MOST_KEPT
    assert buckets.take(str(MOST_KEPT + 99), 0.0) > 0, "the newest are kept"


def statuses(client: httpx.Client, times: int) -> list[int]:
    return [client.get("/api/v1/me").status_code for _ in range(times)]


def test_a_token_that_asks_too_often_has_to_wait_and_others_do_not(serve_timed: Serve) -> None:
    server = serve_timed(rate=0.5, burst=10)
    tokens = [add_token(server.store, name)[1] for name in ("one", "two")]
    with server.client(tokens[0]) as client:
        assert statuses(client, 11) == [200] * 10 + [429]
        refused = client.get("/api/v1/me")
        assert (refused.headers["retry-after"], refused.json()["code"]) == ("2", "too_many_requests")
        server.wait(2)
        assert statuses(client, 2) == [200, 429]
    with server.client(tokens[1]) as client:
        assert client.get("/api/v1/me").status_code == 200
    with server.client() as owner:
        assert set(statuses(owner, 30)) == {200}


def test_a_share_may_ask_for_a_tenth(serve_timed: Serve) -> None:
    server = serve_timed(rate=10, burst=50)
    session = server.store.create("a")
    _, token = add_share(server.store, session, at=None)
    with server.client(token) as client:
        assert statuses(client, 6) == [200] * 5 + [429]
        server.wait(1)
        assert statuses(client, 2) == [200, 429]


def test_requests_at_the_same_time_are_bounded(serve: Serve) -> None:
    server = serve(concurrent=2, threads=8)
    go_on = threading.Event()

    def waiting(**_: object) -> dict[str, bool]:
        return {"done": go_on.wait()}

    answer_with(server, "GET /api/v1/stats", waiting)
    _, token = add_token(server.store, "one")
    seen: list[int] = []

    def ask() -> None:
        with server.client(token) as client:
            seen.append(client.get("/api/v1/stats").status_code)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: len(seen) == 2)
    assert seen == [429, 429]
    with httpx.Client(base_url=server.url, trust_env=False) as nobody:
        assert nobody.get("/health").status_code == 200
    go_on.set()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [200, 200, 429, 429]
