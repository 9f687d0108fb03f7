"""A client over HTTP purges sessions: a large one, and one that is damaged."""

from __future__ import annotations

import clew
from clew.backends.sqlite import SqliteBackend
from tests.server.conftest import Running
from tests.support.purges import MOST, counted, cut_off, grow, leftovers_of


def test_a_client_removes_a_large_session_in_small_transactions(server: Running, store: clew.Store) -> None:
    grow(server.store.create("large"), 2500)

    with counted(store) as removed:
        assert store.delete("large", purge=True)

    assert sum(removed) == 2500
    assert max(removed) <= MOST
    assert server.store.stats().entries == leftovers_of(server.store) == 0


def test_the_server_finishes_what_a_client_left(server: Running, store: clew.Store) -> None:
    grow(server.store.create("large"), 2500)
    cut_off(store, lambda: store.delete("large", purge=True))
    assert (server.store.find("large"), server.store.stats().entries) == (None, 0)

    server.store.sweep()

    assert leftovers_of(server.store) == 0
    assert server.store.verify(full=True).problems == ()


def test_a_client_purges_a_session_whose_row_is_damaged(server: Running, store: clew.Store) -> None:
    grow(server.store.create("bad"), 5)
    backend = server.store._engine.backend
    assert isinstance(backend, SqliteBackend)
    assert backend._connections.writer is not None
    backend._connections.writer.execute("UPDATE sessions SET status = 99")

    assert store.delete("bad", purge=True)

    assert server.store.stats().entries == leftovers_of(server.store) == 0
    assert server.store.verify(full=True).problems == ()
