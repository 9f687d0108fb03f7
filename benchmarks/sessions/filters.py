"""The lists that a page asks for, of 100,000 sessions with costs and subagents: in Python and over HTTP."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import clew
from benchmarks.harness.build import kept
from benchmarks.harness.http import request, serving
from benchmarks.harness.measure import take_turns_sync
from benchmarks.harness.report import Result, Row, ms
from benchmarks.harness.script import Lab, main
from benchmarks.harness.work import Conversation

AT_ONCE: Final = 500
"""Sessions that one transaction makes."""
AGENTS: Final = ("claude-code", "codex", "opencode", "gemini", "pi")
MODELS: Final = ("claude-opus-4-5", "gpt-5.1", "gemini-3-pro", *(f"model-{number}" for number in range(40)))
LIST: Final = 0.015
FACETS: Final = 0.050
RARE: Final = 3.0
"""Targets, in seconds."""
ASKED: Final[dict[str, tuple[dict[str, Any], float]]] = {
    "with costs": ({}, LIST),
    "with costs, without subagents": ({"subagents": False}, LIST),
    "of a project": ({"project": "project-3"}, LIST),
    "of a frequent agent": ({"agent": "codex"}, LIST),
    "of a rare model": ({"model": "model-17"}, LIST),
    "of starred ones": ({"tag": "starred"}, LIST),
}
"""Lists of 50 sessions with their costs."""


async def run(lab: Lab) -> Result:
    count = lab.pick(100_000, 10_000)
    lab.say(f"{count:,} sessions with costs and subagents (made once, and kept)")
    path = kept(f"costs-{count}", lambda path: fill(path, count))
    details: dict[str, Any] = {"quick": lab.quick}
    return Result(list(rows(lab, path, count, details)), details)


def rows(lab: Lab, path: Path, count: int, details: dict[str, Any]) -> Iterator[Row]:
    rounds = lab.pick(200, 30)
    with clew.open(str(path)) as store, serving("store", str(path)) as served:
        connection = served.connect()

        def measured(name: str, address: str, library: Any, limit: float, rounds: int) -> Row:
            asked = request(served.port, "GET", f"/api/v1/{address}")
            times = take_turns_sync({"HTTP": lambda: connection.ask(asked), "library": library}, rounds)
            took = sorted(times["HTTP"])[int(0.99 * (rounds - 1))]
            details[f"{name}, µs"] = {each: round(times.median(each) * 1e6) for each in times}
            known = f"limit {ms(limit)}; library, median {ms(times.median('library'))}"
            return Row(f"{name}, p99", ms(took), known, took / limit, 1.0)

        for name, (filters, limit) in ASKED.items():
            query = "&".join(f"{key}={str(value).lower()}" for key, value in filters.items())

            def library(filters: dict[str, Any] = filters) -> object:
                return store.list(usage=True, **filters)

            yield measured(
                f"50 of {count:,} sessions {name}", f"sessions?usage=true&{query}", library, limit, rounds
            )
        yield measured("facets, nothing changed", "facets", store.facets, FACETS, rounds)
        yield measured(
            "a cost that none has", "sessions?min_cost=9999", lambda: store.list(min_cost=9999), RARE, 3
        )


def fill(path: Path, count: int) -> None:
    """Seven of ten sessions have costs, one of five is a subagent."""
    chance = random.Random(1)
    talk = Conversation("filters")
    with clew.open(str(path), durability="process") as store:
        for first in range(0, count, AT_ONCE):
            store.transact(partial(_make, first=first, chance=chance, talk=talk))


def _make(store: clew.Store, first: int, chance: random.Random, talk: Conversation) -> None:
    made: list[str] = []
    for number in range(first, first + AT_ONCE):
        metadata = {"agent": chance.choice(AGENTS)}
        if made and chance.random() < 0.2:
            metadata["parent"] = chance.choice(made)
        session = store.create(
            f"s{number:06}",
            workspace=f"/w/project-{int(300 * chance.random() ** 3)}",
            model=chance.choice(MODELS[:3] if chance.random() < 0.9 else MODELS),
            tags=["starred"] if chance.random() < 0.02 else [],
            metadata=metadata,
        )
        session.append(talk.small())
        for _ in range(chance.randint(1, 4) if chance.random() < 0.7 else 0):
            session.add_usage(
                input_tokens=chance.randint(100, 90_000),
                output_tokens=chance.randint(10, 3000),
                cost=f"{chance.random() ** 6 * 20:.4f}",
            )
        made.append(session.id)


if __name__ == "__main__":
    main(run, __doc__)
