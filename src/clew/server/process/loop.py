"""The event loop of one process: from the first connection to the last answer."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from clew.server.process.protocol import Connection, Limits, State

if TYPE_CHECKING:
    from clew.server.application import Server
    from clew.server.process.access_log import Log

_TICK: Final = 1.0
_LOOK: Final = 0.02
_FAREWELL: Final = 0.5
"""Seconds for streams that are told to reconnect, when all else has ended."""


class Loop(uvicorn.Server):
    """uvicorn's server, with deadlines and another end.

    It stops in this order: no connection is taken any more, streams are told to come back, requests that run
    get their answers, at most `grace` seconds long, and then the rest is cut off.
    """

    def __init__(
        self,
        app: Server,
        log: Log,
        *,
        limits: Limits,
        grace: float = 10.0,
        on_started: Callable[[], None] = lambda: None,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                loop="auto",
                lifespan="on",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # access/ decides whom to believe
                server_header=False,
                date_header=True,
            )
        )
        self._app = app
        self._log = log
        self._grace = grace
        self._on_started = on_started
        self._on_tick = on_tick
        self._state = State(limits, proxied=app.settings.proxy, on_refused=self._refused)
        self.server_state = self._state
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bell: asyncio.Event | None = None
        self.cut = 0
        """Requests that were cut off at the end."""

    def stop(self) -> None:
        """Stop soon. From any thread, or a signal handler."""
        self.should_exit = True
        if self._loop is not None and self._bell is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._bell.set)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Those who run it handle signals: workers and the command line in their own ways."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop, self._bell = asyncio.get_running_loop(), asyncio.Event()
        self._set_date()
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._app.is_ready = True
            self._on_started()

    async def main_loop(self) -> None:
        assert self._bell is not None
        while not self.should_exit:
            self._set_date()
            self._state.check()
            self._app.metrics.numbers.connections = len(self._state.connections)
            self._on_tick()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._bell.wait(), _TICK - time.time() % _TICK + 0.001)

    def _set_date(self) -> None:
        self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]

    def _refused(self, connection: Connection, status: int) -> None:
        self._app.metrics.numbers.refused += 1
        self._log.refused(connection.client[0] if connection.client else "", status)

    # -- the end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.is_ready = False
        for server in self.servers:
            server.close()
        for one in sockets or []:
            one.close()
        self._app.stop_streams()
        loop = asyncio.get_running_loop()
        until = loop.time() + self._grace
        while self._state.connections and loop.time() < until:
            for connection in list(self._state.connections):
                connection.shutdown()
            self._state.check()
            await asyncio.sleep(_LOOK)
        await self._cut_off()
        await self.lifespan.shutdown()

    async def _cut_off(self) -> None:
        tasks = [task for task in self._state.tasks if not task.done()]
        self.cut = len(tasks)
        if self.cut:
            self._log.note(f"stopping: {self.cut} requests did not end in {self._grace:g} s and were cut off")
        for task in tasks:
            task.cancel()
        for connection in list(self._state.connections):
            connection.transport.abort()
        if tasks:
            await asyncio.wait(tasks, timeout=_FAREWELL)


def run(server: Loop, sockets: list[socket.socket]) -> None:
    """Until `stop`. Threads of requests that were cut off are not waited for: their process ends."""
    factory: Any = server.config.get_loop_factory()
    loop: asyncio.AbstractEventLoop = factory() if factory else asyncio.new_event_loop()
    try:
        loop.run_until_complete(server.serve(sockets))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
