"""One event loop in a thread of this process, for all servers that tests start.

A server of uvicorn that has a loop of its own takes 0.2 seconds to start and stop, all of it sleep. Here each
test has its own port, application and store, and a start takes a millisecond.
"""

from __future__ import annotations

import asyncio
import atexit
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from functools import cache
from typing import Any, TypeVar

import uvicorn
from uvicorn.server import ServerState

T = TypeVar("T")

GRACE = 1.0
"""Seconds that requests under way have at the end of a test, before they are cut off."""


@contextmanager
def listening(
    application: Callable[[str], Any], *, state: ServerState | None = None, **options: Any
) -> Iterator[tuple[str, Any]]:
    """Serve what `application("127.0.0.1:port")` returns until the end of the block; that address, and it.
    `state` and `options`: those of uvicorn."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        served = application(address)
        server = _Server(
            uvicorn.Config(
                served,
                log_config=None,
                log_level="warning",
                proxy_headers=False,
                server_header=False,
                **options,
            )
        )
        server.server_state = state or server.server_state
        run(server.begin(listener))
        try:
            yield address, served
        finally:
            run(server.end())


class _Server(uvicorn.Server):
    """uvicorn's server without its main loop, which only sleeps."""

    async def begin(self, listener: socket.socket) -> None:
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        self.server_state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        await self.startup([listener])

    async def end(self) -> None:
        for server in self.servers:
            server.close()
        stop_streams = getattr(self.config.app, "stop_streams", lambda: None)
        stop_streams()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        if tasks := list(self.server_state.tasks):
            _, late = await asyncio.wait(tasks, timeout=GRACE)
            for task in late:
                task.cancel()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await self.lifespan.shutdown()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Do it in the event loop of all servers."""
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    import uvloop

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="servers of tests", daemon=True)
    thread.start()

    @atexit.register
    def end() -> None:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    return loop
