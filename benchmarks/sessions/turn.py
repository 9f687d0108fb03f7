"""A chat turn of four durable appends, and the same turn as one append, at a moderate history."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.harness import measure
from benchmarks.harness.measure import Samples, append_each, take_turns
from benchmarks.harness.report import Result, Row, ms
from benchmarks.harness.script import Lab, main
from benchmarks.harness.work import Conversation
from benchmarks.peers import FAST_PEERS, SLOW_PEERS, Contender, start

HISTORY = 50
"""Turns in every session before the clock starts."""
EARLIER = 200
"""Turns of another session before that: a write-ahead log has its full size then, and no longer grows."""
COUNTED = 100
"""Turns under strace, enough to meet the checkpoints of a write-ahead log; a fifth for the slow peers."""
BATCH = "clew, one append"


async def run(lab: Lab) -> Result:
    """Two phases, each with the raw file in it: the slow peers write so much that they disturb the others."""
    lab.say(f"4 appends a turn, {lab.pick(300, 120)} turns after {HISTORY}, taking turns")
    fast = await compete(lab.directory / "fast", ("clew", BATCH, *FAST_PEERS), lab.pick(300, 120), EARLIER)
    lab.say("the same in a store that was just made")
    new = await compete(lab.directory / "new", ("clew", BATCH, *FAST_PEERS), 40)
    lab.say("the same for the slow peers, fewer turns")
    slow = await compete(lab.directory / "slow", SLOW_PEERS, lab.pick(40, 10))
    raw = fast.median("raw")
    times = {name: fast.median(name) for name in fast}
    times |= {name: raw * slow.ratio(name, "raw") for name in SLOW_PEERS}
    peer = min((*FAST_PEERS, *SLOW_PEERS), key=times.__getitem__)
    lab.say("counting fsyncs and bytes under strace")
    counts = {name: count(lab, name) for name in ("raw", "clew", BATCH, *FAST_PEERS, *SLOW_PEERS)}
    clew, batch = times["clew"], times[BATCH]
    rows = [
        Row("turn of 4 durable appends", ms(clew), f"raw file, 4 fdatasync: {ms(raw)}", clew / raw, 1.4),
        Row("turn of 4 durable appends", ms(clew), f"{peer}: {ms(times[peer])}", clew / times[peer], 0.6),
        Row("the same turn as one append", ms(batch), f"raw file, 4 fdatasync: {ms(raw)}", batch / raw, 0.5),
        Row(
            "4 appends in a new store (its log grows)",
            ms(new.median("clew")),
            f"raw file: {ms(new.median('raw'))}",
            new.ratio("clew", "raw"),
        ),
    ]
    details = {
        name: {"ms": times[name] * 1e3, "to_raw": times[name] / raw, "a_turn": counts[name]}
        for name in counts
    }
    return Result(rows, details | {"new_store_to_raw": {name: new.ratio(name, "raw") for name in new}})


async def compete(directory: Path, names: tuple[str, ...], rounds: int, earlier: int = 0) -> Samples:
    """Seconds a turn of the raw file and of each contender."""
    talk = Conversation("turn")
    turns = list(talk.turns(HISTORY + rounds))
    contenders = {name: await begin(name, directory) for name in ("raw", *names)}
    for name, contender in contenders.items():
        for turn in talk.turns(earlier):
            await contender.append("earlier", contender.prepare(turn))
        for turn in turns[:HISTORY]:
            await contender.append(name_of_session(name), contender.prepare(turn))
    samples = await take_turns({n: job(n, c, turns[HISTORY:]) for n, c in contenders.items()}, rounds)
    for contender in contenders.values():
        await contender.close()
    return samples


async def begin(name: str, directory: Path) -> Contender:
    """The contender; Clew with whole turns keeps a store of its own."""
    return await start("clew" if name == BATCH else name, directory / ("batch" if name == BATCH else "each"))


def name_of_session(name: str) -> str:
    return "batch" if name == BATCH else "talk"


def job(
    name: str, contender: Contender, turns: list[list[dict[str, object]]]
) -> Callable[[int], Awaitable[None]]:
    """One turn of this contender."""
    session, prepared = name_of_session(name), [contender.prepare(turn) for turn in turns]
    if name == BATCH:
        return lambda number: contender.append(session, prepared[number])
    return lambda number: append_each(contender, session, prepared[number])


def count(lab: Lab, name: str) -> dict[str, float]:
    """fsyncs, write calls and bytes a turn."""
    turns = COUNTED // 5 if name in SLOW_PEERS or lab.quick else COUNTED
    folder = str(lab.directory / "counted")
    found = measure.count_syscalls("benchmarks.sessions.turn", "--count", name, folder, str(turns))
    return {
        "fsyncs": (found["fsync"] + found["fdatasync"]) / turns,
        "writes": (found["write"] + found["pwrite64"]) / turns,
        "bytes": found["bytes"] / turns,
    }


async def be_counted(name: str, directory: Path, count: int) -> None:
    """The child under strace: some turns between two marks."""
    contender = await begin(name, directory)
    turns = list(Conversation("turn").turns(HISTORY + count))
    for turn in turns[:HISTORY]:
        await contender.append(name_of_session(name), contender.prepare(turn))
    work = job(name, contender, turns[HISTORY:])
    measure.mark(measure.BEGIN)
    for number in range(count):
        await work(number)
    measure.mark(measure.END)
    await contender.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--count"]:
        asyncio.run(be_counted(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])))
    else:
        main(run, __doc__)
