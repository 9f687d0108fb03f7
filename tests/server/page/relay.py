"""A way to a server that can be cut, and that can fall silent: nothing ends, and nothing comes any more."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import httpx

from tests.server.conftest import TOKEN


class Relay:
    """`silence()` stops all connections that are open, and new ones work; `cut()` ends all of them, and new
    ones as well, until `lead_to()` mends it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._target: tuple[str, int] | None = None
        self._open: list[socket.socket] = []
        self._era = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def client(self) -> httpx.Client:
        headers = {"authorization": f"Bearer {TOKEN}"}
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False)

    def lead_to(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 0)

    def cut(self) -> None:
        self._target = None
        self._end(*self._open)
        self._open.clear()

    def silence(self) -> None:
        self._era += 1

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.append(client)
                try:
                    server = socket.create_connection(self._target or ("", 0))
                except OSError:  # it was cut, or the server has just gone
                    self._end(client)
                    continue
                self._open.append(server)
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(
                        target=self._pass_on, args=(source, sink, self._era), daemon=True
                    ).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, era: int) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if era == self._era:
                    sink.sendall(data)
            if era == self._era:
                sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._end(self._listener, *self._open)

    def _end(self, *sockets: socket.socket) -> None:
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # a thread waits in it
            one.close()


@contextmanager
def relayed() -> Iterator[Relay]:
    relay = Relay()
    try:
        yield relay
    finally:
        relay.close()
