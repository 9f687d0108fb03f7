"""Real sockets against the limits of a connection."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from clew.server.process import protocol
from clew.server.process.access_log import Log
from clew.server.process.loop import Loop, run
from clew.server.process.metrics import Metrics
from clew.server.process.protocol import Connection, Limits, State
from clew.server.process.settings import Settings
from tests.server.sockets import listening
from tests.server.sockets import run as run_in_loop
from tests.support.rows import each_row
from tests.support.waiting import until


class Echo:
    """Answers with what it was sent, and what it saw of the request."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.metrics = Metrics()
        self.is_ready = False
        self.seen: list[tuple[str, bytes, list[tuple[bytes, bytes]]]] = []
        self.gone = 0
        self.release = threading.Event()

    def stop_streams(self) -> None:
        pass

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for name in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{name}.complete"})
            return
        match scope["path"]:
            case "/refuse":
                await self._answer(send, b"no", 413)
            case "/wait":
                await asyncio.to_thread(self.release.wait)
                await self._answer(send, b"waited")
            case "/forever":
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"begun", "more_body": True})
                while (await receive())["type"] != "http.disconnect":
                    pass
                self.gone += 1
            case "/large":
                await send({"type": "http.response.start", "status": 200, "headers": []})
                for _ in range(1000):
                    await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
                await send({"type": "http.response.body", "body": b""})
            case path:
                await self._echo(scope, path, receive, send)

    async def _echo(self, scope: Any, path: str, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.gone += 1
                return
            if len(body) < 1 << 20:
                body += message["body"]
            if not message["more_body"]:
                break
        self.seen.append((path, body, scope["headers"]))
        await self._answer(send, path.encode() + b" " + body)

    async def _answer(self, send: Any, body: bytes, status: int = 200) -> None:
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Running:
    """A server whose time stands still until a test lets it pass."""

    def __init__(self, **limits: Any) -> None:
        self.app = Echo()
        self.passed = 0.0
        """Seconds."""
        self.state = State(Limits(**limits), clock=lambda: self.passed)
        self.port = 0

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port))

    def ask(self, data: bytes) -> bytes:
        """All that comes until the server closes."""
        with self.connect() as one:
            one.sendall(data)
            return rest(one)

    def wait(self, seconds: float) -> None:
        """Let this time pass, and the server look at its deadlines."""

        async def look() -> None:
            self.passed += seconds
            self.state.check()

        run_in_loop(look())

    def wait_for_the_end(self, one: socket.socket, trickle: bytes = b"") -> bytes:
        """What comes until the server closes, while time passes and a client sends something each second."""
        found = b""
        with suppress(ConnectionError):
            while True:
                one.sendall(trickle)
                self.wait(1)
                if select.select([one], [], [], 0)[0]:
                    data = one.recv(65536)
                    if not data:
                        return found
                    found += data
        return found

    @property
    def connections(self) -> int:
        return len(self.state.connections)


def rest(one: socket.socket) -> bytes:
    """What comes until the other side closes."""
    found = b""
    try:
        while data := one.recv(65536):
            found += data
    except ConnectionResetError:
        pass
    return found


def answer(one: socket.socket) -> bytes:
    """One answer with a Content-Length, read by the byte: another one may follow."""
    head = b""
    while b"\r\n\r\n" not in head:
        data = one.recv(1)
        assert data, head
        head += data
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    body = b""
    while len(body) < length:
        body += one.recv(length - len(body))
    return head.partition(b"\r\n")[0] + b" " + body


def flood(one: socket.socket, data: bytes) -> None:
    """Send it until the other side has had enough; 64 MiB are too many."""
    with pytest.raises(ConnectionError):
        send_often(one, data)


def send_often(one: socket.socket, data: bytes) -> None:
    for _ in range((64 << 20) // len(data)):
        one.sendall(data)


def statuses(found: bytes) -> list[int]:
    return [int(part[:3]) for part in found.split(b"HTTP/1.1 ")[1:]]


@contextmanager
def serving(**limits: Any) -> Iterator[Running]:
    server = Running(**limits)
    options = {"http": Connection, "ws": "none", "lifespan": "off"}
    with listening(lambda _: server.app, state=server.state, **options) as (address, _):
        server.port = int(address.rpartition(":")[2])
        try:
            yield server
        finally:
            server.app.release.set()


@pytest.fixture
def server() -> Iterator[Running]:
    with serving() as found:
        yield found


def memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /p HTTP/1.1\r\nHost: a\r\n"
WAIT = b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"
FOREVER = b"GET /forever HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNK = b"10000\r\n" + b"a" * 65536 + b"\r\n"


def test_an_answer_says_no_program_and_no_version(server: Running) -> None:
    found = server.ask(HEAD + b"Connection: close\r\n\r\n")
    assert statuses(found) == [200]
    head = found.partition(b"\r\n\r\n")[0].lower()
    assert b"\r\ndate: " in head
    assert b"server:" not in head
    assert b"uvicorn" not in found.lower()


def test_several_requests_use_one_connection(server: Running) -> None:
    with server.connect() as one:
        for number in range(5):
            one.sendall(POST + b"Content-Length: 1\r\n\r\n%d" % number)
            assert answer(one) == b"HTTP/1.1 200 OK /p %d" % number


# -- heads


@each_row(
    "headers",
    [
        b"X: " + b"a" * 20_000 + b"\r\n",
        b"".join(b"X-%d: a\r\n" % number for number in range(101)),
        b"".join(b"X-%d: %s\r\n" % (number, b"a" * 1000) for number in range(20)),
    ],
    ids=["one", "many", "sum"],
)
def test_headers_that_are_too_large_are_refused(server: Running, headers: bytes) -> None:
    found = server.ask(HEAD + headers + b"\r\n")
    assert statuses(found) == [431]
    assert b'"code":"headers_too_large"' in found
    assert not server.app.seen


def test_a_hundred_headers_and_sixteen_kibibytes_are_not_too_large(server: Running) -> None:
    headers = b"".join(b"X-%02d: %s\r\n" % (number, b"a" * 140) for number in range(98))
    assert statuses(server.ask(HEAD + headers + b"Connection: close\r\n\r\n")) == [200]


def test_s38_a_million_headers_end_after_the_first_hundred(server: Running) -> None:
    before = memory()
    with server.connect() as one:
        one.sendall(HEAD)
        try:
            for _ in range(1000):
                one.sendall(b"X: a\r\n" * 1000)
        except OSError:
            pass
        assert statuses(rest(one)) in ([431], [])
    assert memory() - before < 20 << 20
    assert not server.app.seen


def test_a_header_without_an_end_does_not_grow() -> None:
    with serving(drain=1 << 20) as server:
        before = memory()
        with server.connect() as one:
            one.sendall(HEAD + b"X: ")
            flood(one, b"a" * 65536)
        assert memory() - before < 20 << 20
        assert not server.app.seen


def test_a_header_without_an_end_behind_a_body_does_not_grow() -> None:
    with serving(drain=1 << 20) as server, server.connect() as one:
        one.sendall(POST + b"Content-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nX: ")
        assert answer(one).endswith(b"hello")
        flood(one, b"a" * 65536)
        assert statuses(rest(one)) in ([431], [])


def test_an_address_that_is_too_long_is_refused(server: Running) -> None:
    assert statuses(server.ask(b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n")) == [414]


def test_s38_slow_headers_are_not_waited_for(server: Running) -> None:
    with server.connect() as one:
        one.sendall(HEAD)
        assert statuses(server.wait_for_the_end(one, trickle=b"X: a\r\n")) == [408]
    assert server.passed > 10


def test_a_connection_without_a_request_is_closed(server: Running) -> None:
    with server.connect() as one:
        assert server.wait_for_the_end(one) == b""
        assert server.passed > 10
    with server.connect() as other:
        other.sendall(HEAD + b"\r\n")
        assert answer(other) == b"HTTP/1.1 200 OK / "
        before = server.passed
        assert server.wait_for_the_end(other) == b""
        assert server.passed - before > 15


# -- what two programs could read differently


@each_row(
    "data",
    [
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        POST + b"Content-Length: +5\r\n\r\nhello",
        POST + b"Content-Length: -5\r\n\r\nhello",
        POST + b"Content-Length: 5, 5\r\n\r\nhello",
        POST + b"Content-Length: 0x5\r\n\r\nhello",
        POST + b"Content-Length: 99999999999999999999999\r\n\r\nhello",
        POST + b"Content-Length : 5\r\n\r\nhello",
        POST + b"Transfer-Encoding: identity\r\n\r\nhello",
        POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        b"POST /p HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n5 5\r\nhello\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
        HEAD + b"X: a\0b\r\n\r\n",
        HEAD + b"X\0: b\r\n\r\n",
        HEAD + b"X: a\x01b\r\n\r\n",
        HEAD + b"X: a\rY: b\r\n\r\n",
        HEAD + b"X: a\r\n b\r\n\r\n",
        HEAD + b": b\r\n\r\n",
        HEAD + b"Host: b\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT b:443 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
        b"GET /\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
    ],
    ids=repr,
)
def test_a_request_that_could_be_read_in_two_ways_is_refused(server: Running, data: bytes) -> None:
    found = server.ask(data + b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
    assert len(statuses(found)) == 1
    assert statuses(found)[0] in (400, 501, 505)
    assert b"application/problem+json" in found
    assert not server.app.seen


def test_a_trailer_is_not_taken_for_a_header(server: Running) -> None:
    chunked = b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nAuthorization: Bearer x\r\n\r\n"
    with server.connect() as one:
        one.sendall(POST + chunked)
        assert answer(one) == b"HTTP/1.1 200 OK /p hello"
    assert b"authorization" not in [name for name, _ in server.app.seen[0][2]]


def test_an_upgrade_is_declined_and_its_body_is_no_request(server: Running) -> None:
    inner = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    asked = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n"
    with server.connect() as one:
        one.sendall(POST + asked + b"Content-Length: %d\r\n\r\n" % len(inner) + inner)
        assert answer(one).endswith(b"/p " + inner)
        for piece in (POST + asked + b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\nhel", b"lo\r\n0\r\n\r\n"):
            one.sendall(piece)
        assert answer(one).endswith(b"/p hello")
        one.sendall(HEAD + asked + b"\r\n" + POST + b"Content-Length: 2\r\n\r\nhi")
        assert answer(one) + answer(one) == b"HTTP/1.1 200 OK / HTTP/1.1 200 OK /p hi"
    assert [path for path, _, _ in server.app.seen] == ["/p", "/p", "/", "/p"]


# -- bodies


def test_s38_a_body_that_trickles_without_an_end_is_not_read_for_ever(server: Running) -> None:
    with server.connect() as one:
        one.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        server.wait_for_the_end(one, trickle=b"1;a=b\r\na\r\n")
    until(lambda: server.app.gone == 1)
    assert server.passed > 30
    assert not server.app.seen


def test_a_slow_body_is_not_waited_for(server: Running) -> None:
    with server.connect() as one:
        one.sendall(POST + b"Content-Length: 100\r\n\r\nhello")
        assert statuses(server.wait_for_the_end(one)) == [408]
    until(lambda: server.app.gone == 1)
    assert server.passed > 30


def test_the_answer_to_a_body_that_is_not_wanted_arrives(server: Running) -> None:
    large = b"a" * (8 << 20)
    for close in (b"", b"Connection: close\r\n"):
        with server.connect() as one:
            one.sendall(b"POST /refuse HTTP/1.1\r\nHost: a\r\n" + close)
            one.sendall(b"Content-Length: %d\r\n\r\n" % len(large) + large)
            assert statuses(rest(one)) == [413]


def test_what_is_not_wanted_is_read_for_a_while_only() -> None:
    refuse = b"POST /refuse HTTP/1.1\r\nHost: a\r\n"
    with serving(drain=1 << 20) as server:
        with server.connect() as one:
            one.sendall(refuse + b"Transfer-Encoding: chunked\r\n\r\n")
            flood(one, CHUNK)
        with server.connect() as one:
            one.sendall(refuse + b"Content-Length: 100\r\n\r\n")
            assert statuses(rest(one)) == [413]
            assert server.connections == 1
            server.wait(5.1)
            until(lambda: not server.connections)


def test_an_answer_that_is_not_read_is_cut_off(server: Running) -> None:
    with server.connect() as one:
        before = memory()
        one.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        until(lambda: server.connections == 1)
        while server.connections:
            server.wait(1)
        assert server.passed > 30
        assert memory() - before < 30 << 20


# -- several requests at once


def test_pipelined_requests_are_answered_in_order(server: Running) -> None:
    with server.connect() as one:
        one.sendall(b"".join(POST + b"Content-Length: 1\r\n\r\n%d" % number for number in range(9)))
        assert [answer(one)[-1:] for _ in range(9)] == [b"%d" % number for number in range(9)]


@each_row(
    ("behind", "answers"),
    [
        ((HEAD + b"\r\n") * 500, [200] * 65 + [429]),
        (b"bad\0\r\n\r\n", [200, 400]),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", [200, 400]),
    ],
    ids=["too many", "a bad one", "one with a bad body"],
)
def test_what_is_refused_behind_a_request_waits_for_its_turn(behind: bytes, answers: list[int]) -> None:
    with serving() as server, server.connect() as one:
        one.sendall(WAIT + behind)
        until(lambda: len(server.state.tasks) == 1)
        server.app.release.set()
        assert statuses(rest(one)) == answers
        assert len(server.app.seen) == len(answers) - 2


def test_a_stream_with_a_request_behind_it_learns_that_its_client_is_gone(server: Running) -> None:
    with server.connect() as one:
        one.sendall(FOREVER)
        assert one.recv(65536)
        one.sendall(HEAD + b"\r\n")
        until(lambda: any(getattr(each, "pipeline", None) for each in server.state.connections))
    while not server.app.gone:  # nothing is read here: the system is asked at each look
        server.wait(0)


# -- many connections


def test_a_connection_too_many_is_told_so() -> None:
    with serving(connections=5) as server:
        busy = [server.connect() for _ in range(5)]
        for one in busy:
            one.sendall(WAIT)
        until(lambda: len(server.state.tasks) == 5)
        found = server.ask(b"")
        assert statuses(found) == [503]
        assert b"retry-after: 1" in found
        server.app.release.set()
        assert all(answer(one).endswith(b"waited") for one in busy)
        with server.connect() as one:  # the others are idle now, and make room
            one.sendall(HEAD + b"\r\n")
            assert answer(one) == b"HTTP/1.1 200 OK / "
        for one in busy:
            one.close()


def test_one_address_of_another_machine_has_few_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_LOCAL", ("none",))  # as if this machine were another one
    with serving(per_address=3) as server:
        few = [server.connect() for _ in range(3)]
        until(lambda: server.connections == 3)
        assert statuses(server.ask(b"")) == [503]
        few.pop().close()
        until(lambda: server.connections == 2)
        with server.connect() as one:
            one.sendall(HEAD + b"\r\n")
            assert answer(one) == b"HTTP/1.1 200 OK / "
        for one in few:
            one.close()
        until(lambda: not server.connections)
        assert not server.state.by_address


def test_many_silent_connections_do_not_keep_others_out() -> None:
    with serving(connections=50) as server:
        silent = [server.connect() for _ in range(200)]
        with server.connect() as one:
            one.sendall(HEAD + b"\r\n")
            assert answer(one) == b"HTTP/1.1 200 OK / "
        assert server.connections <= 60
        for one in silent:
            one.close()


# -- the loop of `clew serve`


@contextmanager
def looping(tmp_path: Path, *, grace: float = 1000.0, **limits: Any) -> Iterator[tuple[Running, Loop]]:
    server, log = Running(), Log(tmp_path / "log")
    listener = socket.create_server(("127.0.0.1", 0))
    server.port = listener.getsockname()[1]
    loop = Loop(server.app, log, limits=Limits(**limits), grace=grace)  # type: ignore[arg-type]
    thread = threading.Thread(target=run, args=(loop, [listener]))
    thread.start()
    until(lambda: server.app.is_ready)
    try:
        yield server, loop
    finally:
        server.app.release.set()
        loop.stop()
        thread.join()
        log.close()


def test_deadlines_are_looked_at(tmp_path: Path) -> None:
    """Once a second: that is how long it takes."""
    with looping(tmp_path, head_seconds=0) as (server, _), server.connect() as one:
        assert rest(one) == b""


def test_a_stop_lets_requests_end_and_closes_idle_connections(tmp_path: Path) -> None:
    with looping(tmp_path) as (server, loop), server.connect() as idle, server.connect() as busy:
        idle.sendall(HEAD + b"\r\n")
        answer(idle)
        busy.sendall(WAIT)
        until(lambda: len(loop.server_state.tasks) == 1)
        loop.stop()
        assert rest(idle) == b""
        with pytest.raises(ConnectionRefusedError):
            server.connect()
        server.app.release.set()
        found = rest(busy)
        assert found.endswith(b"waited")
        assert b"connection: close" in found.lower()
    assert loop.cut == 0


def test_a_stop_does_not_wait_for_ever(tmp_path: Path) -> None:
    with looping(tmp_path, grace=0.01) as (server, loop), server.connect() as one:
        one.sendall(FOREVER)
        assert one.recv(65536)
        loop.stop()
        rest(one)
    assert loop.cut == 1
