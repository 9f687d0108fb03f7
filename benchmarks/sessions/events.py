"""Do 200,000 events beside a conversation slow it? And what do events cost themselves?

Two stores hold the same sessions; one of the sessions has the events in one store and none in the other.
None of the peers keeps events beside a conversation, so there is nobody to compare with but ourselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import clew
from benchmarks.harness.build import SESSION
from benchmarks.harness.measure import Samples, take_turns_sync
from benchmarks.harness.report import Result, Row, ms
from benchmarks.harness.script import Lab, main
from benchmarks.harness.tally import Cost, watching
from benchmarks.harness.work import Conversation

MESSAGES = 2000
OTHERS = 200
"""Sessions beside, for `list()`."""
PAGE = 100
STEP = 20
"""Messages appended at a time, with their share of the events between: pages of both kinds lie mixed."""
STREAMS = ("stdout", "stderr", "trace", "")
RARE = "alarm"
"""A stream that has one event in a thousand."""
FACTOR = 1.2

Jobs: TypeAlias = dict[str, Callable[[], object]]


async def run(lab: Lab) -> Result:
    """Reads first: they find the stores as they were built."""
    events = lab.pick(200_000, 20_000)
    lab.say(f"building {MESSAGES:,} messages twice, once with {events:,} events between")
    with_events, without = lab.directory / "with.db", lab.directory / "without.db"
    build(with_events, events)
    build(without, 0)
    lab.say("the same calls on both, in turns")
    with opened(with_events) as (loud, loud_store), opened(without) as (quiet, quiet_store):
        assert loud.messages() == quiet.messages()
        assert loud.count_events().kept == events
        sides = {"with": calls(loud_store, loud), "without": calls(quiet_store, quiet)}
        times = in_turns(sides, lab.pick(60, 20))
        lab.say("reading and adding events")
        places = pages(loud, events)
        reading = take_turns_sync(places, 200)
        adding = in_turns({"with": additions(loud), "without": additions(quiet)}, lab.pick(60, 20))
    lab.say("counting statements")
    costs = {"with": watched(with_events), "without": watched(without)}
    rows = [compared(call, times, events) for call in calls(loud_store, loud)]
    rows.append(steps_row(costs, events))
    rows += [compared(call, adding, events, "from none on") for call in additions(loud)]
    rows += [page_row(name, reading) for name in places if name != "from the start"]
    details: dict[str, Any] = {
        "us": {name: found.median(name) * 1e6 for found in (times, adding, reading) for name in found},
        "usual_cost": {
            side: {call: cost.as_dict() for call, cost in found.items()} for side, found in costs.items()
        },
    }
    return Result(rows, details)


def compared(call: str, times: Samples, events: int, other: str = "no events") -> Row:
    slow, fast = times.median(f"{call} with"), times.median(f"{call} without")
    return Row(f"{call}, {events:,} events", ms(slow), f"clew, {other}: {ms(fast)}", slow / fast, FACTOR)


def steps_row(costs: dict[str, dict[str, Cost]], events: int) -> Row:
    """What does not depend on the moment: all calls together do the same work, row by row."""
    more, less = (sum(cost.steps for cost in costs[side].values()) for side in ("with", "without"))
    work = f"all of these, steps of SQLite, {events:,} events"
    return Row(work, f"{more:,.0f}", f"clew, no events: {less:,.0f}", more / less, 1.0)


def page_row(name: str, reading: Samples) -> Row:
    page, first = reading.median(name), reading.median("from the start")
    return Row(f"{PAGE} events, {name}", ms(page), f"clew, from the start: {ms(first)}", page / first, 1.5)


def in_turns(sides: dict[str, Jobs], rounds: int) -> Samples:
    """Every call of every side, in turns."""
    return take_turns_sync(
        {f"{call} {side}": job for side, jobs in sides.items() for call, job in jobs.items()}, rounds
    )


def build(path: Path, events: int) -> None:
    """The same messages in the same steps, and the events between them."""
    messages = list(Conversation("events").messages(MESSAGES))
    share = events * STEP // MESSAGES
    with clew.open(str(path)) as store:
        for number in range(OTHERS):
            store.session(f"chat-{number}", title=f"Chat {number}").append(messages[number])
        session = store.session(SESSION)
        for start in range(0, MESSAGES, STEP):
            session.append(*messages[start : start + STEP])
            if share:
                first = start // STEP * share
                session.add_events([event(number) for number in range(first, first + share)])


def event(number: int) -> dict[str, Any]:
    """What a tool says while it works: about 150 bytes."""
    stream = RARE if number % 1000 == 999 else STREAMS[number % len(STREAMS)]
    line = f"{number:08} compiling module {number % 977} of 977, warnings as errors, cache hit"
    return {
        "type": "tool.output",
        "stream": stream,
        "data": {"call": f"call_{number // 50:024x}", "line": line},
    }


@contextmanager
def opened(path: Path) -> Iterator[tuple[clew.Session, clew.Store]]:
    with clew.open(str(path)) as store:
        yield store.session(SESSION), store


def calls(store: clew.Store, session: clew.Session) -> Jobs:
    """What must not notice that there are events."""
    message = Conversation("events").small()
    return {
        "messages()": session.messages,
        "messages(last=20)": lambda: session.messages(last=20),
        "context(max_messages=50)": lambda: session.context(max_messages=50),
        "list()": lambda: store.list(limit=50),
        "append": lambda: session.append(message),
    }


def additions(session: clew.Session) -> Jobs:
    """Behind many events, or the first ones."""
    batch = [event(number) for number in range(1000)]
    return {
        "add_event": lambda: session.add_event("tool.output", batch[0]["data"], stream="stdout"),
        "add_events of 1,000": lambda: session.add_events(batch),
    }


def pages(session: clew.Session, events: int) -> Jobs:
    """A page from every part of the events, of all streams and of one."""

    def page(after: int, stream: str | None = None) -> Callable[[], object]:
        found = session.events(after=after, stream=stream, limit=PAGE)
        assert len(found) == (min(PAGE, events // 1000) if stream == RARE else PAGE)
        return lambda: session.events(after=after, stream=stream, limit=PAGE)

    late = events - PAGE * len(STREAMS) * 2
    return {
        "from the start": page(0),
        "from the middle": page(events // 2),
        "from the end": page(events - PAGE),
        "of a stream, from the start": page(0, "stderr"),
        "of a stream, from the middle": page(events // 2, "stderr"),
        "of a stream, from the end": page(late, "stderr"),
        "of no stream, from the middle": page(events // 2, ""),
        "of a rare stream": page(0, RARE),
    }


def watched(path: Path) -> dict[str, Cost]:
    with watching() as tally, opened(path) as (session, store):
        return {name: tally.usual_cost(job) for name, job in calls(store, session).items()}


if __name__ == "__main__":
    main(run, __doc__)
