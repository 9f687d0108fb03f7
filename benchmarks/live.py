"""How soon is a commit seen elsewhere, and what does it cost to wait for one?

A server, a writer and a client are three processes. The writer notes when an append has returned, the client
when its frame has come, by the same clock. Then the server has 200 streams in which nothing happens: its
processor time, and how often it read from the store meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.harness.report import Result, Row, ms
from benchmarks.harness.script import Lab, main

SOON: Final = 0.150
"""Seconds from a commit to its frame, of 95 in 100."""
IDLE: Final = 0.05
"""Of a core, with all streams."""
STREAMS: Final = 200
TOKEN: Final = "token-of-the-benchmark"

_SERVER: Final = """
import signal, socket, sys
import uvicorn
import clew
from clew.server import app

reads = 0

def count(read):
    def counted(*args):
        global reads
        reads += 1
        return read(*args)
    return counted

store = clew.open(sys.argv[1])
backend = type(store._engine.backend)
backend.read = count(backend.read)
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(1000)
port = listener.getsockname()[1]
signal.signal(signal.SIGUSR1, lambda *_: print(reads, flush=True))
print(port, flush=True)
application = app(store, token=sys.argv[2], hosts=(f"127.0.0.1:{port}",), streams=1000)
uvicorn.Server(uvicorn.Config(application, log_level="error")).run(sockets=[listener])
"""
_WRITER: Final = """
import json, sys, time
import clew

times = []
with clew.open(sys.argv[1]) as store:
    session = store.session("s")
    for number in range(int(sys.argv[2])):
        time.sleep(0.02 + (number * 7919 % 41) / 1000)
        session.append({"role": "user", "content": f"{number}"})
        times.append(time.monotonic())
print(json.dumps(times))
"""
_WATCHER: Final = """
import sys, time
import clew

with clew.open(sys.argv[1]) as store:
    changes = store.watch()
    print("there", flush=True)
    for change in changes:
        print(change.messages, time.monotonic(), flush=True)
"""


async def run(lab: Lab) -> Result:
    details: dict[str, Any] = {}
    rows: list[Row] = []
    with ExitStack() as stack:
        for name, address in stores(lab, stack):
            lab.say(name)
            rows += await soon(name, address, lab.pick(200, 50), details)
            rows += watched(name, address, lab.pick(200, 50), details)
            rows += await idle(name, address, lab.pick(20, 5), details)
    return Result(rows, details)


def stores(lab: Lab, stack: ExitStack) -> Iterator[tuple[str, str]]:
    yield "sqlite", f"sqlite:///{lab.directory / 'clew.db'}"
    yield "jsonl", f"jsonl:///{lab.directory / 'clew'}"
    from benchmarks.postgres.server import server

    try:
        address = stack.enter_context(server(lab))
    except Exception as exc:  # noqa: BLE001 - there may be none here
        lab.say(f"no PostgreSQL: {exc}")
        return
    yield "postgres", address


# -- from the commit to the frame


async def soon(name: str, address: str, count: int, details: dict[str, Any]) -> list[Row]:
    run_writer(address, 1)
    with serving(address) as (_, port):
        arrived: list[float] = []
        async with following(port) as frames:
            await anext(frames)
            writer = asyncio.create_task(asyncio.to_thread(run_writer, address, count))
            async for event in frames:
                if event.startswith(b"event: entry"):
                    arrived.append(time.monotonic())
                    if len(arrived) == count:
                        break
            committed = await writer
    return told(name, "commit to frame", committed, arrived, details)


def watched(name: str, address: str, count: int, details: dict[str, Any]) -> list[Row]:
    """`store.watch()` in another process, of which several appends may be one change."""
    with started(_WATCHER, address) as process:
        assert process.stdout is not None
        process.stdout.readline()
        committed = run_writer(address, count)
        end = time.monotonic() + 2
        seen: dict[int, float] = {}
        total = 0
        os.set_blocking(process.stdout.fileno(), False)
        text = b""
        while time.monotonic() < end:
            text += process.stdout.read() or b""
            time.sleep(0.01)
    for line in text.decode().splitlines():
        messages, moment = line.split()
        total = int(messages)
        seen[total] = float(moment)
    first = total - count
    arrived = [min(at for n, at in seen.items() if n > first + number) for number in range(count)]
    return told(name, "commit to change of watch", committed, arrived, details)


def told(
    name: str, what: str, committed: list[float], arrived: list[float], details: dict[str, Any]
) -> list[Row]:
    waits = sorted(max(0.0, there - here) for here, there in zip(committed, arrived, strict=True))
    p50, p95 = statistics.median(waits), waits[int(len(waits) * 0.95)]
    details[f"{name}, {what}"] = {"p50": p50, "p95": p95, "most": waits[-1], "samples": len(waits)}
    return [Row(f"{name}: {what}, p95", ms(p95), f"p50 {ms(p50)}, limit {ms(SOON)}", p95 / SOON, 1)]


# -- nothing happens


async def idle(name: str, address: str, seconds: int, details: dict[str, Any]) -> list[Row]:
    with serving(address) as (process, port):
        async with asyncio.TaskGroup() as group:
            ready = asyncio.Semaphore(0)
            clients = [group.create_task(wait(port, ready)) for _ in range(STREAMS)]
            for _ in range(STREAMS):
                await ready.acquire()
            await asyncio.sleep(3)  # the first looks are behind it
            before, reads, loaded = used(process.pid), asked(process), io(process.pid)
            await asyncio.sleep(seconds)
            took, looks = used(process.pid) - before, asked(process) - reads
            bytes_read, held = io(process.pid) - loaded, memory(process.pid)
            for client in clients:
                client.cancel()
    share = took / seconds
    details[f"{name}, {STREAMS} idle streams"] = {
        "share of a core": share,
        "seconds": seconds,
        "reads of the store": looks,
        "bytes read": bytes_read,
        "memory": held,
    }
    return [
        Row(f"{name}: {STREAMS} idle streams", f"{share:.2%} of a core", f"{IDLE:.0%}", share / IDLE, 1),
        Row(f"{name}: reads of the store in {seconds} s", str(looks), "one look every 10 s", looks),
    ]


async def wait(port: int, ready: asyncio.Semaphore) -> None:
    async with following(port) as frames:
        await anext(frames)
        ready.release()
        async for _ in frames:
            pass


def used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def io(pid: int) -> int:
    lines = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(lines["rchar"])


def memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def asked(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(10)
    assert process.stdout is not None
    return int(process.stdout.readline())


# -- processes


def run_writer(address: str, count: int) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", _WRITER, address, str(count)], check=True, stdout=subprocess.PIPE
    )
    found: list[float] = json.loads(done.stdout)
    return found


@contextmanager
def started(code: str, *args: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", code, *args], stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def serving(address: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    with started(_SERVER, address, TOKEN) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())


@asynccontextmanager
async def following(port: int) -> AsyncIterator[AsyncIterator[bytes]]:
    """The frames of a stream, as they come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"GET /api/v1/sessions/s/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Authorization: Bearer {TOKEN}\r\n\r\n".encode()
    )

    async def frames() -> AsyncIterator[bytes]:
        rest = b""
        while data := await reader.read(65536):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if line.startswith(b"event: "):
                    yield line

    try:
        yield frames()
    finally:
        writer.transport.abort()


if __name__ == "__main__":
    main(run, __doc__)
