"""The fast ways through a load give what the careful ones give."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.load import load
from clew.core.load.entries import _may_be_user, item_of, sealed
from clew.core.messages.dialects import is_user_turn, role_of
from clew.importers.contract import Problem, SourceEntry, SourceEvent, SourceSession, SourceUsage
from clew.importers.reading.jsonlines import read_lines
from tests.support.rows import each_row

BEGAN = datetime(2024, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def store() -> Iterator[clew.Store]:
    with clew.open("memory:") as opened:
        yield opened


def entry(uid: str, parent: str | None, message: Any = None, **more: Any) -> SourceEntry:
    said = message or {"role": "user", "content": f"text of {uid}"}
    return SourceEntry(uid=uid, parent=parent, message=said, at=BEGAN, decoded=True, **more)


def session(*entries: SourceEntry, **more: Any) -> SourceSession:
    return SourceSession(id="other:1", entries=iter(entries), **more)


def nested(levels: int, filling: str = "") -> dict[str, Any]:
    value: Any = filling
    for _ in range(levels - 1):
        value = [value]
    return {"role": "user", "content": value}


# -- what a decoder gave is not looked through again


@pytest.mark.parametrize("filling", ["", "x" * 5000])
def test_what_is_too_deep_is_refused_though_its_reader_says_it_is_json(
    store: clew.Store, filling: str
) -> None:
    refused: list[str] = []
    deep = [entry("e1", None, nested(200, filling)), entry("e2", "e1", nested(201, filling))]
    store.load(session(*deep), on_refused=lambda uid, error: refused.append(uid))
    assert refused == ["e2"]
    assert store.get("other:1").info.messages == 1


def test_a_lone_surrogate_is_replaced_and_flagged(store: clew.Store) -> None:
    bad = "a\ud800b"
    store.load(session(entry("e1", None, {"role": "user", "content": bad}, notes={"n": bad})))
    (found,) = store.get("other:1").entries()
    assert found.message["content"] == found.annotations["n"] == "a�b"
    assert found.replaced


def test_what_is_no_json_is_found_where_the_reader_gives_no_word() -> None:
    for value in ({"a": (1, 2)}, {"a": float("inf")}, {1: 2}):
        assert sealed(value, decoded=False) is None
    assert sealed({"a": [1, None, "é"]}, decoded=False) == '{"a":[1,null,"é"]}'.encode()


MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {"role": "user", "content": " "},
    {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]},
    {"role": "user", "content": [{"type": "tool_result", "content": "x"}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}, {"type": "text", "text": "x"}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}], "parts": [{"text": "hi"}]},
    {"role": "assistant", "content": "hi"},
    {"role": "user", "parts": [{"text": "hi"}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "f"}, "text": "hi"}]},
    {"role": "user", "parts": [{"functionResponse": {"response": {}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "f"}}, {"text": "hi"}]},
    {"parts": [{"text": "hi"}]},
    {"parts": [{"functionCall": {"name": "f"}}]},
    {"role": "model", "parts": [{"text": "hi"}]},
    {"role": None, "parts": [{"text": "hi"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    {"type": "function_call_output", "call_id": "c", "output": "x"},
    {"type": "reasoning", "summary": []},
    {"content": "hi"},
    {"role": ["user"], "content": "hi"},
    {},
]


@each_row("message", MESSAGES)
def test_a_turn_of_the_user_is_the_same_by_the_quick_answer_and_by_the_shape(message: dict[str, Any]) -> None:
    item = item_of(entry("e1", None, message), 0) if message else None
    assert item is None or item.is_turn == is_user_turn(message)
    assert _may_be_user(message) or role_of(message) != "user"


# -- events


def test_an_event_that_somebody_adds_meanwhile_is_not_added_again(
    store: clew.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "AT_ONCE", 1)

    def told(id: str) -> SourceEvent:
        return SourceEvent(id=id, type="thing", data={"from": "source"})

    def entries() -> Iterator[SourceEntry]:
        yield entry("e1", None, events=(told("v1"),))
        store.get("other:1").add_event("thing", {"from": "user"}, id="v2")
        yield entry("e2", "e1", events=(told("v1"), told("v2"), told("v3")))
        yield entry("e3", "e2", events=(told("v1"), told("v2"), told("v4")))

    store.load(SourceSession(id="other:1", entries=entries()))
    found = [(event.id, event.data["from"]) for event in store.get("other:1").events()]
    assert found == [("v1", "source"), ("v2", "user"), ("v3", "source"), ("v4", "source")]


def test_events_that_can_not_be_kept_cost_themselves(store: clew.Store) -> None:
    events = (
        SourceEvent(id="x" * 600, type="long"),
        SourceEvent(id="deep", type="deep", data=nested(300)),
        SourceEvent(id="good", type="é", data={"n": 1}, at=BEGAN),
    )
    store.load(session(entry("e1", None, events=events), events=lambda: iter(events)))
    assert [event.id for event in store.get("other:1").events()] == ["good"]


# -- calls

CALLS = [
    SourceUsage(id="c1", model="m", vendor="v", input_tokens=3, output_tokens=4, at=BEGAN),
    SourceUsage(id="c2", cache_read_tokens=5, cache_write_tokens=6, reasoning_tokens=7, cost="0.25"),
    SourceUsage(id="c3", output_tokens=1, cost="0"),
    SourceUsage(id="c4"),
]


def test_many_calls_are_counted_once_each_and_bad_ones_are_refused(
    store: clew.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "CALLS_AT_ONCE", 2)
    bad = SourceUsage(id="bad", output_tokens=1, cost="-1")
    refused: list[str] = []
    for _ in range(2):
        store.load(
            session(*(entry(f"e{n}", None, usage=call) for n, call in enumerate([*CALLS, bad]))),
            on_refused=lambda uid, error: refused.append(uid),
        )
    found = store.get("other:1").usage()
    assert (found.calls, found.input_tokens, found.output_tokens, found.reasoning_tokens) == (4, 3, 5, 7)
    assert (str(found.cost), found.unpriced) == ("0.25", 2)
    assert refused == ["bad", "bad"]


# -- lines that are nearly JSON


def test_numbers_that_no_store_can_keep_become_null_and_are_told(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    huge = "9" * 4301
    path.write_text(
        f'{{"a":1}}\n{{"a":NaN,"b":-Infinity}}\n{{"a":1e999,"b":[{huge},-{huge[1:]}],"c":2.5}}\n[1]\n'
    )
    problems: list[Problem] = []
    records = [line.record for line in read_lines(path, problems.append, lambda count: None)]
    assert records == [{"a": 1}, {"a": None, "b": None}, {"a": None, "b": [None, None], "c": 2.5}]
    assert [(problem.line, problem.reason) for problem in problems] == [
        (2, "NaN is not a number that JSON can hold: replaced by null"),
        (3, "1e999 is not a number that JSON can hold: replaced by null"),
        (4, "this is a list, not a JSON object"),
    ]
