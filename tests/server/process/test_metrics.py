"""Numbers for Prometheus, read with its own parser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from clew.server.access.tokens import add_token
from clew.server.application import Finished
from clew.server.process.metrics import Metrics
from tests.server.conftest import Running
from tests.server.process.commands import until


def read(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """By name and labels."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_requests_are_counted_by_route_method_and_class(client: httpx.Client) -> None:
    client.post("/api/v1/sessions", json={"id": "a"})
    for id in ("a", "a", "b"):
        client.get(f"/api/v1/sessions/{id}")
    client.get("/nothing")
    client.request("MKCOL", "/health")
    found = read(client.get("/metrics").text)
    requests = {
        (dict(labels)["method"], dict(labels)["route"], dict(labels)["status"]): value
        for labels, value in found["clew_requests_total"].items()
    }
    assert requests == {
        ("POST", "/api/v1/sessions", "2xx"): 1,
        ("GET", "/api/v1/sessions/{id}", "2xx"): 2,
        ("GET", "/api/v1/sessions/{id}", "4xx"): 1,
        ("GET", "-", "4xx"): 1,
        ("-", "-", "4xx"): 1,
    }
    times = {dict(labels)["route"]: value for labels, value in found["clew_request_seconds_count"].items()}
    assert times["/api/v1/sessions/{id}"] == 3
    assert found["clew_sent_bytes_total"][("worker", "0"),] > 100
    assert found["clew_received_bytes_total"][("worker", "0"),] == len('{"id":"a"}')
    assert found["clew_requests_in_flight"][("worker", "0"),] == 1
    assert found["process_resident_memory_bytes"][("worker", "0"),] > 10 << 20
    assert found["process_start_time_seconds"][("worker", "0"),] > 1.7e9


def test_buckets_add_up() -> None:
    metrics = Metrics()
    for seconds in (0.0005, 0.001, 0.002, 0.4, 99.0):
        metrics.count(Finished(method="GET", path="/x", route="/x", status=200, seconds=seconds))
    found = read(metrics.text().decode())
    buckets = {dict(labels)["le"]: value for labels, value in found["clew_request_seconds_bucket"].items()}
    assert [buckets[le] for le in ("0.001", "0.0025", "0.25", "0.5", "30.0", "+Inf")] == [2, 3, 3, 4, 4, 5]
    assert found["clew_request_seconds_count"][("route", "/x"), ("worker", "0")] == 5


def test_no_client_can_add_labels(client: httpx.Client) -> None:
    for number in range(50):
        client.get(f"/{number}")
        client.request(("PROPFIND", "LOCK", "COPY")[number % 3], f"/api/v1/sessions/{number}")
    found = read(client.get("/metrics").text)
    assert len(found["clew_requests_total"]) <= 3


def test_a_stream_is_counted_while_it_is_open(server: Running, client: httpx.Client) -> None:
    client.post("/api/v1/sessions", json={"id": "a"})
    with client.stream("GET", "/api/v1/sessions/a/live") as stream, server.client() as other:
        lines = stream.iter_lines()
        next(lines)
        until(lambda: read(other.get("/metrics").text)["clew_streams"][("worker", "0"),] == 1)
        assert read(other.get("/metrics").text)["clew_requests_in_flight"][("worker", "0"),] == 2


def test_numbers_are_for_those_who_may_see_the_whole_store(server: Running, client: httpx.Client) -> None:
    with server.client(token=None) as nobody:
        assert nobody.get("/metrics").status_code == 401
    _, bound = add_token(server.store, "bound", scopes=["read"], workspace="/x")
    _, reader = add_token(server.store, "reader", scopes=["read"])
    with server.client(bound) as one:
        assert one.get("/metrics").status_code == 403
    with server.client(reader) as one:
        assert one.get("/metrics").status_code == 200


def test_workers_tell_each_other(tmp_path: Path) -> None:
    workers = [Metrics() for _ in range(3)]
    for number, metrics in enumerate(workers):
        metrics.folder, metrics.numbers.worker = tmp_path, number
        for _ in range(number + 1):
            metrics.count(Finished(method="GET", path="/x", route="/x", status=200))
        metrics.tell()
    (tmp_path / "7.json").write_text("damaged")
    (tmp_path / "8.json").mkdir()
    for metrics in workers:
        found = read(metrics.text().decode())["clew_requests_total"]
        assert {dict(labels)["worker"]: value for labels, value in found.items()} == {"0": 1, "1": 2, "2": 3}


def test_a_folder_that_is_gone_or_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.folder = tmp_path / "gone"
    metrics.tell()
    assert (tmp_path / "gone" / "0.json").exists()
    metrics.folder = tmp_path / "gone" / "0.json"
    metrics.count(Finished(method="GET", path="/x", route="/x", status=200))
    metrics.tell()
    assert b"clew_requests_total" in metrics.text()


# -- is it there, and is it ready?


def test_health_and_readiness_need_no_token_and_tell_nothing(server: Running) -> None:
    with server.client(token=None) as nobody:
        assert nobody.get("/health").json() == {"status": "ok"}
        assert nobody.get("/ready").json() == {"status": "ready"}
        server.app.is_ready = False
        found = nobody.get("/ready")
        assert found.status_code == 503
        assert found.headers["retry-after"] == "1"
        assert nobody.get("/health").status_code == 200


def test_a_store_that_cannot_be_read_is_not_ready(serve: Callable[..., Running], monkeypatch: Any) -> None:
    from clew.errors import BackendUnavailableError

    server = serve()

    def fail(*_: Any) -> None:
        raise BackendUnavailableError("postgresql://secret-host/ does not answer")

    monkeypatch.setattr(server.store, "find", fail)
    with server.client(token=None) as nobody:
        found = nobody.get("/ready")
        assert found.status_code == 503
        assert "secret-host" not in found.text
