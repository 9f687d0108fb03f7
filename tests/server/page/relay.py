"""A way to a server that can fall silent, as networks do: nothing ends, and nothing comes any more."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import httpx

from tests.server.conftest import TOKEN


class Relay:
    """`silence()` stops all connections that are open; new ones work."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._target = ("", 0)
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

    def silence(self) -> None:
        self._era += 1

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._open += [client, server]
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
        for one in (self._listener, *self._open):
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
