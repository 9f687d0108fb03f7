"""A way to a server that can be cut, and that can fall silent: nothing ends, and nothing comes any more."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import httpx

from tests.server.conftest import TOKEN
from tests.server.remote.proxy import Proxy


class Relay(Proxy):
    """`silence()` stops all connections that are open, and new ones work; `cut()` ends all of them, and new
    ones as well, until `lead_to()` mends it."""

    def __init__(self) -> None:
        self._era = 0
        super().__init__()

    @property
    def address(self) -> str:
        return self.url.removeprefix("http://")

    def client(self) -> httpx.Client:
        headers = {"authorization": f"Bearer {TOKEN}"}
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False)

    def cut(self) -> None:
        self.target = ("", 0)
        self._cut(*self._open, count=False)
        self._open.clear()

    def silence(self) -> None:
        self._era += 1

    def _backward(self, server: socket.socket, client: socket.socket, losing: threading.Event) -> None:
        era = self._era
        with suppress(OSError):
            while data := server.recv(1 << 16):
                if era == self._era:
                    client.sendall(data)
        if era == self._era:
            self._cut(client, server, count=False)


@contextmanager
def relayed() -> Iterator[Relay]:
    with closing(Relay()) as relay:
        yield relay
