"""One server for many tests: each puts a store of its own behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import clew
from clew.backends.contract import Backend
from clew.backends.http.backend import HttpBackend
from clew.server.rows.door import Door
from tests.server.conftest import TOKEN, Running, running


class Served(HttpBackend):
    """A client that knows what is behind the server."""

    def __init__(self, url: str, behind: Backend) -> None:
        super().__init__(url, token=TOKEN)
        self.behind = behind


class Serving:
    """A server whose store can be replaced."""

    def __init__(self, server: Running) -> None:
        self.server = server
        self._store: clew.Store | None = None

    def put(self, store: clew.Store, *, is_checked: bool = True) -> Served:
        """Serve this store from now on, and close the one before it; a client of it."""
        self.end()
        self._store = store
        self.server.app.rows = Door(store._engine, is_checked=is_checked)
        return Served(self.server.url, store._engine.backend)

    def end(self) -> None:
        self.server.app.rows.close()
        if self._store is not None:
            self._store.close()
            self._store = None


@contextmanager
def serving() -> Iterator[Serving]:
    with clew.open("memory:") as store, running(store) as server:
        found = Serving(server)
        yield found
        found.end()
