"""Sixteen concurrent writers, each with a session of its own, 1 KB messages, every append durable."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.harness.measure import Samples, steady
from benchmarks.harness.report import Result, Row
from benchmarks.harness.script import Lab, main
from benchmarks.harness.work import Conversation
from benchmarks.peers import Contender, start
from benchmarks.peers.raw import RawFile

WRITERS = 16
PEERS = {
    "openai SQLiteSession": 60,
    "openai AdvancedSQLiteSession": 60,
    "langgraph AsyncSqliteSaver": 15,
    "google-adk DatabaseSessionService": 4,
}
"""And how many appends each of their writers does in a round."""


async def run(lab: Lab) -> Result:
    """Short rounds in turns: raw threads, Clew with 16 tasks, Clew with one, every peer with 16 tasks."""
    appends = lab.pick(400, 150)
    rates, failures = Samples(), dict[str, str]()
    raw = RawFile(lab.directory / "raw")
    (lab.directory / "raw").mkdir()
    lines = raw.prepare([Conversation(f"writer-{n}").small() for n in range(64)])
    clew = await start("clew async", lab.directory)
    peers = {name: await start(name, lab.directory) for name in PEERS}
    with ThreadPoolExecutor(WRITERS) as pool, steady():
        for number in range(lab.pick(9, 5)):
            lab.say(f"round {number + 1}")
            rates.add("raw, 16 threads", raw_rate(raw, lines, pool, appends))
            rates.add("clew, 16 tasks", await rate(clew, WRITERS, appends))
            rates.add("clew, 1 task", await rate(clew, 1, appends * 2))
            rates.add("raw, 1 thread", raw_rate(raw, lines, pool, appends * 2, 1))
            for name in [name for name in PEERS if name not in failures]:
                try:
                    rates.add(name, await rate(peers[name], WRITERS, PEERS[name]))
                except Exception as error:  # noqa: BLE001  # a peer that cannot do it is a finding
                    failures[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
                    lab.say(f"{name} failed: {failures[name]}")
    for contender in (clew, *peers.values()):
        await contender.close()
    await raw.close()
    return Result(
        rows(rates, failures), {"appends_a_second": {n: rates.median(n) for n in rates}, "failed": failures}
    )


def rows(rates: Samples, failures: dict[str, str]) -> list[Row]:
    """The three comparisons."""
    clew = rates.median("clew, 16 tasks")
    best = max((name for name in PEERS if name in rates and name not in failures), key=rates.median)
    others = (
        ("clew, 1 task", "clew, one task", 3.0),
        (best, best, 6.0),
        ("raw, 16 threads", "16 threads, each its raw file", 1.0),
    )
    return [
        Row(
            "16 async writers, appends/s",
            f"{clew:,.0f}",
            f"{label}: {rates.median(name):,.0f}",
            clew / rates.median(name),
            limit,
            at_least=True,
        )
        for name, label, limit in others
    ]


async def rate(contender: Contender, writers: int, appends: int) -> float:
    """Appends a second of so many tasks, `appends` each."""
    items = contender.prepare([Conversation("writers").small() for _ in range(8)])

    async def writer(number: int) -> None:
        session = f"writer-{number}"
        for count in range(appends):
            await contender.append(session, [fresh(items[count % 8])])

    await asyncio.gather(*(contender.append(f"writer-{n}", [fresh(items[0])]) for n in range(writers)))
    started = time.perf_counter()
    await asyncio.gather(*(writer(number) for number in range(writers)))
    return writers * appends / (time.perf_counter() - started)


def fresh(item: Any) -> Any:
    """An event of the ADK has an id of its own; a message is the same again."""
    return item.model_copy(update={"id": type(item).new_id()}) if hasattr(item, "invocation_id") else item


def raw_rate(
    raw: RawFile, lines: list[bytes], pool: ThreadPoolExecutor, appends: int, threads: int = WRITERS
) -> float:
    """The same by threads, each with a file of its own."""

    def writer(number: int) -> None:
        for count in range(appends):
            raw.write(f"writer-{number}", [lines[count % len(lines)]])

    started = time.perf_counter()
    list(pool.map(writer, range(threads)))
    return threads * appends / (time.perf_counter() - started)


if __name__ == "__main__":
    main(run, __doc__)
