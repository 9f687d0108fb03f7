"""Clients that mean harm, against `clew serve` as it is run; and a client that means none, beside them.

One server has to withstand them all.
"""

from __future__ import annotations

import gzip
import io
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.server.process.commands import Serving, serving

MIB = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("attacked"), "--quiet") as found:
        check_honest(found)
        yield found


def check_honest(server: Serving) -> None:
    """A client that means no harm is answered."""
    assert server.get("/api/v1/sessions").status_code == 200


def memory(server: Serving) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def connect(server: Serving) -> socket.socket:
    return socket.create_connection(server.address)


def head(server: Serving, first: str, *headers: str) -> bytes:
    host = server.url.removeprefix("http://")
    return "\r\n".join([first, f"Host: {host}", *headers, "", ""]).encode()


def flood(one: socket.socket, data: Callable[[], bytes], most: int = 256 * MIB) -> int:
    """Send until the server has had enough; how much that was."""
    sent = 0
    with suppress(OSError):
        while sent < most:
            piece = data()
            one.sendall(piece)
            sent += len(piece)
    return sent


def test_slow_headers_of_many_connections(server: Serving) -> None:
    before = memory(server)
    with ExitStack() as opened:
        many = [opened.enter_context(connect(server)) for _ in range(300)]
        for piece in (b"GET / HTTP/1.1\r\nX: ", b"a", b"a"):
            for one in many:
                with suppress(OSError):
                    one.sendall(piece)
            check_honest(server)
    assert memory(server) - before < 20 * MIB


def test_a_million_headers(server: Serving) -> None:
    before = memory(server)
    for _ in range(4):
        with connect(server) as one:
            one.sendall(head(server, "GET / HTTP/1.1")[:-2])
            assert flood(one, lambda: b"X: a\r\n" * 10_000) < 64 * MIB
            check_honest(server)
    assert memory(server) - before < 20 * MIB


@pytest.mark.parametrize("has_token", [False, True])
def test_a_chunked_body_without_an_end(server: Serving, has_token: bool) -> None:
    token = [f"Authorization: Bearer {server.token}"] if has_token else []
    before = memory(server)
    chunk = b"100000\r\n" + b"a" * MIB + b"\r\n"
    coded = ("Content-Type: application/json", "Transfer-Encoding: chunked", *token)
    for _ in range(3):
        with connect(server) as one:
            one.sendall(head(server, "POST /api/v1/sessions HTTP/1.1", *coded))
            flood(one, lambda: chunk, most=20 * MIB)
            check_honest(server)
            assert flood(one, lambda: chunk) < 128 * MIB
    assert memory(server) - before < 60 * MIB  # 32 MiB are what a request may have


def test_a_length_that_is_too_large_is_refused_before_it_is_read(server: Serving) -> None:
    told = ("Content-Type: application/json", f"Content-Length: {1 << 40}")
    with connect(server) as one:
        one.sendall(
            head(server, "POST /api/v1/sessions HTTP/1.1", *told, f"Authorization: Bearer {server.token}")
        )
        assert one.recv(65536).startswith(b"HTTP/1.1 413")


def test_a_body_that_grows_when_it_is_unpacked(server: Serving) -> None:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as file:
        for _ in range(128):
            file.write(b" " * MIB)
    before = memory(server)
    with server.client() as client:
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        bomb = packed.getvalue()
        assert client.post("/api/v1/sessions", content=bomb, headers=headers).status_code == 413
    assert memory(server) - before < 80 * MIB


def test_connections_without_a_request_do_not_keep_others_out(server: Serving) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with ExitStack() as opened:
        for _ in range(min(2300, hard - 500)):
            opened.enter_context(connect(server))
        check_honest(server)
    check_honest(server)


def test_requests_in_a_row_without_waiting_for_answers(server: Serving) -> None:
    before = memory(server)
    ask = head(server, "GET /health HTTP/1.1")
    with connect(server) as one:
        threading.Thread(target=lambda: list(iter(lambda: _received(one), b"")), daemon=True).start()
        flood(one, lambda: ask * 100, most=2 * MIB)
        check_honest(server)
    assert memory(server) - before < 20 * MIB


def _received(one: socket.socket) -> bytes:
    try:
        return one.recv(65536)
    except OSError:
        return b""
