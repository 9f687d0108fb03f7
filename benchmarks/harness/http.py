"""A server as a process of its own, and two clients that take as little time themselves as they can.

A client for people, such as httpx, takes longer for a request than the server does for its answer, and would
measure itself. These write a request that was made before, and look for the end of the answer.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.harness.measure import ROOT

TOKEN: Final = "the-token-of-a-benchmark"
PATIENCE: Final = 30.0
"""Seconds until a server has to answer."""


def request(port: int, method: str, path: str, body: Any = None) -> bytes:
    """One request, as it stands on the wire."""
    content = b"" if body is None else msgspec.json.encode(body)
    lines = [f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{port}", f"authorization: Bearer {TOKEN}"]
    if body is not None:
        lines += ["content-type: application/json", f"content-length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


class Connection:
    """One connection that is kept open; a request at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = port

    def ask(self, sent: bytes) -> bytes:
        """Send a request and wait for its answer: the body. An answer that is no success is an error."""
        self.socket.sendall(sent)
        got = self.socket.recv(65536)
        while (missing := missing_of(got)) != 0:
            piece = self.socket.recv(max(missing, 65536))
            if not piece:
                raise ConnectionError(f"the server went away in the middle of an answer: {got[:200]!r}")
            got += piece
        check(got)
        return got[got.index(b"\r\n\r\n") + 4 :]

    def close(self) -> None:
        self.socket.close()


def missing_of(got: bytes) -> int:
    """How many bytes of an answer are still to come; -1: that is not known yet."""
    end = got.find(b"\r\n\r\n")
    if end < 0:
        return -1
    start = got.find(b"content-length: ", 0, end)
    if start < 0:
        raise ValueError(f"an answer without its length: {got[:end]!r}")
    length = int(got[start + 16 : got.index(b"\r\n", start)])
    return end + 4 + length - len(got)


def check(got: bytes) -> None:
    if not got.startswith(b"HTTP/1.1 2"):
        raise ValueError(f"not a success: {got[:1000].decode(errors='replace')}")


def crowd(port: int, clients: int, count: int, sent: Callable[[int, int], bytes]) -> float:
    """Requests a second of so many connections at once, `count` requests each, one after the other.

    One thread and epoll: what it takes of the machine is little beside the server's share.

    Args:
        sent: The request of a client, by the number of the client and that of the request.
    """
    connections = [Connection(port) for _ in range(clients)]
    watched = select.epoll()
    by_number = {one.socket.fileno(): number for number, one in enumerate(connections)}
    for number in by_number:
        watched.register(number, select.EPOLLIN)
    done, partial = [0] * clients, [b""] * clients
    under_way = clients
    began = time.perf_counter()
    for number, one in enumerate(connections):
        one.socket.sendall(sent(number, 0))
    while under_way:
        for descriptor, _ in watched.poll(PATIENCE):
            number = by_number[descriptor]
            connection = connections[number].socket
            got = partial[number] + connection.recv(65536)
            if missing_of(got) != 0:
                partial[number] = got
                continue
            check(got)
            partial[number] = b""
            done[number] += 1
            if done[number] < count:
                connection.sendall(sent(number, done[number]))
            else:
                under_way -= 1
    rate = clients * count / (time.perf_counter() - began)
    watched.close()
    for one in connections:
        one.close()
    return rate


class Served:
    """A server process."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port

    def connect(self) -> Connection:
        return Connection(self.port)

    def memory(self) -> int:
        """Bytes that are in memory now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def processor(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def switches(self) -> int:
        """How often one of its threads gave a processor away, so far."""
        found = 0
        for status in Path(f"/proc/{self.process.pid}/task").glob("*/status"):
            lines = status.read_text().splitlines()
            found += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
        return found


@contextmanager
def serving(what: str, *arguments: str, under: Sequence[str] = ()) -> Iterator[Served]:
    """A process that serves: `bare`, or `store` and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*under, sys.executable, "-m", "benchmarks.harness.http", what, str(port), *arguments]
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        _wait_for(port, process)
        yield Served(process, port)
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # also what strace runs: itself it does not stop
        process.wait(PATIENCE)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"the server did not start; it ended with {process.poll()}")


def _serve(what: str, port: int, *arguments: str) -> None:
    """In the process of the server: a store as `clew serve` serves it, or the bare route by uvicorn."""
    if what == "store":
        from clew.server.process.serve import Options, serve
        from clew.server.process.settings import Settings

        serve(arguments[0], Settings(token=TOKEN), Options(port=port, quiet=True))
        return
    import uvicorn

    uvicorn.run(_bare(), host="127.0.0.1", port=port, log_config=None, access_log=False, proxy_headers=False)


def _bare() -> Any:
    """The least that a route of Starlette can do: read the body as JSON, answer with some."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def answer(request: Request) -> JSONResponse:
        given = await request.body()
        return JSONResponse({"bytes": len(given)}, 201)

    return Starlette(routes=[Route("/sessions/{id}/entries", answer, methods=["POST"])])


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
