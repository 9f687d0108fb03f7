"""Several processes that serve one PostgreSQL store."""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import clew
from tests.backends.postgres.servers.cluster import drop_schema
from tests.server.process.commands import Serving, refused, serving, until
from tests.server.process.test_metrics import read


@pytest.fixture(scope="module")
def place(postgres_url: str) -> Iterator[str]:
    schema = f"clew_{secrets.token_hex(6)}"
    yield f"{postgres_url}?schema={schema}"
    drop_schema(postgres_url, schema)


@contextmanager
def three_workers(home: Path, place: str) -> Iterator[Serving]:
    (home / "tmp").mkdir()
    env = {"CLEW_STORE": place, "TMPDIR": str(home / "tmp")}
    with serving(home, "--workers", "3", env=env) as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, place: str) -> Iterator[Serving]:
    """For those who leave it running."""
    with three_workers(tmp_path_factory.mktemp("workers"), place) as found:
        yield found


@pytest.fixture
def mortal(tmp_path: Path, place: str) -> Iterator[Serving]:
    with three_workers(tmp_path, place) as found:
        yield found


def children(server: Serving) -> list[int]:
    path = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    return [int(word) for word in path.read_text().split()]


def workers(server: Serving, route: str) -> set[str]:
    """Those that have answered requests to a route. They tell each other once a second."""
    found = read(server.get("/metrics").text).get("clew_requests_total", {})
    return {dict(labels)["worker"] for labels in found if dict(labels)["route"] == route}


def test_all_workers_answer_and_tell_their_numbers(server: Serving) -> None:
    until(lambda: len(children(server)) == 3)

    def several_answer() -> bool:
        assert server.get("/health").status_code == 200  # a connection each
        return len(workers(server, "/health")) >= 2

    def all_tell() -> bool:
        memory = read(server.get("/metrics").text)["process_resident_memory_bytes"]
        return {dict(labels)["worker"] for labels in memory} == {"0", "1", "2"}

    until(several_answer)
    until(all_tell)  # a worker tells for the first time when it has started


def test_a_worker_that_dies_is_started_again(server: Serving) -> None:
    """After half a second, at first."""
    before = children(server)
    os.kill(before[0], signal.SIGKILL)
    until(lambda: len(set(children(server)) - set(before)) == 1 and len(children(server)) == 3)
    assert f"(process {before[0]}) ended with signal 9; it is started again" in server.log
    for _ in range(20):
        assert server.get("/api/v1/sessions").status_code == 200


def test_a_repeated_append_is_found_by_any_worker(server: Serving, place: str) -> None:
    with server.client() as client:
        client.post("/api/v1/sessions", json={"id": "repeated"})
    path = "/api/v1/sessions/repeated/entries"
    body = {"messages": [{"role": "user", "content": "once"}]}
    ids = set()

    def several_append() -> bool:
        with server.client() as client:  # a new connection: another worker
            found = client.post(path, json=body, headers={"idempotency-key": "k"})
            assert found.status_code in (200, 201), found.text
            ids.add(found.json()["data"][0]["id"])
        return len(workers(server, "/api/v1/sessions/{id}/entries")) >= 2

    until(several_append)
    assert len(ids) == 1
    with clew.open(place) as store:
        assert store.get("repeated").info.entries == 1


def test_a_stream_tells_what_another_worker_wrote(server: Serving) -> None:
    with server.client() as client:
        client.post("/api/v1/sessions", json={"id": "told"})
        with client.stream("GET", "/api/v1/sessions/told/live") as stream:
            lines = stream.iter_lines()
            assert "event: head" in lines  # what is written from now on is told
            for number in range(6):
                with server.client() as other:
                    body = {"messages": [{"role": "user", "content": f"number {number}"}]}
                    assert other.post("/api/v1/sessions/told/entries", json=body).status_code == 201
            told = 0
            for line in lines:
                told += line == "event: entry"
                if told == 6:
                    break
        assert told == 6


def test_a_stop_reaches_all_and_streams_are_told(mortal: Serving) -> None:
    server = mortal
    workers = children(server)
    with server.client() as client:
        client.post("/api/v1/sessions", json={"id": "a"})
        with client.stream("GET", "/api/v1/sessions/a/live") as stream:
            lines = stream.iter_lines()
            next(lines)
            server.send(signal.SIGTERM)
            assert "event: bye" in list(lines)
    assert server.process.wait() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert "Traceback" not in server.log


def test_workers_whose_parent_was_killed_end_by_themselves(mortal: Serving) -> None:
    workers = children(mortal)
    mortal.end(signal.SIGKILL)
    until(lambda: not any(is_alive(pid) for pid in workers))
    assert not list(Path(mortal.home, "tmp").iterdir())


def is_alive(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_a_hangup_reaches_all(tmp_path: Path, place: str) -> None:
    log = tmp_path / "log"
    options = ("--workers", "2", "--log-file", str(log))
    with serving(tmp_path, *options, env={"CLEW_STORE": place}) as server:
        log.rename(tmp_path / "log.1")
        server.send(signal.SIGHUP)
        until(lambda: log.exists() and log.read_text().count("reloaded") == 2)
        assert server.end(signal.SIGINT) == 130


def test_a_store_that_is_not_there_ends_the_start(tmp_path: Path) -> None:
    nowhere = "postgresql://clew@127.0.0.1:1/none?timeout=2"
    code, said = refused(tmp_path, "--workers", "2", "--store", nowhere)
    assert code == 1
    assert "127.0.0.1" in said


def test_stores_that_are_opened_over_http_find_their_transactions_again(server: Serving) -> None:
    """A transaction that stays open belongs to one worker; requests of several threads reach all of them."""
    with clew.open(server.url, token=server.token) as store:

        def work(number: int) -> None:
            for part in range(4):
                session = store.session(f"{number}-{part}", tags=["http"])
                session.append({"role": "user", "content": "hello"})
                fork = session.fork(f"{number}-{part}-fork")
                fork.append({"role": "user", "content": "and this"})
                session.checkpoint("here")
                session.rewind("here")
                store.delete(fork.id)

        with ThreadPoolExecutor(6) as threads:
            list(threads.map(work, range(6)))
        assert len(store.list(limit=100, tag="http")) == 24
        assert len(store.list(limit=100, deleted=True)) == 24


def test_a_worker_does_not_deny_what_another_one_may_have_done(server: Serving) -> None:
    def ask() -> tuple[str, str]:
        with server.client() as client:
            instance = client.post("/api/v1/rows/hello", json={}).json()["instance"]
            question = {"instance": instance, "commit": secrets.token_hex(8)}
            return instance, client.post("/api/v1/rows/outcome", json=question).json()["outcome"]

    assert {outcome for _, outcome in (ask() for _ in range(6))} == {"unknown"}


def test_a_follower_of_a_store_that_is_opened_over_http_does_not_hold_up_the_end(mortal: Serving) -> None:
    with clew.open(mortal.url, token=mortal.token) as store:
        seen: list[object] = []

        def follow() -> None:
            with suppress(clew.ClewError):
                seen.append(next(store.watch()))
                seen.extend(store.watch())

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        until(lambda: store.create() and seen)
        assert mortal.end() == 0
    assert "cut off" not in mortal.log
