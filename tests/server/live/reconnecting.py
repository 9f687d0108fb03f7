"""A client that is killed at random bytes and comes back, while processes write and servers are killed.

    python -m tests.server.live.reconnecting sqlite:////tmp/x.db 1000 [seed]

At the end it has exactly what the sessions have, and on the way no frame was missed and none came twice.
"""

from __future__ import annotations

import os
import random
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

import clew
from clew.errors import ClewError, NothingToUndoError
from clew.session import Session
from clew.store import Store
from tests.server.conftest import running
from tests.server.live.client import Copy, Event, Missed, Stream
from tests.support.children import Child

TOKEN: Final = "token-of-the-campaign"
SESSIONS: Final = ("a", "b")
RESTART: Final = 40
"""After so many connections the server is killed, and another one takes its place."""
ACTS: Final = 20
"""Of each writer, while there is a connection."""


class Seen(msgspec.Struct):
    """What a campaign came across."""

    connections: int = 0
    frames: int = 0
    moves: int = 0
    servers: int = 1
    bytes: int = 0
    entries: int = 0


def campaign(url: str, connections: int, seed: int, path: str = "/sessions/a/live") -> Seen:
    """Follow the sessions of a store until there were so many connections. Missed: a frame did not fit."""
    chance = random.Random(seed)
    with clew.open(url) as store:
        for id in SESSIONS:
            store.session(id)
    seen = Seen()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    turns, allowed = os.pipe()
    writers = [Child(write, url, seed + number, turns) for number in range(2)]
    server = Child(serve, url, listener)
    server.hear()
    client = Client(address, path)
    try:
        while seen.connections < connections:
            seen.connections += 1
            os.write(allowed, bytes(len(writers) * ACTS))
            client.connect(int(chance.expovariate(1 / 6000)), seen)
            if seen.connections % RESTART == 0:
                server.kill()
                server.wait()
                server = Child(serve, url, listener)
                server.hear()
                seen.servers += 1
        for writer in writers:
            writer.kill()
            writer.wait()
        with clew.open(url) as store:
            client.finish(store, seen)
    finally:
        for child in (server, *writers):
            if child.status is None:
                child.kill()
                child.wait()
        listener.close()
        os.close(turns)
        os.close(allowed)
    return seen


def short_campaign(store: Store, connections: int, path: str) -> Seen:
    """The same in one process: what is written between two connections is not there before the second."""
    chance, seen = random.Random(1), Seen(servers=0)
    for id in SESSIONS:
        store.session(id)
    client = Client("", path)
    while seen.connections < connections:
        seen.servers += 1
        with running(store, token=TOKEN, heartbeat=0.001) as server:
            client.address = server.url
            for _ in range(RESTART):
                for number in range(ACTS):
                    with suppress(NothingToUndoError):
                        act(store.get(chance.choice(SESSIONS)), chance, f"{seen.connections}-{number}")
                seen.connections += 1
                client.connect(int(chance.expovariate(1 / 3000)), seen)
            if seen.connections >= connections:
                client.finish(store, seen)
    return seen


class Client:
    """Has nothing but frames, and the id of the last one."""

    def __init__(self, address: str, path: str) -> None:
        self.address = address
        self._path = f"/api/v1{path}"
        self.copies = {id: Copy() for id in (SESSIONS if "session=" in path else SESSIONS[:1])}
        self._last_id = ""

    def _open(self) -> Stream:
        beginning = "?after=start" if "?" not in self._path else "&after=start"
        path = self._path if self._last_id else self._path + beginning
        return Stream(self.address, path, TOKEN, self._last_id or None)

    def connect(self, most: int, seen: Seen) -> None:
        """Read so many bytes, and die."""
        stream = self._open()
        try:
            for event in stream.events(most):
                self._apply(event, seen)
        except ConnectionError:
            pass  # the server was killed before
        finally:
            if stream.status not in (0, 200):
                raise Missed(f"a resume was answered with {stream.status}")
            seen.bytes += stream.received
            stream.kill()

    def _apply(self, event: Event, seen: Seen) -> None:
        if event.has_id:
            self._last_id = event.id
        seen.frames += 1
        seen.moves += event.event == "moved"
        seen.entries += event.event == "entry"
        if event.event != "bye":
            self.copies[event.data["session"]].apply(event)

    def finish(self, store: Store, seen: Seen) -> None:
        """Nothing is written any more: read what is left, and compare."""
        with self._open() as stream:
            events = stream.events()
            while not all(_is_at_head(store, id, copy) for id, copy in self.copies.items()):
                self._apply(next(events), seen)
            for id, copy in self.copies.items():
                s = store.get(id)
                if copy.messages != s.messages():
                    raise Missed(f"session {id} is another one here than there")
                if [entry["id"] for entry in copy.entries] != [entry.id for entry in s.entries()]:
                    raise Missed(f"session {id} has other entries here than there")


def _is_at_head(store: Store, id: str, copy: Copy) -> bool:
    head = store.get(id).head
    here = copy.entries[-1]["id"] if copy.entries else ""
    return here == (f"{head.branch}.{head.position}" if head.position >= 0 else "")


def serve(tell: Callable[[Any], None], url: str, listener: socket.socket) -> None:
    """A server, until it is killed."""
    import uvicorn

    from clew.server import app

    with clew.open(url) as store:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        application = app(store, token=TOKEN, hosts=(host,), rate=1e6, heartbeat=0.01)
        config = uvicorn.Config(application, log_level="error", lifespan="off")
        tell("there")
        uvicorn.Server(config).run(sockets=[listener])


def write(tell: Callable[[Any], None], url: str, seed: int, turns: int) -> None:
    """Do something whenever it is allowed to: one byte each."""
    chance = random.Random(seed)
    with clew.open(url) as store:
        number = 0
        while os.read(turns, 1):
            s = store.get(chance.choice(SESSIONS))
            number += 1
            try:
                act(s, chance, f"{seed}-{number}")
            except ClewError as exc:
                tell(type(exc).__name__)


def act(s: Session, chance: random.Random, name: str) -> None:
    """Append, rewind, undo, redo, replace, compact, clear, fork."""
    head = s.head.position
    kind = chance.random()
    if kind < 0.6 or head < 2:
        s.append(*({"role": "user", "content": f"{name}.{n}"} for n in range(chance.randint(1, 4))))
    elif kind < 0.72:
        s.rewind(chance.randint(max(0, head - 20), head))
    elif kind < 0.80:
        s.undo()
    elif kind < 0.86:
        s.redo()
    elif kind < 0.90:
        s.replace([{"role": "user", "content": "kept"}, {"role": "user", "content": name}])
    elif kind < 0.94:
        fork = s.fork()
        (entry, *_) = fork.append({"role": "user", "content": f"fork {name}"})
        s.rewind(entry.id)
    elif kind < 0.98:
        s.compact(f"so far {name}")
    else:
        s.clear()


if __name__ == "__main__":
    _url, _connections, *_seed = sys.argv[1:]
    for _number, _path in enumerate(("/sessions/a/live", "/live?session=a&session=b")):
        _seen = campaign(_url, int(_connections), int(_seed[0] if _seed else 1) + _number, _path)
        sys.stdout.write(f"{_path}: {_seen}\n")
