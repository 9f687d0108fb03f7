"""One connection: uvicorn's HTTP/1.1 over httptools, with limits for clients that mean harm.

uvicorn reads as long as a client sends, and waits as long as it is silent. Here every phase of a connection
has a limit: bytes and number of the headers, the time for them, the pace of a body, the time without a
request, answers that are not read. What two programs could read differently (a request with two lengths, say)
is refused. Deadlines are looked at once a second for all connections, so a request costs no timers.
"""

from __future__ import annotations

import asyncio
import http
import select
import time
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from uvicorn._types import ASGI3Application

_LEFT: Final[int | None] = getattr(select, "POLLRDHUP", None)
_LOCAL: Final = ("127.", "::1", "::ffff:127.")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one connection may take. Seconds, and bytes."""

    head: int = 16 * 1024
    """Request line and headers."""
    target: int = 8 * 1024
    """The address in the request line."""
    headers: int = 100
    pipelined: int = 64
    """Requests that wait for the answer to an earlier one."""
    head_seconds: float = 10.0
    idle_seconds: float = 15.0
    """Between two requests. Clients that keep connections let go of them earlier, or try again."""
    body_grace: float = 30.0
    body_rate: int = 16 * 1024
    """After the grace, a body must have come at this pace on average."""
    stall_seconds: float = 30.0
    """How long a client may leave what is sent to it unread."""
    drain_seconds: float = 5.0
    """How long the rest of a body is read and forgotten, when the answer is already given."""
    drain: int = 32 * 1024 * 1024
    connections: int = 1_000
    per_address: int = 100
    """Connections from one address of another machine. Behind a proxy all come from one: not counted then."""


class State(ServerState):
    """What all connections of this process share."""

    def __init__(
        self,
        limits: Limits,
        *,
        proxied: bool = False,
        clock: Callable[[], float] = time.monotonic,
        on_refused: Callable[[Connection, int], None] = lambda *_: None,
    ) -> None:
        super().__init__()
        self.limits = limits
        self.proxied = proxied
        self.clock = clock
        self.on_refused = on_refused
        self.by_address: dict[str, int] = {}

    def make_room(self, new: Connection) -> bool:
        """Close the connection that has been without a request for longest. Browsers and pools keep many."""
        idle = (
            one for one in self.connections if isinstance(one, Connection) and one.is_idle and one is not new
        )
        oldest = min(idle, key=lambda one: one.deadline, default=None)
        if oldest is None:
            return False
        oldest.transport.close()
        return True

    def check(self) -> None:
        """End what is too late."""
        now = self.clock()
        for one in list(self.connections):
            if isinstance(one, Connection):
                one.check(now)


class _Phase(Enum):
    """What comes next from the client."""

    IDLE = 0
    HEAD = 1
    BODY = 2


class _Refusal(NamedTuple):
    status: int
    code: str
    detail: str


_TOO_SLOW: Final = _Refusal(408, "request_timeout", "the request did not arrive in time")
_TOO_MANY: Final = _Refusal(503, "too_many_connections", "the server has as many connections as it may have")
_MALFORMED: Final = _Refusal(400, "malformed_request", "these bytes are not a valid request")


class _Refused(Exception):
    """Raised inside the parser, which then stops."""


class Connection(HttpToolsProtocol):
    """A client's connection."""

    server_state: State

    def __init__(
        self,
        config: Any,
        server_state: State,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.limits = server_state.limits
        self._now = server_state.clock
        self.deadline = 0.0
        """For the next request to begin, or for its head to end."""
        self._phase = _Phase.IDLE
        self._running: RequestResponseCycle | None = None
        """The request that is being answered. `cycle` is the one that is being read."""
        self._refusal: _Refusal | None = None
        self._is_last_word_given = False
        self._address: str | None = None
        # of the head that is being read
        self._head_bytes = 0
        self._begun = 0
        self._hosts = 0
        self._coding: bytes | None = None
        self._length: bytes | None = None
        # of the body
        self._body_bytes = 0
        self._body_since = 0.0
        self._is_silent = False
        """The parser reads a head that we made, not the client."""
        self._drain_until: float | None = None
        self._stalled_since: float | None = None
        self._closing_since: float | None = None
        self._checked_at = 0.0

    # -- the connection

    @property
    def is_idle(self) -> bool:
        """No request is being answered, and none is coming in."""
        return self._running is None and self._phase is _Phase.IDLE and not self.transport.is_closing()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        now = self._now()
        self.deadline, self._checked_at = now + self.limits.head_seconds, now
        state = self.server_state
        if self.client is not None and not state.proxied and not self.client[0].startswith(_LOCAL):
            self._address = self.client[0]
            state.by_address[self._address] = state.by_address.get(self._address, 0) + 1
            if state.by_address[self._address] > self.limits.per_address:
                self._refuse(_TOO_MANY)
                return
        if len(state.connections) > self.limits.connections and not state.make_room(self):
            self._refuse(_TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._address is not None:
            left = self.server_state.by_address.get(self._address, 0) - 1
            if left > 0:
                self.server_state.by_address[self._address] = left
            else:
                self.server_state.by_address.pop(self._address, None)
        # uvicorn tells only the newest of several pipelined requests.
        for cycle in (self._running, *(one for one, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()

    def check(self, now: float) -> None:
        """Whether a deadline has passed. Called about once a second."""
        since, self._checked_at = now - self._checked_at, now
        limits = self.limits
        if self.transport.is_closing():
            # It is closed when everything is sent; a client that does not read it would keep it for ever.
            self._closing_since = self._closing_since or now
            if now - self._closing_since > limits.drain_seconds:
                self.transport.abort()
        elif self._is_stalled(now) or (self.flow.read_paused and self._is_left()):
            self.transport.abort()
        elif self._drain_until is not None:
            if now > self._drain_until:
                self.transport.close()
        elif self._refusal is not None:
            return  # an earlier request is still being answered
        elif self._phase is _Phase.BODY:
            if self.flow.read_paused:  # it is we who do not read
                self._body_since += since
            elif now > self._body_since + limits.body_grace + self._body_bytes / limits.body_rate:
                self._refuse(_TOO_SLOW)
        elif now > self.deadline:
            if self._phase is _Phase.HEAD:
                self._refuse(_TOO_SLOW)
            elif self._running is None:
                self.transport.close()

    def _is_stalled(self, now: float) -> bool:
        return self._stalled_since is not None and now - self._stalled_since > self.limits.stall_seconds

    def _is_left(self) -> bool:
        """Whether the client has closed its side. While nothing is read, the system has to be asked."""
        one = self.transport.get_extra_info("socket")
        if one is None or _LEFT is None:
            return False
        poll = select.poll()
        poll.register(one.fileno(), _LEFT)
        return bool(poll.poll(0))

    def pause_writing(self) -> None:
        self._stalled_since = self._now()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stalled_since = None
        super().resume_writing()

    def shutdown(self) -> None:
        """The server stops: no further request is read from here. The one that runs gets its answer."""
        if self._running is None:
            self.transport.close()
            return
        self.cycle.keep_alive = False
        if not self.pipeline:
            self._running.keep_alive = False

    # -- what comes in

    def data_received(self, data: bytes) -> None:
        if self._drain_until is not None:
            self._body_bytes += len(data)
            if self._body_bytes > self.limits.drain:
                self.transport.abort()
            return
        if self._refusal is not None or self.transport.is_closing():
            return
        before, self._begun = self._phase, 0
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self._refuse(self._refusal or _MALFORMED)
            return
        if self._phase is _Phase.HEAD and before is not _Phase.BODY:
            # The parser keeps what it has of a header, and tells of it when it is whole.
            if self._begun + (before is _Phase.HEAD) == 1:
                self._head_bytes += len(data)
            if self._head_bytes > self.limits.head:
                self._refuse(_too_large(self.limits))

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
            self._decline_upgrade()

    def _decline_upgrade(self) -> None:
        """Go on with HTTP/1.1, as a server may. The parser has stopped in front of the body: a new one reads
        it, so that it is never taken for the next request. Java's client asks for HTTP/2 in this way."""
        self.parser = httptools.HttpRequestParser(self)
        if self._phase is not _Phase.BODY:
            return
        framing = b"transfer-encoding: chunked" if self._coding else b"content-length: %s" % self._length
        self._is_silent = True
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%s\r\n\r\n" % framing)
        self._is_silent = False

    def on_message_begin(self) -> None:
        if self._is_silent:
            return
        super().on_message_begin()
        self._begun += 1
        self._phase = _Phase.HEAD
        self.deadline = self._now() + self.limits.head_seconds
        self._head_bytes = self._hosts = 0
        self._coding = self._length = None

    def on_url(self, url: bytes) -> None:
        if self._is_silent:
            return
        super().on_url(url)
        if len(self.url) > self.limits.target:
            self._stop(414, "target_too_long", f"the address has more than {self.limits.target:,} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_silent:
            return
        self._head_bytes += len(name) + len(value) + 4
        if self._phase is _Phase.BODY:  # a trailer: dropped, or it could pass for a header
            if self._head_bytes > self.limits.head:
                raise self._stopped(_too_large(self.limits))
            return
        super().on_header(name, value)
        if len(self.headers) > self.limits.headers or self._head_bytes + len(self.url) > self.limits.head:
            raise self._stopped(_too_large(self.limits))
        match self.headers[-1][0]:
            case b"host":
                self._hosts += 1
            case b"transfer-encoding":
                self._coding = value if self._coding is None else b"several"
            case b"content-length":
                self._length = value

    def on_headers_complete(self) -> None:
        if self._is_silent:
            return
        version = self.parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._stop(505, "version_not_supported", "this server speaks version 1.1 of HTTP")
        if self._hosts > 1 or (self._hosts == 0 and version == "1.1"):
            self._stop(400, "host_missing", "a request has exactly one Host header")
        if not self.url.startswith(b"/") or b"#" in self.url:
            self._stop(400, "target_invalid", "the address in the request line begins with / and has no #")
        if self._coding is not None and (self._coding.lower() != b"chunked" or version == "1.0"):
            self._stop(501, "coding_not_supported", "the only transfer coding of this server is chunked")
        if len(self.pipeline) >= self.limits.pipelined:
            self._stop(429, "too_many_pipelined", f"more than {self.limits.pipelined} requests wait")
        self._phase = _Phase.BODY
        self._body_since, self._body_bytes, self._head_bytes = self._now(), 0, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        has_body = self._coding is not None or (self._length is not None and int(self._length) > 0)
        if self._is_silent or (has_body and self.parser.should_upgrade()):
            return  # the body is still to come: `_decline_upgrade`
        super().on_message_complete()
        self._phase = _Phase.IDLE
        self.deadline = self._now() + self.limits.idle_seconds

    # -- what goes out

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        cycle.transport = _Closing(self)  # type: ignore[assignment]
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._running = None
        if self.transport.is_closing() or self._drain_until is not None:
            return
        self.flow.resume_reading()
        self.deadline = self._now() + self.limits.idle_seconds
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._refusal is not None:
            self._say(self._refusal)
        elif self._phase is _Phase.BODY:
            self.finish()

    def finish(self) -> None:
        """Close, once the client can have read the answer. If it is still sending, closing at once would
        reset the connection, and the answer would be lost on its way: what comes is read and forgotten for a
        while."""
        if self._phase is not _Phase.BODY or self.transport.is_closing():
            self.transport.close()
            return
        self._drain_until = self._now() + self.limits.drain_seconds
        self._body_bytes = 0
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    # -- refusals

    def _stop(self, status: int, code: str, detail: str) -> None:
        raise self._stopped(_Refusal(status, code, detail))

    def _stopped(self, refusal: _Refusal) -> _Refused:
        self._refusal = refusal
        return _Refused(refusal.code)

    def _refuse(self, refusal: _Refusal) -> None:
        """Say so, and close; after the answers to earlier requests, which are not to blame."""
        self._refusal = refusal
        running = self._running
        if running is None:
            self._say(refusal)
            return
        if running is self.cycle and self._phase is _Phase.BODY:
            # The body of the very request: whoever waits for it learns that it does not come.
            running.disconnected = True
            running.message_event.set()
            if running.response_started:
                self.transport.close()
            else:
                self._say(refusal)
            return
        if self._phase is _Phase.BODY and self.pipeline:
            self.pipeline.popleft()  # the newest, which is broken

    def _say(self, refusal: _Refusal) -> None:
        if self._is_last_word_given or self.transport.is_closing():
            return
        self._is_last_word_given = True
        status, code, detail = refusal
        body = msgspec.json.encode(
            {
                "type": f"urn:clew:error:{code}",
                "title": http.HTTPStatus(status).phrase,
                "status": status,
                "detail": detail,
                "code": code,
                "retryable": status in (408, 429, 503),
                "next": "open a new connection" if status in (408, 429, 503) else "correct the request",
            }
        )
        lines = [STATUS_LINE[status]]
        lines += [b"%s: %s\r\n" % (name, value) for name, value in self.server_state.default_headers]
        lines += [
            b"content-type: application/problem+json\r\n",
            b"content-length: %d\r\n" % len(body),
            b"retry-after: 1\r\n" if status in (429, 503) else b"",
            b"connection: close\r\n\r\n",
            body,
        ]
        self.transport.write(b"".join(lines))
        self.server_state.on_refused(self, status)
        self._phase = _Phase.BODY  # more may be under way
        self.finish()


class _Closing:
    """What a request sees of the transport: closing it waits for a client that is still sending."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.write = connection.transport.write
        self.is_closing = connection.transport.is_closing
        self.get_extra_info = connection.transport.get_extra_info

    def close(self) -> None:
        self._connection.finish()


def _too_large(limits: Limits) -> _Refusal:
    detail = f"the headers have more than {limits.head:,} bytes, or are more than {limits.headers}"
    return _Refusal(431, "headers_too_large", detail)
