"""Reading back: a whole history of 2,000 messages, and the end of a very long one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.harness.build import long_session
from benchmarks.harness.measure import Samples, take_turns, take_turns_sync
from benchmarks.harness.report import Result, Row, ms
from benchmarks.harness.script import Lab, main
from benchmarks.harness.work import Conversation
from benchmarks.peers import FAST_PEERS, start
from benchmarks.peers.clew_store import Clew
from benchmarks.peers.raw import RawFile

WHOLE = 2000
SESSION = "talk"


async def run(lab: Lab) -> Result:
    """Everything is in the page cache, for every contender."""
    lab.say(f"messages() of {WHOLE:,}")
    raw, clew, peers = await whole(lab)
    mine = peers.median("clew")
    rows = [
        Row(
            f"messages() of {WHOLE:,}",
            ms(clew),
            f"read and decode the JSONL: {ms(raw)}",
            clew / raw,
            1.3,
        )
    ]
    long, short = lab.pick(100_000, 20_000), 1000
    lab.say(f"the last messages of {long:,}")
    ends = tails(lab.directory, long, short)
    for call in ("messages(last=20)", "context(max_messages=50)"):
        at_long, at_short = ends.median(f"{call} long"), ends.median(f"{call} short")
        label = f"{call} of {long:,}"
        rows.append(Row(label, ms(at_long), f"clew, of {short:,}: {ms(at_short)}", at_long / at_short, 1.5))
    details = {
        "whole_ms": {"raw": raw * 1e3, "clew": clew * 1e3}
        | {name: peers.median(name) / mine * clew * 1e3 for name in FAST_PEERS},
        "ends_us": {name: ends.median(name) * 1e6 for name in ends},
    }
    return Result(rows, details)


async def whole(lab: Lab) -> tuple[float, float, Samples]:
    """Seconds of the raw file and of Clew, in turns; then those of the peers, in turns with Clew."""
    turns = list(Conversation("reads").turns(WHOLE // 4))
    contenders = {name: await start(name, lab.directory / "whole") for name in ("raw", "clew", *FAST_PEERS)}
    for contender in contenders.values():
        for turn in turns:
            await contender.append(SESSION, contender.prepare(turn))
    raw, clew = contenders["raw"], contenders["clew"]
    assert isinstance(raw, RawFile)
    assert isinstance(clew, Clew)
    session = clew.session(SESSION)
    assert session.messages() == raw.load(SESSION)
    both = take_turns_sync({"raw": lambda: raw.load(SESSION), "clew": session.messages}, lab.pick(60, 20))
    readers = {name: c for name, c in contenders.items() if name != "raw"}

    async def read(name: str) -> None:
        assert len(await readers[name].read(SESSION)) == WHOLE

    def job(name: str) -> Callable[[int], Awaitable[None]]:
        return lambda _: read(name)

    peers = await take_turns({name: job(name) for name in readers}, lab.pick(15, 5))
    for contender in contenders.values():
        await contender.close()
    return both.median("raw"), both.median("clew"), peers


def tails(directory: Path, long: int, short: int) -> Samples:
    """Seconds of both calls on both sessions, which live in stores of their own."""
    with long_session(directory / "long", long) as old, long_session(directory / "short", short) as young:
        jobs: dict[str, Callable[[], list[Any]]] = {
            "messages(last=20) long": lambda: old.messages(last=20),
            "messages(last=20) short": lambda: young.messages(last=20),
            "context(max_messages=50) long": lambda: old.context(max_messages=50),
            "context(max_messages=50) short": lambda: young.context(max_messages=50),
        }
        assert [len(job()) for job in jobs.values()][:2] == [20, 20]
        return take_turns_sync(jobs, 300)


if __name__ == "__main__":
    main(run, __doc__)
