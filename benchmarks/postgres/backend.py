"""PostgreSQL: an append, a crowd of appends, and a history, each beside psycopg written by hand.

Both sides use one server, with synchronous_commit on, and take turns within one run.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid

import msgspec

import clew
from benchmarks.harness.measure import Samples, median, take_turns_sync
from benchmarks.harness.report import Result, Row, ms
from benchmarks.harness.script import Lab, main
from benchmarks.postgres.by_hand import ByHand, make_tables
from benchmarks.postgres.server import server

MESSAGE = {"role": "assistant", "content": "word " * 80}
BODY = msgspec.json.encode(MESSAGE)
SCHEMA = "bench"
WRITERS, CONNECTIONS = 64, 16


async def run(lab: Lab) -> Result:
    """All of it in a thread: the crowd of Clew brings an event loop of its own."""
    return await asyncio.to_thread(measure, lab)


def measure(lab: Lab) -> Result:
    with server(lab) as url:
        make_tables(url)
        found = {
            "append": appends(lab, url),
            "messages": histories(lab, url),
            "crowd": crowds(lab, url),
        }
    append, history, crowd = found.values()
    rows = [
        _row("append of one message", append, 1.3),
        _row("messages() of 2,000", history, 1.3),
        Row(
            f"{WRITERS} async writers",
            f"{crowd.median('clew'):,.0f}/s",
            f"{CONNECTIONS} connections by hand: {crowd.median('hand'):,.0f}/s",
            median([one / other for one, other in zip(crowd["clew"], crowd["hand"], strict=True)]),
            2.0,
            at_least=True,
        ),
    ]
    return Result(
        rows, {work: {name: samples.median(name) for name in samples} for work, samples in found.items()}
    )


def _row(work: str, samples: Samples, limit: float) -> Row:
    against = f"psycopg by hand: {ms(samples.median('hand'))}"
    return Row(
        f"PostgreSQL: {work}", ms(samples.median("clew")), against, samples.ratio("clew", "hand"), limit
    )


def appends(lab: Lab, url: str) -> Samples:
    lab.say("appends, one at a time")
    with clew.open(url, schema=SCHEMA) as store:
        session = store.session(uuid.uuid4().hex)
        hand = ByHand(url, 1, BODY)
        session.append(MESSAGE)
        hand.append()
        samples = take_turns_sync(
            {"clew": lambda: session.append(MESSAGE), "hand": hand.append}, lab.pick(3000, 500)
        )
        hand.close()
    return samples


def histories(lab: Lab, url: str, messages: int = 2000) -> Samples:
    lab.say(f"histories of {messages:,} messages")
    with clew.open(url, schema=SCHEMA) as store:
        session = store.session(uuid.uuid4().hex)
        session.append(*[MESSAGE] * messages)
        hand = ByHand(url, 2, BODY)
        for _ in range(messages):
            hand.append()
        assert session.messages() == hand.read()
        samples = take_turns_sync({"clew": session.messages, "hand": hand.read}, lab.pick(100, 30))
        hand.close()
    return samples


def crowds(lab: Lab, url: str) -> Samples:
    """Appends in a second, of either in turns."""
    lab.say(f"{WRITERS} async writers beside {CONNECTIONS} connections")
    each = lab.pick(120, 40)
    samples = Samples()
    for turn in range(lab.pick(7, 3)):
        samples.add("clew", asyncio.run(crowd_of_clew(url, each)))
        samples.add("hand", crowd_by_hand(url, each * WRITERS // CONNECTIONS, 1000 * (turn + 1)))
    return samples


def crowd_by_hand(url: str, each: int, first: int) -> float:
    """Threads that have a connection and a session each."""
    hands = [ByHand(url, first + number, BODY) for number in range(CONNECTIONS)]
    for hand in hands:
        hand.append()

    def work(hand: ByHand) -> None:
        for _ in range(each):
            hand.append()

    threads = [threading.Thread(target=work, args=(hand,)) for hand in hands]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = CONNECTIONS * each / (time.perf_counter() - began)
    for hand in hands:
        hand.close()
    return rate


async def crowd_of_clew(url: str, each: int) -> float:
    """Tasks that have a session each."""
    async with clew.open_async(url, schema=SCHEMA) as store:
        sessions = [await store.session(uuid.uuid4().hex) for _ in range(WRITERS)]
        await asyncio.gather(*(session.append(MESSAGE) for session in sessions))

        async def work(number: int) -> None:
            for _ in range(each):
                await sessions[number].append(MESSAGE)

        began = time.perf_counter()
        await asyncio.gather(*(work(number) for number in range(WRITERS)))
        return WRITERS * each / (time.perf_counter() - began)


if __name__ == "__main__":
    main(run, __doc__)
