"""Finding messages among 1,000,000, and what an append pays for it: nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import accumulate
from time import perf_counter

import clew
from benchmarks.harness.measure import take_turns_sync
from benchmarks.harness.report import Result, Row, ms
from benchmarks.harness.script import Lab, main

SESSIONS = 5000
COMMON, RARE = "kestrel", "quixotry"
LIMITS = {"newest, rare": 0.005, "newest, common": 0.020, "best, common": 0.100}


async def run(lab: Lab) -> Result:
    """About 230 bytes a message; a third of them have the common word, one in 100,000 the rare one."""
    messages = lab.pick(1_000_000, 50_000)
    path = str(lab.directory / "clew.db")
    with clew.open(path) as store:
        lab.say(f"making {messages:,} messages")
        fill(store, messages, max(messages * SESSIONS // 1_000_000, 1))
        before = store.stats().bytes_on_disk
        lab.say("searching for the first time")
        start = perf_counter()
        store.search(RARE)
        first = perf_counter() - start
        size = store.stats().bytes_on_disk - before
        jobs: dict[str, Callable[[], clew.SearchPage]] = {
            "newest, rare": lambda: store.search(RARE),
            "newest, common": lambda: store.search(COMMON),
            "best, common": lambda: store.search(COMMON, order="best"),
        }
        assert [len(job()) for job in jobs.values()][1:] == [20, 20]
        times = take_turns_sync(jobs, 50)
    rows = []
    for name, limit in LIMITS.items():
        took = times.median(name)
        rows.append(Row(f"{name} of {messages:,}", ms(took), f"limit {ms(limit)}", took / limit, 1.0))
    each, share = first / messages, size / before
    rows.append(Row("index, a message", ms(each), f"{share:.0%} of the store's size", share))
    return Result(rows, {**{name: times.median(name) * 1e6 for name in times}, "index": each * 1e6})


def fill(store: clew.Store, messages: int, sessions: int) -> None:
    """Words as often as in a language: the n-th most common one n times less often than the first."""
    chance = random.Random(7)
    words = [f"{first}{middle}{last}" for first in "bdfgklmnprst" for middle in ("a", "e", "io", "u")
             for last in ("n", "rd", "st", "ck", "ling", "tion", "ness", "able", "et", "um")]  # fmt: skip
    chance.shuffle(words)
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    each = messages // sessions
    for number in range(sessions):
        batch = []
        for at in range(number * each, (number + 1) * each):
            said = chance.choices(words, cum_weights=weights, k=34)
            said += [COMMON] * (at % 3 == 0) + [RARE] * (at % 100_000 == 77)
            batch.append({"role": ("user", "assistant")[at % 2], "content": " ".join(said)})
        store.session(f"chat-{number}").append(*batch)


if __name__ == "__main__":
    main(run, __doc__)
