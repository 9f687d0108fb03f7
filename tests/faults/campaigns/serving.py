"""kill -9 of a server, again and again, while clients append and follow: each message is there once, in the
order of its client, and each follower has seen each entry once."""

from __future__ import annotations

import asyncio
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from tests.faults.campaign import Result
from tests.faults.plants import plant
from tests.faults.subjects import Subject
from tests.faults.workload.http import TOKEN, Client, Follower, RemoteStore, Speaker

START: Final = 30.0
"""Seconds that a server may take until it listens."""
LOOK: Final = 0.05
TOGETHER: Final = 5
"""Clients that share a session."""


def kill_servers(
    subject: Subject,
    *,
    kills: int,
    seed: int,
    clients: int = 20,
    stores: int = 2,
    followers: int = 5,
    seconds: float = 10.0,
    patience: float = 30.0,
    planted: str = "",
) -> Result:
    """Kill the server at random instants, and start it again on the same port.

    Args:
        clients: So many append by HTTP, one message after the other; five share a session.
        stores: So many append by stores that are opened over HTTP, to the same sessions.
        followers: So many follow a session each.
        seconds: How long, about; the kills are spread over it.
        patience: Seconds after the last append in which the followers have to see it.
        planted: A bug of `plants` for the server to have.
    """
    result = Result()
    subject.place.mkdir(parents=True, exist_ok=True)
    sessions = [f"talk-{number}" for number in range(max(clients // TOGETHER, 1))]
    with subject.open() as store:
        for session in sessions:
            store.create(session)
    port = _free_port(seed)
    asking = [Client(port, f"client {n}", sessions[n % len(sessions)]) for n in range(clients)]
    remote = [RemoteStore(port, f"store {n}", sessions[n % len(sessions)]) for n in range(stores)]
    talking = [*asking, *remote]
    following = [Follower(port, sessions[n % len(sessions)]) for n in range(followers)]
    server = Server(subject.url, port, planted)
    try:
        chance = random.Random(seed)
        asyncio.run(_storm(server, asking, remote, following, result, kills, seconds, patience, chance))
    finally:
        server.end()
    subject.settle()
    result.acknowledged = _said(talking)
    result.unknown = sum(client.unanswered for client in talking)
    result.saw("appends that no answer came to", result.unknown)
    result.saw("of these, committed before they were repeated", sum(client.repeated for client in talking))
    result.saw("appends of remote stores", _said(remote))
    result.saw("streams", sum(one.connections for one in following))
    result.saw("frames", sum(len(one.seen) for one in following))
    result.saw("ms of the slowest append", round(1000 * max(client.slowest for client in talking)))
    for client in talking:
        result.found("refused", client.refused[:3])
    _judge(subject, talking, following, result)
    return result


def _free_port(seed: int) -> int:
    """Below those that the system gives to clients: one that tries to reach a server that is not there could
    be given the server's own port, and be connected to itself."""
    for port in random.Random(seed).sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is free")


async def _storm(
    server: Server,
    asking: list[Client],
    remote: list[RemoteStore],
    following: list[Follower],
    result: Result,
    kills: int,
    seconds: float,
    patience: float,
    chance: random.Random,
) -> None:
    end = time.monotonic() + seconds
    over = threading.Event()
    loop, talking = asyncio.get_running_loop(), [*asking, *remote]
    threads = ThreadPoolExecutor(len(remote) + 1)
    watching = [asyncio.create_task(one.follow()) for one in following]
    saying: list[asyncio.Future[None]] = [asyncio.ensure_future(client.talk(over)) for client in asking]
    saying += [loop.run_in_executor(threads, one.talk, over) for one in remote]
    for _ in range(kills):
        goal = _said(talking) + len(talking)
        # It has to have something to lose.
        await _until(START, lambda goal=goal: _said(talking) >= goal)  # type: ignore[misc]
        await asyncio.sleep(chance.uniform(0, 1.5 * seconds / kills))
        server.kill()
        result.cycles += 1
        await loop.run_in_executor(threads, server.start)
    await asyncio.sleep(max(end - time.monotonic(), 1))
    over.set()
    await asyncio.gather(*saying)
    sessions = {client.session for client in talking}
    expected = {name: sum(len(c.said) for c in talking if c.session == name) for name in sessions}
    await _until(patience, lambda: all(len(one.seen) >= expected[one.session] for one in following))
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)


async def _until(seconds: float, is_so: Callable[[], bool]) -> None:
    for _ in range(int(seconds / LOOK)):
        if is_so():
            return
        await asyncio.sleep(LOOK)


def _said(talking: Sequence[Speaker]) -> int:
    return sum(len(client.said) for client in talking)


def _judge(subject: Subject, talking: Sequence[Speaker], following: list[Follower], result: Result) -> None:
    """Compare what is there with what was acknowledged and what was seen."""
    kept: dict[str, list[tuple[str, str]]] = {}
    with subject.open() as store:
        for session in sorted({client.session for client in talking}):
            entries = store.get(session).entries()
            kept[session] = [(entry.id, str(entry.message["content"])) for entry in entries]
        report = store.verify(full=True)
        result.found("verify", [] if report.ok else [str(report)])
    for client in talking:
        mine = [(id, text) for id, text in kept[client.session] if text.startswith(f"{client.name} ")]
        result.found(client.name, list(_differences(client, mine)))
    for follower in following:
        ids = [id for id, _ in kept[follower.session]]
        if follower.seen != ids:
            missed, twice = len(set(ids) - set(follower.seen)), len(follower.seen) - len(set(follower.seen))
            line = f"of {len(ids)} entries {missed} were missed and {twice} seen twice, or the order differs"
            result.found(f"a follower of {follower.session}", [line])
        result.found("a follower", follower.odd[:3])
    result.found("the end", subject.check())


def _differences(client: Speaker, mine: list[tuple[str, str]]) -> Iterator[str]:
    said = [(one.id, one.text) for one in client.said]
    if mine == said:
        return
    texts = [text for _, text in mine]
    for one in client.said:
        match texts.count(one.text):
            case 0:
                yield f"lost: {one.text!r} was acknowledged"
            case 1:
                pass
            case times:
                yield f"doubled: {one.text!r} is there {times} times"
    known = {one.text for one in client.said}
    yield from (f"never acknowledged, but there: {text!r}" for text in texts if text not in known)
    if texts == [text for _, text in said]:
        yield "the answers named other entries"
    elif sorted(texts) == sorted(known):
        yield "the order is another one"


class Server:
    """A process that serves, on one port for all its lives."""

    def __init__(self, url: str, port: int, planted: str) -> None:
        self._command = [sys.executable, "-m", __name__, url, str(port), planted]
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Return when it listens."""
        process = self._process = subprocess.Popen(self._command)
        end = time.monotonic() + START
        while process.poll() is None and time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1):
                return
            time.sleep(0.02)
        raise RuntimeError(f"the server does not listen; it ended with {process.poll()}")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """As a service manager does it."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait()


def _serve(url: str, port: int, planted: str) -> None:
    """What `clew serve` does, with a token that is known and room for many clients of one caller."""
    from clew.server.process.serve import Options, serve
    from clew.server.process.settings import Settings

    plant(planted)
    settings = Settings(token=TOKEN, streams=10_000, concurrent=10_000)
    serve(url, settings, Options(port=port, quiet=True))


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
