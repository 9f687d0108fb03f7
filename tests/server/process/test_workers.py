"""Several processes that serve one PostgreSQL store."""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import clew
from tests.server.process.commands import Serving, serving, until
from tests.server.process.test_metrics import read


@pytest.fixture
def server(tmp_path: Path, postgres_place: str) -> Iterator[Serving]:
    (tmp_path / "tmp").mkdir()
    env = {"CLEW_STORE": postgres_place, "TMPDIR": str(tmp_path / "tmp")}
    with serving(tmp_path, "--workers", "3", env=env) as found:
        yield found


def children(server: Serving) -> list[int]:
    path = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    return [int(word) for word in path.read_text().split()]


def test_all_workers_answer_and_tell_their_numbers(server: Serving) -> None:
    assert len(children(server)) == 3
    for _ in range(60):
        assert server.get("/health").status_code == 200  # a connection each

    def workers() -> set[str]:
        found = read(server.get("/metrics").text)["clew_requests_total"]
        return {dict(labels)["worker"] for labels in found if dict(labels)["route"] == "/health"}

    until(lambda: len(workers()) >= 2)
    memory = read(server.get("/metrics").text)["process_resident_memory_bytes"]
    assert {dict(labels)["worker"] for labels in memory} == {"0", "1", "2"}


def test_a_worker_that_dies_is_started_again(server: Serving) -> None:
    before = children(server)
    os.kill(before[0], signal.SIGKILL)
    until(lambda: len(set(children(server)) - set(before)) == 1 and len(children(server)) == 3)
    assert f"(process {before[0]}) ended with signal 9; it is started again" in server.log
    for _ in range(20):
        assert server.get("/api/v1/sessions").status_code == 200


def test_a_repeated_append_is_found_by_any_worker(server: Serving, postgres_place: str) -> None:
    with server.client() as client:
        client.post("/api/v1/sessions", json={"id": "a"})
    body = {"messages": [{"role": "user", "content": "once"}]}
    ids = set()
    for _ in range(12):
        with server.client() as client:  # a new connection: another worker
            found = client.post("/api/v1/sessions/a/entries", json=body, headers={"idempotency-key": "k"})
            assert found.status_code in (200, 201), found.text
            ids.add(found.json()["data"][0]["id"])
    assert len(ids) == 1
    with clew.open(postgres_place) as store:
        assert store.get("a").info.entries == 1


def test_a_stream_tells_what_another_worker_wrote(server: Serving) -> None:
    with server.client() as client:
        client.post("/api/v1/sessions", json={"id": "a"})
        with client.stream("GET", "/api/v1/sessions/a/live") as stream:
            lines = stream.iter_lines()
            next(lines)
            for number in range(6):
                with server.client() as other:
                    body = {"messages": [{"role": "user", "content": f"number {number}"}]}
                    assert other.post("/api/v1/sessions/a/entries", json=body).status_code == 201
            told = 0
            for line in lines:
                told += line == "event: entry"
                if told == 6:
                    break
        assert told == 6


def test_a_stop_reaches_all_and_streams_are_told(server: Serving) -> None:
    workers = children(server)
    with server.client() as client:
        client.post("/api/v1/sessions", json={"id": "a"})
        with client.stream("GET", "/api/v1/sessions/a/live") as stream:
            lines = stream.iter_lines()
            next(lines)
            server.send(signal.SIGTERM)
            assert "event: bye" in list(lines)
    assert server.process.wait(20) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert "Traceback" not in server.log


def test_workers_whose_parent_was_killed_end_by_themselves(server: Serving) -> None:
    workers = children(server)
    server.end(signal.SIGKILL)
    until(lambda: not any(is_alive(pid) for pid in workers))
    assert not list(Path(server.home, "tmp").iterdir())


def is_alive(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_a_hangup_reaches_all(tmp_path: Path, postgres_place: str) -> None:
    log = tmp_path / "log"
    options = ("--workers", "2", "--log-file", str(log))
    with serving(tmp_path, *options, env={"CLEW_STORE": postgres_place}) as server:
        log.rename(tmp_path / "log.1")
        server.send(signal.SIGHUP)
        until(lambda: log.exists() and log.read_text().count("reloaded") == 2)
        assert server.end(signal.SIGINT) == 130


def test_a_store_that_is_not_there_ends_the_start(tmp_path: Path) -> None:
    from tests.server.process.commands import refused

    code, said = refused(
        tmp_path, "--workers", "2", "--store", "postgresql://clew@127.0.0.1:1/none?timeout=2"
    )
    assert code == 1
    assert "127.0.0.1" in said


def test_stores_that_are_opened_over_http_find_their_transactions_again(server: Serving) -> None:
    """A transaction that stays open belongs to one worker; requests of several threads reach all of them."""
    with clew.open(server.url, token=server.token) as store:

        def work(number: int) -> None:
            for part in range(4):
                session = store.session(f"{number}-{part}")
                session.append({"role": "user", "content": "hello"})
                fork = session.fork(f"{number}-{part}-fork")
                fork.append({"role": "user", "content": "and this"})
                session.checkpoint("here")
                session.rewind("here")
                store.delete(fork.id)

        with ThreadPoolExecutor(6) as threads:
            list(threads.map(work, range(6)))
        assert len(store.list(limit=100)) == 24
        assert len(store.list(limit=100, deleted=True)) == 24


def test_a_worker_does_not_deny_what_another_one_may_have_done(server: Serving) -> None:
    def ask() -> tuple[str, str]:
        with server.client() as client:
            instance = client.post("/api/v1/rows/hello", json={}).json()["instance"]
            question = {"instance": instance, "commit": secrets.token_hex(8)}
            return instance, client.post("/api/v1/rows/outcome", json=question).json()["outcome"]

    assert {outcome for _, outcome in (ask() for _ in range(6))} == {"unknown"}


def test_a_follower_of_a_store_that_is_opened_over_http_does_not_hold_up_the_end(server: Serving) -> None:
    with clew.open(server.url, token=server.token) as store:
        store.session("a")
        seen: list[object] = []

        def follow() -> None:
            with suppress(clew.ClewError):
                seen.extend(store.watch())

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        time.sleep(0.5)
        assert server.end() == 0
    assert "cut off" not in server.log
