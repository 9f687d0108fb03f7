"""PostgreSQL: an append, a crowd of appends, and a history, each beside psycopg written by hand.

    python -m benchmarks.postgres [url]

Starts a throw-away cluster (fsync and synchronous_commit on) unless an address is given. The variants take
turns within one run. Needs the tests of the checkout, which know how to start a cluster.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import psycopg
from psycopg.types.numeric import Int8BinaryDumper

import clew

MESSAGE = {"role": "assistant", "content": "word " * 80}
BODY = msgspec.json.encode(MESSAGE)

HAND_MADE = """
    CREATE SCHEMA bare;
    CREATE TABLE bare.sessions (id bigint PRIMARY KEY, updated bigint NOT NULL, head bigint NOT NULL,
                                preview bytea NOT NULL);
    CREATE TABLE bare.messages (session bigint, position bigint, time bigint NOT NULL, body bytea NOT NULL,
                                PRIMARY KEY (session, position));
"""
HAND_MADE_APPEND = (
    b"WITH u AS (UPDATE bare.sessions SET updated = $3, head = head + 1, preview = $4 WHERE id = $1"
    b" RETURNING head) INSERT INTO bare.messages SELECT $1, u.head, $3, $2 FROM u"
)


class ByHand:
    """One connection, one prepared statement for an append."""

    def __init__(self, url: str, session: int) -> None:
        self._connection = psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor)
        self._connection.adapters.register_dumper(int, Int8BinaryDumper)
        self._session = session
        self._connection.execute(b"INSERT INTO bare.sessions VALUES ($1, 0, 0, '')", (session,))

    def append(self) -> None:
        now = time.time_ns() // 1000
        self._connection.execute(HAND_MADE_APPEND, (self._session, BODY, now, BODY[:100]), prepare=True)

    def read(self) -> int:
        cursor = self._connection.cursor(binary=True)
        rows = cursor.execute(
            b"SELECT position, body FROM bare.messages WHERE session = $1 ORDER BY position",
            (self._session,),
            prepare=True,
        ).fetchall()
        decode = msgspec.json.decode
        return len([(position, decode(body)) for position, body in rows])

    def close(self) -> None:
        self._connection.close()


def interleaved(rounds: int, **variants: Callable[[], object]) -> dict[str, float]:
    """The median time of each, in microseconds; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, variant in variants.items():
            began = time.perf_counter()
            variant()
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(taken) * 1e6 for name, taken in times.items()}


def single_append(url: str) -> None:
    with clew.open(url, schema="bench") as store:
        session = store.session(uuid.uuid4().hex)
        hand = ByHand(url, 1)
        found = interleaved(2000, clew=lambda: session.append(MESSAGE), hand=hand.append)
        hand.close()
    _tell("append of one message, µs", found, "clew", "hand", at_most=1.3)


def history(url: str, messages: int = 2000) -> None:
    with clew.open(url, schema="bench") as store:
        session = store.session(uuid.uuid4().hex)
        session.append(*[MESSAGE] * messages)
        hand = ByHand(url, 2)
        for _ in range(messages):
            hand.append()
        found = interleaved(40, clew=session.messages, hand=hand.read)
        hand.close()
    _tell(f"messages() of {messages}, µs", found, "clew", "hand", at_most=1.3)


def crowd_by_hand(url: str, connections: int, each: int, first: int) -> float:
    """Appends in a second by threads that have a connection each."""
    hands = [ByHand(url, first + number) for number in range(connections)]
    for hand in hands:
        hand.append()
    threads = [
        threading.Thread(target=lambda hand=hand: [hand.append() for _ in range(each)]) for hand in hands
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = connections * each / (time.perf_counter() - began)
    for hand in hands:
        hand.close()
    return rate


async def crowd_of_clew(url: str, writers: int, each: int) -> float:
    """Appends in a second by tasks that have a session each."""
    async with clew.open_async(url, schema="bench") as store:
        sessions = [await store.session(uuid.uuid4().hex) for _ in range(writers)]
        await asyncio.gather(*(session.append(MESSAGE) for session in sessions))

        async def work(number: int) -> None:
            for _ in range(each):
                await sessions[number].append(MESSAGE)

        began = time.perf_counter()
        await asyncio.gather(*(work(number) for number in range(writers)))
        return writers * each / (time.perf_counter() - began)


def crowd(url: str) -> None:
    clews, hands = [], []
    for turn in range(3):
        clews.append(asyncio.run(crowd_of_clew(url, 64, 60)))
        hands.append(crowd_by_hand(url, 16, 240, 1000 * (turn + 1)))
    found = {"clew": statistics.median(clews), "hand": statistics.median(hands)}
    _tell("64 async writers beside 16 connections, appends/s", found, "clew", "hand", at_least=2.0)


def _tell(
    what: str, found: dict[str, float], one: str, other: str, *, at_most: float = 0, at_least: float = 0
) -> None:
    ratio = found[one] / found[other]
    goal = f"at most {at_most}" if at_most else f"at least {at_least}"
    values = ", ".join(f"{name} {value:,.0f}" for name, value in found.items())
    sys.stdout.write(f"{what}: {values}: {ratio:.2f}x ({goal})\n")


@contextmanager
def server() -> Iterator[str]:
    if len(sys.argv) > 1:
        yield sys.argv[1]
        return
    from tests.postgres_server import Cluster

    cluster = Cluster()
    try:
        cluster.start()
        yield cluster.url
    finally:
        cluster.remove()


def main() -> None:
    with server() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(HAND_MADE.encode())
        single_append(url)
        crowd(url)
        history(url)


if __name__ == "__main__":
    main()
