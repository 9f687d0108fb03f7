"""Bytes on disk for 2,000 messages after the store was closed, against their JSON text."""

from __future__ import annotations

from benchmarks.harness.measure import append_each, size_on_disk
from benchmarks.harness.report import Result, Row, size
from benchmarks.harness.script import Lab, main
from benchmarks.harness.work import Conversation, encode
from benchmarks.peers import FAST_PEERS, SLOW_PEERS, start

MESSAGES = 2000


async def run(lab: Lab) -> Result:
    """langgraph stores every history anew in every step, so it gets a twentieth and is compared with that."""
    turns = list(Conversation("disk").turns(MESSAGES // 4))
    ratios: dict[str, float] = {}
    sizes: dict[str, int] = {}
    for name in ("clew", *FAST_PEERS, *SLOW_PEERS):
        count = len(turns)
        if name in SLOW_PEERS:
            count = len(turns) // 20 if name.startswith("langgraph") else len(turns) // lab.pick(2, 10)
        lab.say(f"{name}: {count * 4:,} messages")
        folder = lab.directory / f"{len(sizes)}"
        contender = await start(name, folder)
        for turn in turns[:count]:
            await append_each(contender, "talk", contender.prepare(turn))
        await contender.close()
        text = sum(len(encode(message)) for turn in turns[:count] for message in turn)
        sizes[name] = size_on_disk(folder)
        ratios[name] = sizes[name] / text
    text = sum(len(encode(message)) for turn in turns for message in turn)
    row = Row(
        f"disk for {MESSAGES:,} messages",
        size(sizes["clew"]),
        f"their JSON: {size(text)}",
        ratios["clew"],
        1.3,
    )
    return Result([row], {"to_json": ratios})


if __name__ == "__main__":
    main(run, __doc__)
