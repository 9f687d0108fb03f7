"""A client of streams that can be cut off at any byte, and that checks what it is sent."""

from __future__ import annotations

import json
import select
import socket
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.server.conftest import Running


class Event(NamedTuple):
    """A frame as a browser would hand it on."""

    event: str
    data: Any
    id: str
    """The last id that was seen, with this frame or before it."""
    has_id: bool


class Parser:
    """Server-sent events, as the specification has it: only what a blank line ends is a frame."""

    def __init__(self) -> None:
        self.last_id = ""
        self.retry: int | None = None
        self.comments: list[str] = []
        self._rest = b""
        self._fields: list[tuple[str, str]] = []

    def feed(self, data: bytes) -> Iterator[Event]:
        self._rest += data
        assert b"\r" not in data
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            if line:
                self._line(line.decode())
            elif self._fields:
                fields, self._fields = self._fields, []
                event = self._event(fields)
                if event is not None:
                    yield event

    def _line(self, line: str) -> None:
        name, _, value = line.partition(":")
        if not name:
            self.comments.append(value.strip())
        else:
            self._fields.append((name, value.removeprefix(" ")))

    def _event(self, fields: list[tuple[str, str]]) -> Event | None:
        found = dict(fields)
        assert len(found) == len(fields), "a field came twice"
        assert found.keys() <= {"event", "data", "id", "retry"}
        if "retry" in found:
            self.retry = int(found["retry"])
        if "id" in found:
            self.last_id = found["id"]
        if "data" not in found:
            return None
        return Event(found.get("event", "message"), json.loads(found["data"]), self.last_id, "id" in found)


class Stream:
    """One connection to a stream, by a bare socket."""

    def __init__(
        self,
        url: str,
        path: str,
        token: str,
        last_id: str | None = None,
        *,
        room: int = 0,
        cookie: str | None = None,
    ) -> None:
        """`cookie`: a browser, which has no token."""
        place = urlsplit(url)
        self.socket = socket.socket()
        if room:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self.socket.connect((place.hostname, place.port))
        shown = f"Authorization: Bearer {token}" if cookie is None else f"Cookie: {cookie}"
        lines = [f"GET {path} HTTP/1.1", f"Host: {place.netloc}", shown]
        if last_id:
            lines.append(f"Last-Event-ID: {last_id}")
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        self.parser = Parser()
        self.received = 0
        self.is_over = False
        self._raw = b""
        self._early = b""
        """Of the body: what came together with the headers."""
        self._left = 0
        """Of the chunk that is coming."""
        self._head: dict[str, str] | None = None
        self.status = 0

    @property
    def headers(self) -> dict[str, str]:
        """Waits for them."""
        while self._head is None:
            self._early += self._receive(65536)
        return self._head

    def events(self, most: int | None = None) -> Iterator[Event]:
        """Frames as they come, until the server ends the stream; or so many bytes have come, or all that
        there is."""
        early, self._early = self._early, b""
        yield from self.parser.feed(early)
        while not self.is_over and (most is None or (self.received < most and not self.is_idle)):
            size = 65536 if most is None else min(65536, most - self.received)
            yield from self.parser.feed(self._receive(size))

    @property
    def is_idle(self) -> bool:
        """It has told all, at least once."""
        return "still here" in self.parser.comments

    def next(self, *kinds: str) -> Event:
        """The next frame of one of these kinds."""
        for event in self._pending():
            if not kinds or event.event in kinds:
                return event
        raise AssertionError("the stream has ended")

    def next_in(self, server: Running, seconds: float = 1.0) -> Event:
        """The next frame, while time passes for a server of `serve_timed`."""
        while not select.select([self.socket], [], [], 0.01)[0]:
            server.wait(seconds)
        return self.next()

    def _pending(self) -> Iterator[Event]:
        if not hasattr(self, "_running"):
            self._running = self.events()
        return self._running

    def _receive(self, size: int) -> bytes:
        data = self.socket.recv(size)
        self.received += len(data)
        if not data:
            self.is_over = True
        self._raw += data
        if self._head is None:
            head, found, rest = self._raw.partition(b"\r\n\r\n")
            if not found:
                return b""
            first, *lines = head.decode("latin-1").split("\r\n")
            self.status = int(first.split(" ")[1])
            self._head = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
            self._raw = rest
        return self._unchunked() if self._head.get("transfer-encoding") == "chunked" else self._all()

    def _all(self) -> bytes:
        data, self._raw = self._raw, b""
        return data

    def _unchunked(self) -> bytes:
        """What has come of the body, also of a chunk that is not whole yet."""
        found = []
        while self._raw:
            if self._left:
                piece, self._raw = self._raw[: self._left], self._raw[self._left :]
                self._left -= len(piece)
                found.append(piece)
                continue
            size, end, rest = self._raw.removeprefix(b"\r\n").partition(b"\r\n")
            if not end:
                break
            self._left, self._raw = int(size, 16), rest
            if not self._left:
                self.is_over = True
                break
        return b"".join(found)

    def kill(self) -> None:
        """Without a farewell, as a process that was killed."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


class Missed(AssertionError):
    """A frame does not fit to what was sent before it."""


class Copy:
    """A session as a client knows it that has nothing but the frames."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.is_begun = False
        self.status: str | None = None
        self.damaged: list[int | None] = []
        self.is_gone = False
        self.moves = 0

    def apply(self, event: Event) -> None:
        data = event.data
        match event.event:
            case "entry":
                expected = len(self.entries)
                if data["position"] != expected:
                    kind = "repeated" if data["position"] < expected else "missed"
                    raise Missed(f"{kind}: entry {data['position']} came where {expected} was due")
                if not event.has_id:
                    raise Missed("an entry without an id")
                self.entries.append(data)
            case "moved":
                if data["common"] >= len(self.entries):
                    raise Missed(f"moved to behind {data['common']}, but only {len(self.entries)} are here")
                if not event.has_id:
                    raise Missed("a move without an id")
                self.moves += 1
                del self.entries[data["common"] + 1 :]
            case "status":
                self.status = data["status"]
            case "damaged":
                self.damaged.append(data["position"])
            case "gone":
                self.is_gone = True
            case "bye":
                pass
            case other:
                raise Missed(f"there is no frame {other!r}")

    @property
    def messages(self) -> list[Any]:
        return [entry["message"] for entry in self.entries if entry["kind"] == "message"]
