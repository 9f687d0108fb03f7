"""Clients of a server that is killed: they repeat, under the same key, until they are answered.

Sockets and asyncio, nothing else: hundreds of clients must not take the processor from the server. An answer
counts when all of it has come.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import msgspec

import clew
from clew.errors import BackendUnavailableError, ClewError, OutcomeUnknownError

TOKEN: Final = "the-token-of-a-campaign"
PAUSE: Final = 0.05
"""Seconds before another try, while there is no server."""
API: Final = "/api/v1"
TROUBLE: Final = (OSError, asyncio.IncompleteReadError)
"""What it looks like to a client when the server is killed."""


class Acknowledged(msgspec.Struct):
    """An append that was answered."""

    text: str
    id: str
    """Of the entry."""


class Speaker:
    """Says one thing after the other in a session, each until it is acknowledged."""

    def __init__(self, port: int, name: str, session: str) -> None:
        self._port = port
        self.name = name
        self.session = session
        self.said: list[Acknowledged] = []
        self.unanswered = 0
        """Requests that no answer came to."""
        self.repeated = 0
        """Those of them that had been committed: the repetition found the entry of the first one."""
        self.refused: list[str] = []
        self.slowest = 0.0


class Client(Speaker):
    """By HTTP."""

    _connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def talk(self, over: threading.Event) -> None:
        """Until it is over; what was begun is finished."""
        try:
            while not over.is_set() and not self.refused:
                began = time.monotonic()
                await self._say(f"{self.name} {len(self.said)}")
                self.slowest = max(self.slowest, time.monotonic() - began)
        finally:
            self._hang_up()

    async def _say(self, text: str) -> None:
        body = {"messages": [{"role": "user", "content": text}]}
        path = f"{API}/sessions/{self.session}/entries"
        sent = request(self._port, "POST", path, body, {"idempotency-key": f"key of {text}"})
        is_repeated = False
        while True:
            asked_at = time.time()
            try:
                reader, writer = await self._connected()
            except TROUBLE:
                await asyncio.sleep(PAUSE)
                continue
            try:
                writer.write(sent)
                status, content = await answer_of(reader)
            except TROUBLE:
                self.unanswered += 1
                is_repeated = True
                self._hang_up()
                continue
            answer = msgspec.json.decode(content)
            if status in (200, 201):
                entry = answer["data"][0]
                at = datetime.fromisoformat(entry["at"]).timestamp()
                self.repeated += is_repeated and at < asked_at
                self.said.append(Acknowledged(text, entry["id"]))
                return
            if not answer["retryable"]:
                self.refused.append(f"{self.name}: {status} {answer['code']}: {answer['detail']}")
                return
            await asyncio.sleep(PAUSE)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._connection is None:
            self._connection = await asyncio.open_connection("127.0.0.1", self._port)
        return self._connection

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None


class RemoteStore(Speaker):
    """By a store that is opened over HTTP, in a thread."""

    def talk(self, over: threading.Event) -> None:
        with clew.open(f"http://127.0.0.1:{self._port}", token=TOKEN) as store:
            session = store.get(self.session)
            while not over.is_set() and not self.refused:
                began = time.monotonic()
                self._say(session, f"{self.name} {len(self.said)}")
                self.slowest = max(self.slowest, time.monotonic() - began)

    def _say(self, session: clew.Session, text: str) -> None:
        while True:
            try:
                [entry] = session.append({"role": "user", "content": text}, key=f"key of {text}")
            except (BackendUnavailableError, OutcomeUnknownError):
                self.unanswered += 1
                time.sleep(PAUSE)
            except ClewError as error:
                self.refused.append(f"{self.name}: {error.code}: {error}")
                return
            else:
                self.said.append(Acknowledged(text, entry.id))
                return


class Follower:
    """Follows a session, and goes on behind the last frame that it has seen."""

    def __init__(self, port: int, session: str) -> None:
        self._port = port
        self.session = session
        self.seen: list[str] = []
        """The ids of entries, in the order in which they came."""
        self.odd: list[str] = []
        """Frames that should not have come: nothing was moved or removed."""
        self.connections = 0
        self._last = "start"

    async def follow(self) -> None:
        """Until it is cancelled."""
        while True:
            with suppress(*TROUBLE):
                await self._follow_once()
            await asyncio.sleep(PAUSE)

    async def _follow_once(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            path = f"{API}/sessions/{self.session}/live"
            writer.write(request(self._port, "GET", path, None, {"last-event-id": self._last}))
            status, _ = await head_of(reader)
            if status != 200:
                return
            self.connections += 1
            async for frame in frames(reader):
                self._take(frame)
        finally:
            writer.close()

    def _take(self, frame: dict[str, str]) -> None:
        match frame.get("event"):
            case "entry":
                self.seen.append(msgspec.json.decode(frame["data"])["id"])
            case "moved" | "gone" | "damaged":
                self.odd.append(f"{self.session}: {frame}")
        self._last = frame.get("id", self._last)


def request(port: int, method: str, path: str, body: Any, more: dict[str, str]) -> bytes:
    content = b"" if body is None else msgspec.json.encode(body)
    headers = {"host": f"127.0.0.1:{port}", "authorization": f"Bearer {TOKEN}", **more}
    if body is not None:
        headers |= {"content-type": "application/json", "content-length": str(len(content))}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + content


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The status and the body of an answer, when all of it has come."""
    status, headers = await head_of(reader)
    return status, await reader.readexactly(int(headers["content-length"]))


async def head_of(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """The status and the headers of an answer."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    return int(lines[0].split()[1]), headers


async def frames(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, str]]:
    """The frames of a stream of server-sent events, out of its chunks; one that is cut short is none."""
    text = b""
    while True:
        length = int(await reader.readuntil(b"\r\n"), 16)
        if length == 0:
            return
        text += (await reader.readexactly(length + 2))[:-2]
        *whole, text = text.split(b"\n\n")
        for frame in whole:
            fields = (line.partition(": ") for line in frame.decode().split("\n") if line[:1] != ":")
            yield {name: value for name, _, value in fields}
