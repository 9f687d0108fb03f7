"""A TCP proxy that loses requests or answers when it is told to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal
from urllib.parse import urlsplit


class Proxy:
    """Between a client and a server. `lose` says what happens to the next request that names `path`."""

    def __init__(self) -> None:
        self.target = ("", 0)
        self.lose: Literal["", "request", "answer"] = ""
        self.path = b"/rows/transaction"
        self.lost = 0
        self.on_lost: Callable[[], object] = lambda: None
        """Called when something is lost, before the client sees that;"""
        self.then: Callable[[], object] = lambda: None
        """and after."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target)
            except OSError:
                client.close()  # the server is away
                continue
            for end in (client, server):  # else half of a request waits for the other side's word
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open += [client, server]
            losing = threading.Event()
            threading.Thread(target=self._forward, args=(client, server, losing), daemon=True).start()
            threading.Thread(target=self._backward, args=(server, client, losing), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                if self.lose and self.path in data:
                    if self.lose == "request":
                        self._cut(client, server)
                        return
                    losing.set()
                server.sendall(data)
        self._cut(client, server, count=False)

    def _backward(self, server: socket.socket, client: socket.socket, losing: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                if losing.is_set():
                    self._cut(client, server)
                    return
                client.sendall(data)
        self._cut(client, server, count=False)

    def _cut(self, *ends: socket.socket, count: bool = True) -> None:
        if count:
            self.lose = ""
            self.lost += 1
            self.on_lost()
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        if count:
            self.then()

    def lead_to(self, url: str) -> None:
        parts = urlsplit(url)
        self.target = (parts.hostname or "", parts.port or 0)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # a thread waits in it
        self._listener.close()
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def proxied(url: str | None = None) -> Iterator[Proxy]:
    """Without an address the caller says later where it leads."""
    proxy = Proxy()
    try:
        if url is not None:
            proxy.lead_to(url)
        yield proxy
    finally:
        proxy.close()
