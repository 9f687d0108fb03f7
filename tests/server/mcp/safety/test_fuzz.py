"""Ten thousand calls with arguments that no client should send: each gets an answer or a typed error."""

from __future__ import annotations

import logging
import random
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

import clew
from clew.core.messages.text import ACTING
from clew.server.mcp.budget import TOKENS, tokens
from clew.server.mcp.factory import called
from clew.server.mcp.tools import TOOLS
from tests.server.mcp.safety.asking import HERE, view_of
from tests.server.mcp.safety.attacks import ATTACKS
from tests.support.rows import named

CALLS: Final = 10_000
BATCH: Final = 1000


def _letters() -> list[str]:
    """Some characters of every category."""
    found: dict[str, list[str]] = {}
    for code in (*range(0x3000), 0xD800, 0xDFFF, 0xE000, 0xFEFF, 0xFFFF, 0x1F469, 0xE0041, 0xF0000, 0x10FFFF):
        found.setdefault(unicodedata.category(chr(code)), []).append(chr(code))
    return [char for some in found.values() for char in some[:: max(len(some) // 8, 1)]]


LETTERS: Final = _letters()
NUMBERS: Final = (
    *(0, 1, -1, 2, 7, 50, 51, 100, 101, 499, 500, 20_000, 20_001, 2**31, 2**32, 2**63, 2**64, -(2**63)),
    *(10**400, 0.0, 1.0, -0.0, 1.5, 1e308, float("nan"), float("inf"), -float("inf")),
)
WORDS: Final = (
    *("here", "all", "current", "best", "newest", "user", "tool", "fold", "full", "none", "model", "day"),
    *("workspace", "needle", "message", '"a phrase"', "mess*", "-needle", "- *", '"', "running", "completed"),
    *("7d", "12h", "0m", "999999999w", "2026-11-01", "2026-11-01T00:00:00+25:00", "0001-01-01", "1969-12-31"),
    *("9999-12-31T23:59:59Z", "s", "s@0", "s@", "@", "@@", "s@4", "s@999999999", "s@mark", "s@mark@0"),
    *("s%40", "%73", "s@%30", ".", "..", "/", "~", "", " ", "\n", "5", "MTIz", "bnVsbA", "W10"),
    "WzEsIngiLDAsbnVsbF0",
)


def nested(depth: int, is_list: object) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value] if is_list else {"a": value}
    return value


DEEP: Final = [nested(depth, is_list) for depth in (3, 100, 5000) for is_list in (True, False)]


class Fuzzer:
    """Makes up arguments for a tool: as its schema says, nearly so, or not at all."""

    def __init__(self, seed: int, known: list[str]) -> None:
        self._random = random.Random(seed)
        self._known = known

    def arguments(self, schema: dict[str, Any]) -> Any:
        rnd = self._random
        if rnd.random() < 0.03:
            return self.anything()
        names = [name for name in schema["properties"] if name in schema["required"] or rnd.random() < 0.4]
        given = {name: self.value(schema["properties"][name]) for name in names}
        if rnd.random() < 0.05:
            given[self.text()] = self.anything()
        if names and rnd.random() < 0.05:
            del given[rnd.choice(names)]
        return given

    def value(self, schema: dict[str, Any]) -> Any:
        rnd = self._random
        if rnd.random() < 0.1:
            return self.anything()
        if "enum" in schema:
            return rnd.choice(schema["enum"])
        match schema.get("type"):
            case "integer":
                low, high = schema.get("minimum", -5), schema.get("maximum", 30_000)
                return rnd.choice((low, high, low - 1, high + 1, rnd.randint(low, high), rnd.choice(NUMBERS)))
            case "boolean":
                return rnd.random() < 0.5
            case "array":
                return [self.value(schema["items"]) for _ in range(rnd.choice((0, 1, 2, 5, 200)))]
            case _:
                return self.text()

    def text(self) -> str:
        rnd = self._random
        made: tuple[Callable[[], str], ...] = (
            lambda: rnd.choice(self._known),
            lambda: rnd.choice(self._known) + rnd.choice(WORDS),
            lambda: "".join(rnd.choices(LETTERS, k=rnd.choice((1, 2, 10, 400, 401)))),
            lambda: rnd.choice(ATTACKS)[: rnd.choice((10, 400, 5000))],
            *[lambda: rnd.choice(WORDS)] * 2,
        )
        return rnd.choice(made)()

    def anything(self, depth: int = 0) -> Any:
        rnd = self._random
        match rnd.randrange(8 if depth < 4 else 5):
            case 0 | 4:
                return rnd.choice(NUMBERS)
            case 1:
                return self.text()
            case 2:
                return rnd.choice((None, True, False, b"bytes", {1: 2}, object()))
            case 3:
                return rnd.choice(DEEP)
            case 5:
                return [self.anything(depth + 1) for _ in range(3)]
            case _:
                return {self.text(): self.anything(depth + 1) for _ in range(3)}


@contextmanager
def attacked() -> Iterator[clew.Store]:
    """A store of its own for each batch: what the others wrote changes how many calls are good."""
    with clew.open("memory:") as store:
        for id in ("s", "s@0", "x\n\u202e", "%73"):
            session = store.create(id, workspace=HERE, title=f"title of {id}", tags=["t"])
            session.append(*({"role": "user", "content": f"needle message {number}"} for number in range(6)))
            call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "ls"}}
            session.append({"role": "assistant", "content": [call]})
            session.checkpoint("mark")
            session.rewind(3)
            session.append({"role": "assistant", "content": "needle"})
        yield store


@pytest.mark.parametrize("seeds", [range(1, 2), [0, *range(2, CALLS // BATCH)]], ids=["some", "others"])
def test_s45_hostile_arguments_get_an_answer_or_a_typed_error(
    seeds: Iterable[int], caplog: pytest.LogCaptureFixture
) -> None:
    for seed in seeds:
        with named(f"seed {seed}"), attacked() as store:
            call_by_chance(seed, store, caplog)


def call_by_chance(seed: int, store: clew.Store, caplog: pytest.LogCaptureFixture) -> None:
    known = [info.id for info in store.list()] + [entry.id for entry in store.get("s").entries()]
    known += [f"s@{entry}" for entry in known] + ["mark", "t", HERE]
    fuzzer = Fuzzer(seed, known)
    view = view_of(store, writes=True, sees_all=seed % 2 == 1, takes_files=seed % 3 == 1, session="s")
    schemas = {tool.name: tool.input_schema() for tool in TOOLS}
    good = 0
    with caplog.at_level(logging.ERROR):
        for number in range(BATCH):
            tool = TOOLS[number % len(TOOLS)]
            given = fuzzer.arguments(schemas[tool.name])
            result = called(tool, view, given)
            text = result.content[0].text  # type: ignore[union-attr]
            assert "the log of the server says why" not in text, (tool.name, given, caplog.text[-3000:])
            assert not ACTING.search(text), (tool.name, given)
            if result.is_error:
                assert text.partition(":")[0].endswith("Error"), text
                assert len(text) <= 1000
            else:
                good += 1
                most = max(given.get("max_tokens", TOKENS) if isinstance(given, dict) else 0, TOKENS)
                assert tokens(result.structured_content) <= most
    assert BATCH // 10 < good < BATCH, "some are as they should be, and some are not"
