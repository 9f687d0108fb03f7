"""PostgreSQL with 1,000,000 sessions and 10,000,000 messages: what things cost on the way there.

    python -m benchmarks.postgres.scale [--sessions 1000000] [--messages 10000000]

At each size: an append to one of the sessions, its history, a session by its id, the first page of the list;
then appends to one session whose history grows. Writes scale-postgres.json and scale-postgres.png.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

import clew
from benchmarks.harness.measure import Neighbours, Samples, take_turns_sync
from benchmarks.harness.report import Result, Row, disturbance, machine, ms, table
from benchmarks.harness.script import HERE, Lab, parser, scratch
from benchmarks.postgres.load import Loader
from benchmarks.postgres.plot import draw
from benchmarks.postgres.server import server

MESSAGE: dict[str, object] = {"role": "assistant", "content": "word " * 60}
SCHEMA = "scale"
PAGE = 50
STEPS = (1_000, 10_000, 100_000, 1_000_000)
LENGTHS = (10, 100, 1_000, 10_000, 50_000)
FLAT = 1.5
"""The last point against the first, at most: a larger index is deeper, and less of it is in memory."""

Curves = dict[str, dict[int, float]]


def main() -> None:
    neighbours = Neighbours()
    options = parser(__doc__ or "")
    options.add_argument("--sessions", type=int, default=STEPS[-1])
    options.add_argument("--messages", type=int, default=10_000_000)
    options.add_argument("--results", type=Path, default=HERE / "results")
    chosen = options.parse_args()
    with scratch(chosen.dir) as directory:
        lab = Lab(directory, chosen.quick)
        with server(lab, shared_buffers="512MB", max_wal_size="4GB") as url:
            loader = Loader(url, SCHEMA, max(chosen.messages // chosen.sessions, 1), MESSAGE)
            curves = by_sessions(lab, url, loader, chosen.sessions)
            lengths = by_length(lab, url, 50_000 if chosen.sessions >= STEPS[-1] else 10_000)
    rows = [_row(work, curve, "sessions") for work, curve in curves.items()]
    rows += [_row(work, curve, "messages in the session") for work, curve in lengths.items()]
    print(table(rows))
    print(disturbance([Result(rows, neighbours=neighbours.share())]), file=sys.stderr)
    found = {"machine": machine(), "by sessions": curves, "by history": lengths}
    chosen.results.mkdir(parents=True, exist_ok=True)
    (chosen.results / "scale-postgres.json").write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    draw(curves, lengths, chosen.results / "scale-postgres.png")


def by_sessions(lab: Lab, url: str, loader: Loader, sessions: int) -> Curves:
    curves: Curves = {}
    for size in sorted({*(step for step in STEPS if step < sessions), sessions}):
        lab.say(f"loading up to {size:,} sessions")
        loader.grow(size)
        for work, seconds in measured(lab, url, loader).items():
            curves.setdefault(work, {})[size] = seconds
        lab.say(", ".join(f"{work} {ms(curve[size])}" for work, curve in curves.items()))
    return curves


def measured(lab: Lab, url: str, loader: Loader) -> dict[str, float]:
    chance = random.Random(loader.count)
    with clew.open(url, schema=SCHEMA) as store:
        writer = store.get(loader.id_of(chance.randrange(loader.count)))
        writer.append(MESSAGE)

        def any_session() -> clew.Session:
            return store.get(loader.id_of(chance.randrange(loader.count)))

        jobs: dict[str, Callable[[], object]] = {
            "append": lambda: writer.append(MESSAGE),
            "append to any session": lambda: any_session().append(MESSAGE),
            "history of any session": lambda: any_session().messages(),
            f"list the newest {PAGE}": lambda: store.list(limit=PAGE),
        }
        for job in jobs.values():
            job()
        samples: Samples = take_turns_sync(jobs, lab.pick(400, 60))
    return {work: samples.median(work) for work in samples}


def by_length(lab: Lab, url: str, longest: int) -> Curves:
    """Appends to one session, at several lengths of its history."""
    lab.say(f"one session of up to {longest:,} messages")
    curve: dict[int, float] = {}
    with clew.open(url, schema=SCHEMA) as store:
        session, length = store.create("long"), 0
        for wanted in (one for one in LENGTHS if one <= longest):
            while length < wanted:
                count = min(1000, wanted - length)
                session.append(*[MESSAGE] * count)
                length += count
            samples = take_turns_sync({"append": lambda: session.append(MESSAGE)}, lab.pick(300, 60))
            curve[length] = samples.median("append")
            length += len(samples["append"])
    return {"append": curve}


def _row(work: str, curve: dict[int, float], unit: str) -> Row:
    first, last = min(curve), max(curve)
    return Row(
        f"PostgreSQL: {work}, {last:,} {unit}",
        ms(curve[last]),
        f"{first:,}: {ms(curve[first])}",
        curve[last] / curve[first],
        FLAT,
    )


if __name__ == "__main__":
    main()
