"""How long does a turn take, does it take longer as the conversation grows, and how large is it on disk?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from benchmarks.adapters import Framework, Subject, langgraph_postgres
from benchmarks.harness.measure import Samples, median, shuffled, size_on_disk, steady
from benchmarks.harness.report import Result, Row, ms, size
from benchmarks.harness.script import Lab, main

MODULES = (
    "langgraph", "openai_agents", "claude", "adk", "pydantic_ai", "strands", "agent_framework", "llama_index",
)  # fmt: skip
OURS = "clew"
FASTER, GROWTH = 0.5, 1.3
EARLY, WINDOW = 50, 20
"""Turns around the 50th are compared with the last ones."""


async def run(lab: Lab) -> Result:
    turns = lab.pick(500, 120)
    rows: list[Row] = []
    details: dict[str, Any] = {}
    for framework in frameworks():
        lab.say(framework.name)
        samples, sizes = await play(lab, framework, turns)
        rows += rows_of(framework, samples, sizes, turns)
        details[framework.name] = {"seconds": {one: samples[one] for one in samples}, "bytes": sizes}
    lab.say("langgraph on PostgreSQL")
    far = await langgraph_postgres.run(lab)
    return Result([*rows, *far.rows], {**details, "langgraph on PostgreSQL": far.details})


def frameworks() -> Iterator[Framework]:
    for name in MODULES:
        found = vars(import_module(f"benchmarks.adapters.{name}")).values()
        yield from (value for value in found if isinstance(value, Framework))


async def play(lab: Lab, framework: Framework, turns: int) -> tuple[Samples, dict[str, int]]:
    """Every store has the same conversation, one turn each, in a random order."""
    subjects: dict[str, Subject] = {}
    places = {
        name: lab.directory / framework.name.replace(" ", "-") / name for name in (OURS, *framework.theirs)
    }
    for name, make in ((OURS, framework.clew), *framework.theirs.items()):
        places[name].mkdir(parents=True)
        subjects[name] = await make(places[name])
    samples = Samples()
    with steady():
        for number in range(turns):
            for name in shuffled(subjects, number):
                start = time.perf_counter()
                await subjects[name].turn(number)
                samples.add(name, time.perf_counter() - start)
    for subject in subjects.values():
        await subject.close()
    return samples, {name: size_on_disk(place) for name, place in places.items()}


def rows_of(framework: Framework, samples: Samples, sizes: dict[str, int], turns: int) -> Iterator[Row]:
    late = {name: median(samples[name][-WINDOW:]) for name in samples}
    early = {name: median(samples[name][EARLY - WINDOW // 2 : EARLY + WINDOW // 2]) for name in samples}
    title = framework.name
    for number, name in enumerate(framework.theirs):
        target = None if number else FASTER
        work = f"{title}: turn {turns}"
        yield Row(work, ms(late[OURS]), f"{name}: {ms(late[name])}", late[OURS] / late[name], target)
    first = next(iter(framework.theirs))
    theirs = late[first] / early[first]
    growth = late[OURS] / early[OURS]
    yield Row(
        f"{title}: turn {turns} against turn {EARLY}",
        ms(late[OURS]),
        f"{first}: {theirs:.2f}x",
        growth,
        GROWTH,
    )
    bytes = framework.message_bytes(turns)
    yield Row(
        f"{title}: disk against messages",
        size(sizes[OURS]),
        f"{size(bytes)}; {first}: {size(sizes[first])}",
        sizes[OURS] / bytes,
        framework.disk,
    )


if __name__ == "__main__":
    main(run, __doc__)
