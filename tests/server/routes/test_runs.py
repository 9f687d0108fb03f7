"""Runs over HTTP: leases are the client's, and every write is fenced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest

import clew
from clew.core.runs.lease import Pauses
from clew.server.routes import runs
from clew.server.routing import Route
from clew.testing.backend.base import Ticking
from tests.server.access.requests import bodies, path_of
from tests.server.conftest import Running, running
from tests.server.routes.asking import A, refusal, user
from tests.support.rows import each_row


@pytest.fixture(autouse=True)
def _session(server: Running) -> None:
    server.store.create("a").append(user("hello"))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a request begins to wait for a lease. It waits for as long as it has to."""
    begun = threading.Event()

    class Patient(Pauses):
        def next(self) -> float:
            begun.set()
            return 0.01

    monkeypatch.setattr(runs, "Pauses", Patient)
    return begun


def start(client: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = client.post(f"{A}/runs", json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def under(run: dict[str, Any]) -> dict[str, str]:
    return {"clew-lease": run["secret"]}


def test_a_run_from_its_start_to_its_end(server: Running, client: httpx.Client) -> None:
    run = start(client, request={"fix": "it"}, task="fix", owner="worker-7", lease=60)
    assert (run["epoch"], run["owner"], run["task"]) == (1, "worker-7", "fix")
    lease = client.get(f"{A}/lease").json()["lease"]
    assert lease["expires_at"] == run["expires_at"]
    assert server.store.get("a").lease == msgspec.convert(lease, clew.model.LeaseInfo)

    marked = client.post(
        f"{A}/runs/1/checkpoints",
        json={"state": {"step": 2}, "iteration": 3, "system_prompt": "Be brief"},
        headers=under(run),
    )
    assert marked.status_code == 201
    assert marked.json() == msgspec.to_builtins(server.store.get("a").resume().checkpoint)
    resumed = client.get(f"{A}/resume", params={"system_prompt": "Be long"}).json()
    assert resumed["changed"] == ["system_prompt"]
    assert resumed["messages"] == [{"role": "user", "content": "hello"}]

    done = client.post(f"{A}/runs/1/complete", json={"response": "fixed"}, headers=under(run))
    assert (done.status_code, done.content) == (204, b"")
    info = server.store.get("a").info
    assert info.run is not None
    assert (info.status, info.run.owner, info.run.response) == ("completed", "worker-7", "fixed")
    assert client.get(f"{A}/lease").json() == {"lease": None}


def test_a_run_ends_in_other_ways(server: Running, client: httpx.Client) -> None:
    ways: list[tuple[str, Any, str]] = [
        ("fail", {"error": "out of luck"}, "failed"),
        ("close", None, "closed"),
    ]
    for step, body, status in ways:
        run = start(client)
        done = client.post(f"{A}/runs/{run['epoch']}/{step}", json=body, headers=under(run))
        assert done.status_code == 204, done.text
        info = server.store.get("a").info
        assert info.status == status
        assert info.run is not None
        assert info.run.error == (body or {}).get("error")


def test_another_worker_is_told_who_has_the_lease_and_when_to_ask_again(timed: Running) -> None:
    timed.store.create("a")
    with timed.client() as client:
        run = start(client, owner="first", lease=40)
        timed.wait(5)
        for wait in (0, 0.01):
            answer = client.post(f"{A}/runs", json={"owner": "second", "wait": wait})
            assert refusal(answer) == (423, "lease_held")
            assert answer.json()["owner"] == "first"
            assert answer.json()["expires_at"] == run["expires_at"]
            assert answer.json()["retryable"] is True
            assert answer.headers["retry-after"] == "35"


def test_a_request_waits_for_a_lease_and_gets_it_and_takes_no_thread_from_others(
    serve: Callable[..., Running], waits: threading.Event
) -> None:
    with clew.open("memory:") as store, ThreadPoolExecutor(1) as callers:
        store.create("a")
        server = serve(store, threads=1)
        with server.client() as waiting, server.client() as client:
            first = start(client, owner="first")
            second = callers.submit(start, waiting, owner="second", wait=10)
            waits.wait()
            assert client.get(f"{A}/lease").json()["lease"]["owner"] == "first"
            client.post(f"{A}/runs/1/complete", json={}, headers=under(first)).raise_for_status()
            assert second.result()["epoch"] == 2


def test_a_wait_is_bounded(client: httpx.Client) -> None:
    answer = client.post(f"{A}/runs", json={"wait": 21})
    assert refusal(answer) == (422, "invalid")
    assert "wait" in answer.json()["detail"]


def test_s21_a_lease_is_used_by_its_worker_only(client: httpx.Client) -> None:
    """No guess and no other's lease renews it, ends it, writes under it, or tells anything about it."""
    run = start(client, lease=30, owner="worker")
    renewed = client.put(f"{A}/runs/1", headers=under(run))
    assert renewed.status_code == 200
    assert renewed.json()["expires_at"] > run["expires_at"]
    epoch, _, fence = run["secret"].partition(".")
    for guess in (f"{epoch}.{int(fence, 16) ^ 1:x}", f"{int(epoch) + 1}.{fence}"):
        for method, step, body in (
            ("PUT", "/runs/1", None),
            ("POST", "/runs/1/complete", {}),
            ("POST", "/runs/1/fail", {"error": "x"}),
            ("POST", "/runs/1/close", None),
            ("POST", "/runs/1/checkpoints", {}),
            ("POST", "/entries", {"messages": [user("stolen")]}),
        ):
            answer = client.request(method, f"{A}{step}", json=body, headers={"clew-lease": guess})
            assert refusal(answer) == (409, "lease_lost")
            assert fence not in answer.text
    assert client.get(f"{A}/lease").json()["lease"]["owner"] == "worker"


@pytest.fixture
def _run(client: httpx.Client) -> None:
    start(client)


@pytest.mark.usefixtures("_run")
@each_row("step", ["", "/complete", "/fail", "/close", "/checkpoints"])
@each_row("header", [{}, {"clew-lease": "*"}])
def test_a_run_is_not_touched_without_its_lease(
    client: httpx.Client, step: str, header: dict[str, str]
) -> None:
    method = "POST" if step else "PUT"
    body = {"error": "x"} if step == "/fail" else {} if step in ("/complete", "/checkpoints") else None
    answer = client.request(method, f"{A}/runs/1{step}", json=body, headers=header)
    assert refusal(answer) == (428, "lease_required")
    assert "Clew-Lease" in answer.json()["next"]


def test_the_epoch_in_the_path_is_that_of_the_lease(client: httpx.Client) -> None:
    run = start(client)
    assert client.put(f"{A}/runs/2", headers=under(run)).status_code == 409
    assert client.put(f"{A}/runs/one", headers=under(run)).status_code == 404


def test_a_stolen_lease_is_lost(server: Running, client: httpx.Client) -> None:
    first = start(client, owner="first")
    second = start(client, owner="second", steal=True)
    lost = client.put(f"{A}/runs/1", headers=under(first))
    assert refusal(lost) == (409, "lease_lost")
    assert (lost.json()["owner"], lost.json()["current_epoch"]) == ("second", 2)
    assert client.put(f"{A}/runs/2", headers=under(second)).status_code == 200


def test_a_lease_ends_by_time_alone() -> None:
    wall, steady = Ticking(step=0), Ticking(now=5_000_000, step=0)
    with clew.Store(clew.open("memory:")._engine.backend, clock=wall, steady=steady) as store:
        store.create("a")
        with running(store) as server, server.client() as client:
            run = start(client, lease=30)
            steady.now += 30_000_001
            assert client.get(f"{A}/lease").json() == {"lease": None}
            assert start(client, owner="next")["epoch"] == 2
            assert client.put(f"{A}/runs/1", headers=under(run)).status_code == 409


@each_row("header", ["", "1", "x.y", "1.0", "0.1", "1.ff; drop", "1." + "f" * 17])
def test_a_lease_that_cannot_be_one_is_refused(client: httpx.Client, header: str) -> None:
    assert refusal(client.put(f"{A}/runs/1", headers={"clew-lease": header})) == (400, "invalid_header")


def test_the_owner_is_the_caller_unless_it_says_otherwise(client: httpx.Client) -> None:
    assert start(client)["owner"] == "owner"


def test_times_are_utc_with_microseconds(timed: Running) -> None:
    timed.store.create("a")
    with timed.client() as client:
        moment = datetime.fromisoformat(start(client, lease=60)["expires_at"])
    now = datetime.fromtimestamp(timed.clock.now / 1_000_000, UTC)
    assert timedelta(seconds=59) < moment - now <= timedelta(seconds=60)


# -- fencing, over the whole table of routes: a route that is added later is tried too


VALUES = {"id": "a", "epoch": "1", "entry": "0", "name": "half", "alias": "other", "document": "d"}


def writes(routes: list[Route]) -> Iterator[Route]:
    for route in routes:
        is_write = route.method != "GET" and route.scope in ("write", "admin", "files")
        if is_write and not route.is_private and route.path.startswith("/api/v1/sessions/{id}"):
            yield route


def sent(client: httpx.Client, route: Route, headers: dict[str, str]) -> httpx.Response:
    body = {"text": "x"} if route.path.endswith("/compact") else next(bodies(route, VALUES))
    content = {"content": body} if isinstance(body, bytes) else {"json": body}
    return client.request(route.method, path_of(route, VALUES), headers=headers, **content)


def test_no_write_of_a_worker_that_lost_its_lease_is_taken(server: Running, client: httpx.Client) -> None:
    """Every writing route below a session, with the lease of a run that is over."""
    session = server.store.get("a")
    run = start(client, owner="late")
    client.post(f"{A}/runs/1/complete", json={}, headers=under(run)).raise_for_status()
    session.checkpoint("half")
    before = session.info
    tried = list(writes(server.app.router.routes))
    assert len(tried) >= 6
    for route in tried:
        answer = sent(client, route, under(run))
        told = f"{route.method} {route.path}: {answer.status_code} {answer.text}"
        assert (answer.status_code, answer.json().get("code")) == (409, "lease_lost"), told
    assert session.info == before


BESIDE = {
    ("PUT", ""), ("PATCH", ""), ("POST", "/restore"), ("POST", "/touch"), ("PUT", "/aliases/{alias}"),
    ("DELETE", "/aliases/{alias}"), ("PATCH", "/entries/{entry}/annotations"), ("POST", "/fork"),
    ("POST", "/events"), ("POST", "/usage"),
}  # fmt: skip
"""Writes beside the conversation: the lease of another worker does not stop them."""


def test_every_other_write_is_refused_while_a_worker_holds_the_lease(
    server: Running, client: httpx.Client
) -> None:
    session = server.store.get("a")
    session.checkpoint("half")
    run = start(client, owner="worker")
    refused = set()
    for route in writes(server.app.router.routes):
        if "/runs/" in route.path:
            continue  # without a lease these are refused by another name
        answer = sent(client, route, {})
        if answer.status_code == 423:
            assert answer.json()["owner"] == "worker"
            assert int(answer.headers["retry-after"]) >= 1
            refused.add((route.method, route.path.removeprefix("/api/v1/sessions/{id}")))
    every = {
        (one.method, one.path.removeprefix("/api/v1/sessions/{id}"))
        for one in writes(server.app.router.routes)
    }
    assert {one for one in every - refused if "/runs/" not in one[1]} == BESIDE
    assert client.put(f"{A}/runs/1", headers=under(run)).status_code == 200
