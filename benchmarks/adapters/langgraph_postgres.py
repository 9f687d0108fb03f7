"""LangGraph on PostgreSQL: the turns of the benchmark beside this, and LangGraph's own saver."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from benchmarks.adapters.langgraph import Talk, on_clew
from benchmarks.harness.measure import Samples, median, shuffled, steady
from benchmarks.harness.report import Result, Row, ms
from benchmarks.harness.script import Lab, main
from benchmarks.postgres.server import server

FASTER = 0.7
EARLY, WINDOW = 50, 20


async def run(lab: Lab) -> Result:
    turns = lab.pick(500, 120)
    samples = Samples()
    with server(lab) as url:
        talks = {"clew": await on_clew(url), "AsyncPostgresSaver": await _theirs(url)}
        with steady():
            for number in range(turns):
                for name in shuffled(talks, number):
                    start = time.perf_counter()
                    await talks[name].turn(number)
                    samples.add(name, time.perf_counter() - start)
        for talk in talks.values():
            await talk.close()
    rows = []
    for turn, window in (
        (EARLY, slice(EARLY - WINDOW // 2, EARLY + WINDOW // 2)),
        (turns, slice(-WINDOW, None)),
    ):
        ours, theirs = median(samples["clew"][window]), median(samples["AsyncPostgresSaver"][window])
        rows.append(
            Row(
                f"langgraph on PostgreSQL: turn {turn}",
                ms(ours),
                f"AsyncPostgresSaver: {ms(theirs)}",
                ours / theirs,
                FASTER,
            )
        )
    return Result(rows, {"seconds": {name: samples[name] for name in samples}})


async def _theirs(url: str) -> Talk:
    resources = AsyncExitStack()
    saver = await resources.enter_async_context(AsyncPostgresSaver.from_conn_string(url))
    await saver.setup()
    return Talk(saver, resources)


if __name__ == "__main__":
    main(run, __doc__)
