"""A TCP proxy before the server that can go wrong in the ways of networks."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

COMMIT = b"COMMIT"


class Proxy:
    """Passes bytes on until it is told not to.

    `cut_when(data)` looks at what a client sends: when it says yes, that is passed on, the server gets the
    time to act upon it, and then the client is cut off instead of hearing the answer.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._server = (parts.hostname, parts.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(f":{parts.port}", f":{self._listener.getsockname()[1]}")
        self.swallows = False
        self.cut_when: Callable[[bytes], bool] | None = None
        self.cuts = 0
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        self._open: list[socket.socket] = []

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(client)
            try:
                server = socket.create_connection(self._server)
            except OSError:
                continue
            self._open.append(server)
            thread = threading.Thread(target=self._pass_on, args=(client, server), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        doomed = False
        with selectors.DefaultSelector() as selector, client, server:
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    try:
                        data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                        if not data:
                            return
                        if self.swallows:
                            continue
                        if key.fileobj is server:
                            if doomed:  # the answer, which nobody is to hear
                                self.cuts += 1
                                return
                            client.sendall(data)
                        else:
                            if self.cut_when is not None and self.cut_when(data):
                                doomed, self.cut_when = True, None
                            server.sendall(data)
                    except OSError:
                        return

    def cut_all(self) -> None:
        """End every connection at once."""
        for one in self._open:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        # Closing alone does not wake the thread that waits in accept().
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        self.cut_all()
        for thread in self._threads[1:]:
            thread.join()
        for one in self._open:
            one.close()
