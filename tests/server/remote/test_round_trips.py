"""How many requests a call takes: over a network each of them is a journey."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

import clew
from clew.backends.http.backend import HttpBackend
from tests.server.conftest import TOKEN, Running
from tests.server.routes.asking import user
from tests.support.waiting import until


def requests(store: clew.Store, work: Callable[[], object]) -> int:
    backend = store._engine.backend
    assert isinstance(backend, HttpBackend)
    before = backend.requests
    work()
    return backend.requests - before


class TestRoundTrips:
    """Counted, so that they stay few."""

    def test_an_append_is_one_request(self, store: clew.Store) -> None:
        """With all that it looks at: the session, the lease, the branch."""
        s = store.session("s")
        s.append(user("a"))

        assert [requests(store, partial(s.append, user(text))) for text in "bcd"] == [1, 1, 1]
        assert requests(store, lambda: s.append(*map(user, "efgh"))) == 1

    def test_an_append_in_a_run_is_one_request(self, store: clew.Store) -> None:
        with store.session("s").run() as run:
            run.append(user("a"))
            assert requests(store, lambda: run.append(user("b"))) == 1

    def test_a_crowd_of_appends_shares_requests(
        self, store: clew.Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """While one request is on its way, all that comes is gathered for the next."""
        sessions = [store.session(f"s{number}") for number in range(8)]
        for session in sessions:
            session.append(user("first"))
        connection, queue = store._engine.backend._connection, store._engine.committer  # type: ignore[attr-defined]
        send, is_first = connection._send, threading.Event()

        def slow_send(*given: Any) -> Any:
            if not is_first.is_set():
                is_first.set()
                until(lambda: len(queue._queue) == 7)
            return send(*given)

        def crowd() -> None:
            monkeypatch.setattr(connection, "_send", slow_send)
            with ThreadPoolExecutor(8) as threads:
                threads.submit(sessions[0].append, user("second"))
                is_first.wait()
                list(threads.map(lambda session: session.append(user("second")), sessions[1:]))

        assert requests(store, crowd) == 2
        assert [session.info.messages for session in sessions] == [2] * 8

    def test_a_group_that_is_posted_is_one_request(self, store: clew.Store) -> None:
        s = store.session("s")
        s.append(user("a"))
        engine = store._engine
        from clew.core.engine.commit import Pending

        works = [s._appending([user(f"{number}")]) for number in range(50)]
        assert requests(store, lambda: engine.committer.run_all([Pending(w) for w in works if w])) == 1
        assert s.info.messages == 51

    def test_others_in_between_cost_more_and_lose_nothing(self, store: clew.Store, server: Running) -> None:
        """What is remembered is compared: an append of another machine is found out, and built upon."""
        s = store.session("s")
        s.append(user("a"))
        server.store.get("s").append(user("b"))
        s.append(user("c"))
        assert requests(store, lambda: s.append(user("d"))) == 1
        assert [message["content"] for message in s.messages()] == ["a", "b", "c", "d"]

    def test_reading_and_listing_take_few(self, store: clew.Store) -> None:
        s = store.session("s")
        s.append(*(user(f"{number}") for number in range(500)))
        s.messages()

        assert requests(store, s.messages) == 2
        assert requests(store, lambda: store.list(limit=50)) == 1
        assert requests(store, lambda: store.get("s")) == 1
        assert requests(store, lambda: store.search("7")) == 1
        s.annotate(0, note="needle")
        assert requests(store, lambda: store.search("needle")) == 1

    def test_a_lease_is_renewed_in_one(self, store: clew.Store) -> None:
        with store.session("s").run() as run:
            assert requests(store, run.renew) == 1

    def test_small_writes_take_few(self, store: clew.Store) -> None:
        s = store.session("s")
        s.append(user("a"))
        s.add_event("t", 0)

        assert requests(store, lambda: s.set_var("n", 1)) == 1
        assert requests(store, lambda: s.add_event("t", 1)) == 2
        assert requests(store, lambda: s.append(user("b"), key="k")) == 2


def test_a_note_is_found_on_both_sides(server: Running, store: clew.Store) -> None:
    """Whoever wrote it; the pages are the same."""
    s = store.session("s")
    s.append(user("needle one"), user("two"), user("three"))
    s.annotate(1, note="the needle")
    server.store.get("s").annotate(2, note="another needle")

    for order in ("newest", "best"):
        page = store.search("needle", order=order, limit=2)
        rest = store.search("needle", order=order, limit=2, cursor=page.cursor)
        assert [*page, *rest] == [*server.store.search("needle", order=order)]
        assert sum(hit.in_note for hit in (*page, *rest)) == 2
    s.annotate(1, note=None)
    assert len(server.store.search("needle")) == len(store.search("needle")) == 2
    assert server.store.verify().ok


def test_two_clients_write_to_one_session(server: Running) -> None:
    """From several threads each: nothing is lost, nothing is there twice."""
    with clew.open(server.url, token=TOKEN) as one, clew.open(server.url, token=TOKEN) as two:
        sessions = [one.session("s"), two.session("s")]

        def write(session: clew.Session, name: str) -> None:
            for number in range(20):
                session.append(user(f"{name}{number}"))

        threads = [
            threading.Thread(target=write, args=(session, f"{index}{half}."))
            for index, session in enumerate(sessions)
            for half in "ab"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        said = [message["content"] for message in sessions[0].messages()]

        assert len(said) == len(set(said)) == 80
        assert one.verify().problems == ()
