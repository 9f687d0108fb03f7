"""What the way over HTTP adds: a client and `clew serve` as two processes on this machine.

Each figure stands beside the same call of the library in process, taken in turns, and beside the round trip
of a bare Starlette route behind the same uvicorn: what is left above the two is ours. The client is a raw
socket (benchmarks/harness/http.py); one such as httpx takes longer for a request than the server does.
`--hour` puts a steady load on the server for an hour instead, and says what becomes of its memory.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import clew
from benchmarks.harness.build import SESSION, grow, kept
from benchmarks.harness.http import TOKEN, Connection, Served, crowd, request, serving
from benchmarks.harness.measure import Samples, steady, take_turns_sync
from benchmarks.harness.report import Result, Row, ms, size
from benchmarks.harness.script import Lab, main
from benchmarks.harness.work import Conversation, Message
from benchmarks.sessions import listing, search

CLIENTS: Final = 64
PAGE: Final = 50
BLOCKS: Final = 200
PAGES: Final = 5
APPEND: Final = 1.3
CROWD: Final = 0.5
LIST: Final = 0.005
BLOCK_PAGE: Final = 0.025
SEARCH: Final = 0.010
"""Targets: ratios, and seconds."""
COUNTED: Final = 50
"""Requests of one client of which the system calls are counted."""
HOUR: Final = 3600
API: Final = "/api/v1"


async def run(lab: Lab) -> Result:
    details: dict[str, Any] = {"quick": lab.quick}
    if lab.has("hour"):
        return Result(list(memory(lab, details, HOUR)), details)
    rows = [
        *appends(lab, details),
        *await writers(lab, details),
        *lists(lab, details),
        *blocks(lab, details),
        *searches(lab, details),
        *memory(lab, details, lab.pick(60, 10)),
    ]
    return Result(rows, details)


def append(served: Served, session: str, message: Message, api: str = API) -> bytes:
    """The request."""
    return request(served.port, "POST", f"{api}/sessions/{session}/entries", {"messages": [message]})


def new_session(connection: Connection, id: str) -> None:
    connection.ask(request(connection.port, "POST", f"{API}/sessions", {"id": id}))


# -- one append after the other


def appends(lab: Lab, details: dict[str, Any]) -> Iterator[Row]:
    """One message of 1 KB: by the library, over HTTP, by a store that is opened over HTTP."""
    rounds = lab.pick(1500, 300)
    lab.say(f"one append after the other, {rounds} of each")
    messages = [Conversation(f"append-{n}").small() for n in range(16)]
    here, far, theirs = cycle(messages), cycle(messages), cycle(messages)
    with ExitStack() as opened:
        bare = opened.enter_context(serving("bare"))
        served = opened.enter_context(serving("store", str(lab.directory / "served.db")))
        library = opened.enter_context(clew.open(str(lab.directory / "library.db"))).session("talk")
        remote = opened.enter_context(clew.open(f"http://127.0.0.1:{served.port}", token=TOKEN))
        remotely = remote.session("far")
        over_http, to_bare = served.connect(), bare.connect()
        ready = cycle([append(served, "talk", message) for message in messages])
        plain = cycle([append(bare, "talk", message, api="") for message in messages])
        new_session(over_http, "talk")
        ask_by_urllib3 = by_urllib3(bare)
        jobs: dict[str, Callable[[], object]] = {
            "library": lambda: library.append(next(here)),
            "bare route": lambda: to_bare.ask(next(plain)),
            "bare route, by urllib3": lambda: ask_by_urllib3(next(theirs)),
            "HTTP": lambda: over_http.ask(next(ready)),
            "remote store": lambda: remotely.append(next(far)),
        }
        for job in jobs.values():
            job()
        switches, processor = served.switches(), served.processor()
        times = take_turns_sync(jobs, rounds)
        details["append: of the server, each"] = {
            "switches of threads": (served.switches() - switches) / rounds / 2,
            "processor, µs": (served.processor() - processor) / rounds / 2 * 1e6,
        }
    took = {name: times.median(name) for name in times}
    details["append, µs"] = {name: round(seconds * 1e6) for name, seconds in took.items()}
    for work, way, trip in (
        ("append over HTTP, above a round trip", "HTTP", "bare route"),
        ('append, clew.open("http://…"), above a round trip', "remote store", "bare route, by urllib3"),
    ):
        floor = f"library {ms(took['library'])}, round trip {ms(took[trip])}"
        yield Row(work, ms(took[way]), floor, (took[way] - took[trip]) / took["library"], APPEND)
    yield from counts(lab, details)


def by_urllib3(bare: Served) -> Callable[[Message], object]:
    """A round trip of the bare route with the client that a remote store has."""
    import urllib3

    pool = urllib3.HTTPConnectionPool("127.0.0.1", bare.port)
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    return lambda message: pool.request(
        "POST", "/sessions/talk/entries", json={"messages": [message]}, headers=headers
    )


def counts(lab: Lab, details: dict[str, Any]) -> Iterator[Row]:
    """What does not depend on who else is busy: requests and syncs of an append."""
    if shutil.which("strace") is None:
        lab.say("there is no strace: system calls are not counted")
        return
    message = Conversation("counted").small()
    traced = lab.directory / "calls.txt"
    calls = ["-e", "trace=fsync,fdatasync,read,recvfrom,write,sendto,pwrite64"]
    under = ["strace", "-f", "-qq", "-s", "60", *calls, "-e", "signal=none", "-o", str(traced)]
    with serving("store", str(lab.directory / "counted.db"), under=under) as served:
        connection = served.connect()
        for number in range(CLIENTS):
            new_session(connection, f"chat-{number}")
        one = append(served, "chat-0", message)
        connection.ask(one)
        found = {"HTTP": _calls(traced, lambda: [connection.ask(one) for _ in range(COUNTED)])}
        with clew.open(f"http://127.0.0.1:{served.port}", token=TOKEN) as remote:
            session = remote.session("far")
            session.append(message)
            found["remote store"] = _calls(traced, lambda: [session.append(message) for _ in range(COUNTED)])
        many = [append(served, f"chat-{number}", message) for number in range(CLIENTS)]
        found["64 clients"] = _calls(
            traced, lambda: crowd(served.port, CLIENTS, COUNTED, lambda client, _: many[client])
        )
    appended = {"HTTP": COUNTED, "remote store": COUNTED, "64 clients": COUNTED * CLIENTS}
    each = {
        name: {call: round(count / appended[name], 3) for call, count in calls.items()}
        for name, calls in found.items()
    }
    details["append: system calls of the server, each"] = each
    details["append: bytes sent"] = len(one)
    for name in ("HTTP", "remote store"):
        sent, synced = each[name]["requests"], each[name]["syncs"]
        yield Row(f"append, {name}: requests", f"{sent:g}", "1", sent, 1)
        yield Row(f"append, {name}: syncs", f"{synced:g}", "1", synced, 1)
    shared = each["64 clients"]["syncs"]
    yield Row("append, 64 clients: syncs of each", f"{shared:g}", "alone: 1", shared)


_REQUEST: Final = re.compile(r'\b(?:read|recvfrom)(?:\(\d+, | resumed>)"(?:GET|POST|PUT|PATCH|DELETE) /')
_SYNC: Final = re.compile(r"\b(?:fsync|fdatasync)\(")
_WRITE: Final = re.compile(r"\b(?:write|pwrite64|sendto)\(")


def _calls(traced: Path, work: Callable[[], object]) -> dict[str, int]:
    """What a process under strace did meanwhile."""
    time.sleep(0.3)
    before = traced.stat().st_size
    work()
    time.sleep(0.3)
    with traced.open(errors="replace") as lines:
        lines.seek(before)
        told = lines.read()
    kinds = {"requests": _REQUEST, "syncs": _SYNC, "writes": _WRITE}
    return {name: len(kind.findall(told)) for name, kind in kinds.items()}


# -- many clients at once


async def writers(lab: Lab, details: dict[str, Any]) -> Iterator[Row]:
    """64 connections that are kept, against 64 tasks in process; each with a session of its own."""
    appends, rounds = lab.pick(100, 40), lab.pick(9, 3)
    lab.say(f"{CLIENTS} clients, {rounds} rounds")
    messages = [Conversation(f"writer-{n}").small() for n in range(8)]
    rates = Samples()
    with serving("bare") as bare, serving("store", str(lab.directory / "crowd.db")) as served:
        connection = served.connect()
        for number in range(CLIENTS):
            new_session(connection, f"chat-{number}")
        ours = [[append(served, f"chat-{n}", message) for message in messages] for n in range(CLIENTS)]
        theirs = [
            [append(bare, f"chat-{n}", message, api="") for message in messages] for n in range(CLIENTS)
        ]
        async with clew.open_async(str(lab.directory / "local.db")) as store:
            sessions = [await store.session(f"chat-{number}") for number in range(CLIENTS)]
            with steady():
                for _ in range(rounds):
                    sent = crowd(served.port, CLIENTS, appends, lambda client, at: ours[client][at % 8])
                    rates.add("HTTP", sent)
                    rates.add("local tasks", await _local_rate(sessions, messages, appends))
                    sent = crowd(bare.port, CLIENTS, appends, lambda client, at: theirs[client][at % 8])
                    rates.add("bare route", sent)
    found = {name: rates.median(name) for name in rates}
    details["64 clients, appends a second"] = {name: round(rate) for name, rate in found.items()}
    rate, local, plain = found["HTTP"], found["local tasks"], found["bare route"]
    both = 1 / (1 / local + 1 / plain)
    return iter(
        [
            Row(
                "64 clients, appends/s",
                f"{rate:,.0f}",
                f"64 local tasks: {local:,.0f}",
                rate / local,
                CROWD,
                at_least=True,
            ),
            Row(
                "64 clients, appends/s",
                f"{rate:,.0f}",
                f"one after the other, the bare route and the tasks: {both:,.0f}",
                rate / both,
            ),
        ]
    )


async def _local_rate(sessions: list[clew.AsyncSession], messages: list[Message], count: int) -> float:
    async def write(session: clew.AsyncSession) -> None:
        for number in range(count):
            await session.append(messages[number % len(messages)])

    began = time.perf_counter()
    await asyncio.gather(*map(write, sessions))
    return len(sessions) * count / (time.perf_counter() - began)


# -- reading


def lists(lab: Lab, details: dict[str, Any]) -> Iterator[Row]:
    count = lab.pick(100_000, 10_000)
    lab.say(f"lists of {count:,} sessions (made once, and kept)")
    path = kept(f"sessions-{count}", lambda path: _run_apart(listing.fill(path, count)))
    with clew.open(str(path)) as store, serving("store", str(path)) as served:
        connection = served.connect()
        asked = request(served.port, "GET", f"{API}/sessions?limit={PAGE}")
        assert len(_data(connection.ask(asked))) == PAGE
        times = take_turns_sync(
            {"HTTP": lambda: connection.ask(asked), "library": lambda: store.list(limit=PAGE)},
            lab.pick(1000, 300),
        )
    yield from _read_rows(f"list of {PAGE} of {count:,}", times, LIST, details, share=0.99)


def blocks(lab: Lab, details: dict[str, Any]) -> Iterator[Row]:
    """The pages of a session one after the other, each for the first time, and then one again and again."""
    lab.say(f"{BLOCKS} entries as blocks")
    path = lab.directory / "blocks.db"
    with clew.open(str(path)) as store:
        session = store.session(SESSION)
        grow(session, PAGES * BLOCKS)
        with serving("store", str(path)) as served:
            connection = served.connect()
            page = f"{API}/sessions/{SESSION}/entries?limit={BLOCKS}"
            firsts = Samples()
            for number in range(PAGES):
                behind = f"&after={number * BLOCKS - 1}" if number else ""
                asked = request(served.port, "GET", f"{page}&view=blocks{behind}")
                began = time.perf_counter()
                answer = connection.ask(asked)
                firsts.add("first", time.perf_counter() - began)
                assert len(_data(answer)) == BLOCKS
            raw = request(served.port, "GET", page)
            times = take_turns_sync(
                {
                    "HTTP": lambda: connection.ask(asked),
                    "raw": lambda: connection.ask(raw),
                    "library": lambda: list(session.entries(last=BLOCKS)),
                },
                lab.pick(100, 30),
            )
    details["200 entries as blocks: bytes"] = len(answer)
    yield from _read_rows(f"{BLOCKS} entries as blocks", times, BLOCK_PAGE, details)
    first = firsts.median("first")
    yield Row(
        f"{BLOCKS} entries as blocks, the first time",
        ms(first),
        f"limit {ms(BLOCK_PAGE)}",
        first / BLOCK_PAGE,
        1.0,
    )


def searches(lab: Lab, details: dict[str, Any]) -> Iterator[Row]:
    count = lab.pick(1_000_000, 50_000)
    lab.say(f"search in {count:,} messages (made once, and kept)")
    path = kept(f"messages-{count}", lambda path: searchable(path, count))
    with clew.open(str(path)) as store, serving("store", str(path)) as served:
        connection = served.connect()
        for word, name in ((search.RARE, "a rare word"), (search.COMMON, "a common word")):
            asked = request(served.port, "GET", f"{API}/search?q={word}")
            assert _data(connection.ask(asked))
            times = take_turns_sync(
                {
                    "HTTP": lambda asked=asked: connection.ask(asked),  # type: ignore[misc]
                    "library": lambda word=word: store.search(word),  # type: ignore[misc]
                },
                lab.pick(200, 50),
            )
            yield from _read_rows(f"search for {name} in {count:,}", times, SEARCH, details)


def searchable(path: Path, count: int) -> None:
    with clew.open(str(path)) as store:
        search.fill(store, count, max(count * search.SESSIONS // 1_000_000, 1))
        store.search(search.RARE)


def _run_apart(work: Any) -> None:
    """A coroutine, while the loop of this thread is busy with us."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


def _data(answer: bytes) -> list[Any]:
    import msgspec

    found: list[Any] = msgspec.json.decode(answer)["data"]
    return found


def _read_rows(
    work: str, times: Samples, limit: float, details: dict[str, Any], share: float = 0.5
) -> Iterator[Row]:
    details[f"{work}, µs"] = {
        name: {"median": round(times.median(name) * 1e6), "p99": round(_share(times[name], 0.99) * 1e6)}
        for name in times
    }
    took, library = _share(times["HTTP"], share), times.median("library")
    name = f"{work}, p99" if share == 0.99 else work
    yield Row(name, ms(took), f"limit {ms(limit)}; library, median {ms(library)}", took / limit, 1.0)


def _share(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


# -- memory


def memory(lab: Lab, details: dict[str, Any], seconds: int) -> Iterator[Row]:
    """A steady load of all that a client does; the memory of the server once a second."""
    lab.say(f"a steady load for {seconds} s")
    talk = Conversation("steady")
    with serving("store", str(lab.directory / "steady.db")) as served:
        connection = served.connect()
        for number in range(CLIENTS):
            new_session(connection, f"chat-{number}")
        asked = [
            *(append(served, f"chat-{number}", talk.small()) for number in range(CLIENTS)),
            request(served.port, "GET", f"{API}/sessions?limit={PAGE}"),
            *(
                request(served.port, "GET", f"{API}/sessions/chat-{number}/entries?last=20")
                for number in range(8)
            ),
            request(served.port, "GET", f"{API}/search?q=python"),
        ]
        seen: list[tuple[float, float]] = []
        began = time.monotonic()
        requests = 0
        while (passed := time.monotonic() - began) < seconds:
            crowd(served.port, 8, 40, lambda client, at: asked[(client * 40 + at) % len(asked)])
            requests += 8 * 40
            if not seen or passed - seen[-1][0] >= 1:
                seen.append((passed, served.memory()))
    later = seen[len(seen) // 4 :]
    slope = _slope(later)
    half = [bytes for _, bytes in later]
    details["memory"] = {
        "seconds": seconds,
        "requests": requests,
        "MB, every tenth of the time": [round(seen[len(seen) * n // 10][1] / 1e6, 1) for n in range(10)],
        "MB at the end": round(seen[-1][1] / 1e6, 1),
        "bytes a request, after the first quarter": round(slope * seconds / requests, 1),
    }
    grown = half[-1] / half[0]
    yield Row(
        f"memory after {seconds} s and {requests:,} requests",
        size(half[-1]),
        f"after a quarter of it: {size(half[0])}",
        grown,
        1.05 if seconds >= HOUR else None,
    )


def _slope(points: list[tuple[float, float]]) -> float:
    """Of the line through points, by least squares."""
    xs, ys = zip(*points, strict=True)
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((one - x) ** 2 for one in xs)
    return sum((a - x) * (b - y) for a, b in points) / spread if spread else 0.0


if __name__ == "__main__":
    main(run, __doc__, hour="a steady load for an hour, and nothing else")
