"""kill -9 of a server, again and again, while clients append and follow: each message is there once, in the
order of its client, and each follower has seen each entry once."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from clew.server.process.serve import Options, serve
from clew.server.process.settings import Settings
from tests.faults.campaign import Result
from tests.faults.plants import plant
from tests.faults.subjects import Subject
from tests.faults.workload.http import API, TOKEN, Client, Follower, RemoteStore, Speaker, answer_of, request
from tests.faults.workload.instants import Instant
from tests.support.children import Child, preload

Tell = Callable[[Any], None]

LOOK: Final = 0.01
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
    longest: int = 0,
    planted: str = "",
) -> Result:
    """Kill the server at the begin or the end of a commit, and start it again on the same port.

    Args:
        clients: So many append by HTTP, one message after the other; five share a session.
        stores: So many append by stores that are opened over HTTP, to the same sessions.
        followers: So many follow a session each.
        longest: A life of the server ends with up to so many begins and ends of commits; 0: each one with one
            more than that before.
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
    choose = random.Random(seed).randint
    instants = [choose(1, longest) if longest else number for number in range(1, kills)]
    server = Server(subject.url, port, planted)
    try:
        asyncio.run(_storm(subject, server, asking, remote, following, instants))
    finally:
        server.end()
    subject.settle()
    result.cycles = kills
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
    subject: Subject,
    server: Server,
    asking: list[Client],
    remote: list[RemoteStore],
    following: list[Follower],
    instants: list[int],
) -> None:
    over = threading.Event()
    loop, talking = asyncio.get_running_loop(), [*asking, *remote]
    threads = ThreadPoolExecutor(len(remote) + 1)
    await loop.run_in_executor(threads, server.start)
    watching = [asyncio.create_task(one.follow()) for one in following]
    saying: list[asyncio.Future[None]] = [asyncio.ensure_future(client.talk(over)) for client in asking]
    saying += [loop.run_in_executor(threads, one.talk, over) for one in remote]
    try:
        await _all_say_more(talking)
        await _until(lambda: all(one.seen for one in following))  # it has to have something to lose
        server.kill()
        for instant in instants:
            await loop.run_in_executor(threads, server.start, instant)
            await loop.run_in_executor(threads, server.wait_for_its_instant)
            for _ in range(2):  # whatever it was about to answer is answered before this, and was heard
                await _ask(server.port, f"{API}/sessions/{talking[0].session}")
            server.kill()
        await loop.run_in_executor(threads, server.start)
        await _all_say_more(talking)
    finally:
        over.set()
    await asyncio.gather(*saying)
    with subject.open() as store:
        kept = {name: store.get(name).info.entries for name in {one.session for one in following}}
    await _until(lambda: all(len(one.seen) >= kept[one.session] for one in following))
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)


async def _all_say_more(talking: Sequence[Speaker]) -> None:
    before = [len(client.said) for client in talking]
    await _until(
        lambda: all(len(one.said) > was or one.refused for one, was in zip(talking, before, strict=True))
    )


async def _ask(port: int, path: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(port, "GET", path, None, {}))
    await answer_of(reader)
    writer.close()


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 (some of it happens in threads)
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
    """A process that serves, on one port for all its lives. Each of them is a fork of one that has imported
    what a server needs."""

    def __init__(self, url: str, port: int, planted: str) -> None:
        self.port = port
        ear, self._mouth = os.pipe()
        self._maker = Child(_make_servers, ear, self._mouth, url, port, planted)
        os.close(ear)
        self._pid = 0

    def start(self, instant: int = 0) -> None:
        """Return when it listens. `instant`: of its begins and ends of commits, the last one."""
        os.write(self._mouth, b"%d\n" % instant)
        self._pid = self._hear("listens")

    def wait_for_its_instant(self) -> None:
        self._hear("now")

    def kill(self, how: int = signal.SIGKILL) -> None:
        os.kill(self._pid, how)
        self._hear("ended")

    def end(self) -> None:
        """As a service manager does it."""
        with suppress(ProcessLookupError):
            self.kill(signal.SIGTERM)
        os.close(self._mouth)
        self._maker.wait()

    def _hear(self, word: str) -> int:
        said, number = self._maker.hear()
        if said != word:
            raise RuntimeError(f"the server {said}: {number}")
        return int(number)


def _make_servers(tell: Tell, ear: int, mouth: int, url: str, port: int, planted: str) -> None:
    """Start a server whenever told to, and pass on what it tells."""
    os.close(mouth)
    with os.fdopen(ear) as orders:
        for instant in orders:
            server = Child(_serve, url, port, planted, int(instant))
            for said, number, modules in iter(server.hear, None):
                tell([said, number])
                preload(modules)
            tell(["ended", server.wait()])


def _serve(tell: Tell, url: str, port: int, planted: str, instant: int) -> None:
    """What `clew serve` does, with a token that is known and room for many clients of one caller."""
    plant(planted)
    Instant(lambda _: tell(["now", 0, []]), instant, only_commits=True, is_answered=False).watch_commits()
    settings = Settings(token=TOKEN, streams=10_000, concurrent=10_000)
    options = Options(port=port, quiet=True)
    serve(url, settings, options, on_start=lambda _: tell(["listens", os.getpid(), list(sys.modules)]))
