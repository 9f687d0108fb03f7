"""A real server on a free port of the loopback interface, and clients for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import clew
from clew.backends.sqlite import SqliteBackend
from clew.server import app
from clew.server.live import hub
from clew.testing.backend.base import Ticking
from tests.server.sockets import listening

TOKEN = "test-token-of-the-owner"


class Running:
    """A server in a thread of this process."""

    clock: Ticking
    """That of `timed`; others have the real time."""

    def __init__(self, store: clew.Store, url: str, application: Any) -> None:
        self.store = store
        self.url = url
        self.app = application

    def wait(self, seconds: float) -> None:
        """Let this time pass for the server and its store, all at once."""
        self.clock.now += round(seconds * 1_000_000)

    def client(self, token: str | None = TOKEN, **options: Any) -> httpx.Client:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        # Pytest has the only limit. To read the certificates of the machine would take most of a test's time.
        options = {"timeout": None, "verify": False, **options}
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, **options)


@contextmanager
def running(store: clew.Store, **settings: Any) -> Iterator[Running]:
    """Serve a store until the end of the block."""

    def application(address: str) -> Any:
        return app(store, **{"token": TOKEN, "hosts": (address,), **settings})

    with listening(application) as (address, served):
        yield Running(store, f"http://{address}", served)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Serves a new SQLite store, or one that is given: `serve(store, **settings)`."""
    with ExitStack() as opened:

        def start(store: clew.Store | None = None, **settings: Any) -> Running:
            store = store or opened.enter_context(clew.open(tmp_path / f"{len(settings)}-store.db"))
            return opened.enter_context(running(store, **settings))

        yield start


@pytest.fixture
def server(serve: Callable[..., Running]) -> Running:
    return serve()


@pytest.fixture
def serve_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Running]]:
    """Serves a store whose time stands still until a test says `server.wait(seconds)`."""
    monkeypatch.setattr(hub, "SLICE", 0.01)  # how often streams look at the clock
    clock = Ticking(step=1)  # what happens has an order
    with clew.Store(SqliteBackend(tmp_path / "timed.db"), clock=clock) as store, ExitStack() as opened:

        def start(**settings: Any) -> Running:
            server = opened.enter_context(running(store, **settings))
            server.clock = clock
            return server

        yield start


@pytest.fixture
def timed(serve_timed: Callable[..., Running]) -> Running:
    return serve_timed()


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    """A client with the owner's token."""
    with server.client() as found:
        yield found
