"""A real server on a free port of the loopback interface, and clients for it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

import clew
from clew.server import app

TOKEN = "test-token-of-the-owner"


class Running:
    """A server in a thread of this process."""

    def __init__(self, store: clew.Store, url: str, application: Any) -> None:
        self.store = store
        self.url = url
        self.app = application

    def client(self, token: str | None = TOKEN, **options: Any) -> httpx.Client:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, **options)


@contextmanager
def running(store: clew.Store, **settings: Any) -> Iterator[Running]:
    """Serve a store until the end of the block."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    application = app(store, **{"token": TOKEN, "hosts": (address,), **settings})
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            log_level="warning",
            timeout_graceful_shutdown=1,
            proxy_headers=False,
            server_header=False,
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            thread.join(0.005)
            assert thread.is_alive(), "the server did not start"
        yield Running(store, f"http://{address}", application)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


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
def client(server: Running) -> Iterator[httpx.Client]:
    """A client with the owner's token."""
    with server.client() as found:
        yield found
