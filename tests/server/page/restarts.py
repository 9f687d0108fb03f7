"""`clew serve` that is killed and started again at the same address, and what the page shows meanwhile."""

from __future__ import annotations

import random
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

import clew
from tests.server.conftest import running
from tests.server.page.relay import Relay
from tests.server.process.commands import Serving, serving

if TYPE_CHECKING:
    from playwright.sync_api import Page


class Mortal:
    """A server that can be killed and comes back."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = _free_port()
        self._opened = ExitStack()
        self._serving: Serving
        self.start()

    @property
    def store(self) -> Path:
        return self.home / "agents.db"

    @property
    def url(self) -> str:
        return self._serving.url

    def client(self, **options: Any) -> httpx.Client:
        return self._serving.client(**options)

    def start(self) -> None:
        self._serving = self._opened.enter_context(serving(self.home, port=str(self.port)))

    def kill(self) -> None:
        assert self._serving.end(signal.SIGKILL) == -signal.SIGKILL
        self._opened.close()


@contextmanager
def mortal(home: Path) -> Iterator[Mortal]:
    server = Mortal(home)
    try:
        yield server
    finally:
        server.kill()


def _free_port() -> int:
    """Outside of the range that systems take ports of clients from, so nobody has it after a kill."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class Fragile:
    """A server in this process that goes away, and comes back at the same address remembering nothing."""

    def __init__(self, store: clew.Store) -> None:
        self.store = store
        self._relay = Relay()
        self._opened = ExitStack()
        self.client = self._relay.client
        self.url = self._relay.url
        self.start()

    def start(self) -> None:
        server = self._opened.enter_context(running(self.store, hosts=(self._relay.address,)))
        self._relay.lead_to(server.url)

    def kill(self) -> None:
        self._relay.cut()
        self._opened.close()

    def close(self) -> None:
        self.kill()
        self._relay.close()


NO_SERVER = (
    "net::ERR_CONNECTION_REFUSED",
    "net::ERR_CONNECTION_RESET",
    "net::ERR_INCOMPLETE_CHUNKED_ENCODING",
    "net::ERR_CONTENT_LENGTH_MISMATCH",
    "net::ERR_EMPTY_RESPONSE",
    "net::ERR_SOCKET_NOT_CONNECTED",
    "net::ERR_CONNECTION_CLOSED",
    "net::ERR_CONNECTION_ABORTED",
)
"""What the console of a browser says of a request that found no server."""


def away(page: Page) -> None:
    """Wait until the page says that it has no server."""
    page.locator(".offline").wait_for()


def back(page: Page) -> None:
    """Wait until the page has a server again. Like a laptop that wakes up, it tries at once."""
    page.evaluate("window.dispatchEvent(new Event('online'))")
    page.locator(".offline").wait_for(state="hidden")
