"""Does a turn cost more as the history grows? Turn 5,000 against turn 50, in time and in bytes.

A long session and a fresh one (in another store, renewed so that it stays near turn 50) take turns, so that
a drifting disk slows both. The way up to turn 5,000 gives the curve of the plot; peers go as far as
their cost lets them in reasonable time.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.harness.measure import Samples, append_each, bytes_written, median, shuffled, steady
from benchmarks.harness.report import Result, Row, ms, size
from benchmarks.harness.script import Lab, main
from benchmarks.harness.work import Conversation, Message
from benchmarks.peers import Contender, start

SESSION = "talk"
YOUNG = 50
"""The turn that is compared with the last ones."""
WAYPOINTS = (10, 25, 50, 100, 150, 250, 500, 1000, 2000, 3000, 4000, 5000)


async def run(lab: Lab) -> Result:
    """Climb, then compare the top with the beginning."""
    top = lab.pick(5000, 1000)
    limits = {
        "raw": top,
        "clew": top,
        "openai SQLiteSession": lab.pick(5000, 500),
        "openai AdvancedSQLiteSession": lab.pick(2000, 250),
        "google-adk DatabaseSessionService": lab.pick(500, 50),
        "langgraph SqliteSaver": lab.pick(200, 50),
    }
    turns = list(Conversation("growth").turns(500))
    curves: dict[str, dict[str, list[float]]] = {}
    old: dict[str, Contender] = {}
    for name, limit in limits.items():
        lab.say(f"{name}: {limit} turns")
        contender = await start(name, lab.directory / "old")
        curves[name] = await climb(contender, turns, limit)
        if name in ("raw", "clew"):
            old[name] = contender
        else:
            await contender.close()
    lab.say(f"turn {top} against turn {YOUNG}, taking turns")
    times, written = await compare(lab, old, turns)
    for contender in old.values():
        await contender.close()
    drift = times.ratio("raw old", "raw young")
    ratio = times.ratio("clew old", "clew young")
    at_top, at_start = written["clew old"], written["clew young"]
    rows = [
        Row(
            f"growth: a turn near {top:,}",
            ms(times.median("clew old")),
            f"clew near turn {YOUNG}: {ms(times.median('clew young'))}",
            ratio,
            1.2,
        ),
        Row(
            "bytes written a turn, the same", size(at_top), f"clew: {size(at_start)}", at_top / at_start, 1.2
        ),
    ]
    details: dict[str, Any] = {"top": top, "curves": curves, "raw_file_old_to_young": drift}
    details["medians_ms"] = {name: times.median(name) * 1e3 for name in times}
    details["bytes_a_turn"] = written
    return Result(rows, details)


async def climb(contender: Contender, turns: list[list[Message]], limit: int) -> dict[str, list[float]]:
    """Do `limit` turns; around each waypoint, the median time and the mean bytes of a turn."""
    times, written = [], []
    for number in range(limit):
        items = contender.prepare(turns[number % len(turns)])
        before, started = bytes_written(), time.perf_counter()
        await append_each(contender, SESSION, items)
        times.append(time.perf_counter() - started)
        written.append(bytes_written() - before)
    curve: dict[str, list[float]] = {"turn": [], "ms": [], "bytes": []}
    for point in WAYPOINTS:
        if point > limit:
            break
        window = slice(max(point - max(5, point // 10), 2), point)
        curve["turn"].append(point)
        curve["ms"].append(median(times[window]) * 1e3)
        curve["bytes"].append(sum(written[window]) / len(written[window]))
    return curve


async def compare(
    lab: Lab, old: dict[str, Contender], turns: list[list[Message]]
) -> tuple[Samples, dict[str, float]]:
    """Seconds and bytes a turn: the long sessions against fresh ones, again and again from turn 25 to 75."""
    times, written = Samples(), Samples()
    young = {name: await start(name, lab.directory / "young") for name in old}
    pairs = {f"{name} old": c for name, c in old.items()} | {f"{name} young": c for name, c in young.items()}
    ready = {name: [c.prepare(turn) for turn in turns[:YOUNG]] for name, c in pairs.items()}
    for number in range(lab.pick(12, 5)):
        for contender in young.values():
            for turn in turns[: YOUNG // 2]:
                await append_each(contender, f"young-{number}", contender.prepare(turn))
        sessions = {name: SESSION if name.endswith("old") else f"young-{number}" for name in pairs}
        with steady():
            for turn_number in range(YOUNG):
                for name in shuffled(pairs, turn_number):
                    before, started = bytes_written(), time.perf_counter()
                    await append_each(pairs[name], sessions[name], ready[name][turn_number])
                    times.add(name, time.perf_counter() - started)
                    written.add(name, bytes_written() - before)
    for contender in young.values():
        await contender.close()
    return times, {name: sum(values) / len(values) for name, values in written.items()}


if __name__ == "__main__":
    main(run, __doc__)
