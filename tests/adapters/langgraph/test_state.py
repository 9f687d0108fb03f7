"""What may stand in the state of a graph: the same comes back as with LangGraph's own savers."""

from __future__ import annotations

import logging
import operator
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import add_messages
from pydantic import BaseModel
from typing_extensions import TypedDict

import clew
from clew.adapters.langgraph import ClewSaver
from tests.adapters.langgraph.talk import one_node, put, thread, values
from tests.support.rows import each_row

CONFIG: Any = {"configurable": {"thread_id": "talk"}}


@dataclass
class Plan:
    steps: list[str]
    done: int = 0


class Bird(BaseModel):
    name: str
    seen: list[datetime] = []


class Mood(Enum):
    CALM = "calm"
    CROSS = "cross"


class Place(NamedTuple):
    lake: str
    depth: float


class Note(TypedDict):
    text: str
    plan: Plan


class State(TypedDict, total=False):
    value: Any
    grown: Annotated[list[Any], operator.add]
    messages: Annotated[list[AnyMessage], add_messages]
    met: Annotated[list[Any], operator.add]


@dataclass
class Typed:
    """The state as a whole is a dataclass."""

    plan: Plan
    birds: Annotated[list[Bird], operator.add] = field(default_factory=list)


MOMENT = datetime(2026, 5, 4, 3, 2, 1, 654321, tzinfo=UTC)
VALUES: list[Any] = [
    Plan(["look", "listen"]),
    Bird(name="heron", seen=[MOMENT]),
    Mood.CROSS,
    Place("north", 2.5),
    UUID(int=7),
    MOMENT,
    MOMENT.replace(tzinfo=None),
    date(2026, 5, 4),
    timedelta(days=3, microseconds=1),
    Decimal("1.10"),
    Path("/birds/heron"),
    {"a", "b"},
    frozenset({1, 2}),
    deque([1, 2]),
    b"\x00\xff",
    float("inf"),
    2**63,
    {1: "one", "two": 2},
    Document("a heron", metadata={"page": 3}),
    {"note": Note(text="x", plan=Plan(["deep"])), "said": [HumanMessage("hi", id="1"), [Mood.CALM]]},
]


@pytest.fixture(autouse=True)
def told_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """LangGraph warns of a class once in a process."""
    for name in ("_warned_unregistered_types", "_warned_blocked_types"):
        monkeypatch.setattr(jsonplus, name, set())


def two_turns(make: Callable[[], BaseCheckpointSaver[Any]], value: Any) -> Any:
    """What a node finds in the second turn, in which another saver reads what the first one wrote."""

    def node(state: State) -> dict[str, Any]:
        met = state.get("value"), state.get("grown")
        return {"met": [(type(met[0]).__name__, list(met))], "value": value, "grown": [value, value]}

    builder = one_node(State, "node", node)
    said = AIMessage("x", id="x", additional_kwargs={"n": 1})
    for _ in range(2):
        graph = builder.compile(checkpointer=make())
        done = graph.invoke({"messages": [said]}, CONFIG)
    return done, graph.get_state(CONFIG).values


@each_row("value", VALUES)
def test_a_value_is_in_the_next_turn_what_it_is_with_langgraphs_own_saver(value: Any) -> None:
    with clew.open("memory:") as store:
        found, state = two_turns(lambda: ClewSaver(store), value)
    own = InMemorySaver()
    assert (found, state) == two_turns(lambda: own, value)
    assert found["met"][1] == (type(value).__name__, [value, [value, value]])


def test_a_dataclass_is_a_dataclass_in_the_next_turn_and_langgraph_warns_of_it(
    store: clew.Store, caplog: pytest.LogCaptureFixture
) -> None:
    def node(state: Typed) -> dict[str, Any]:
        assert isinstance(state.plan, Plan)
        assert all(isinstance(bird, Bird) for bird in state.birds)
        return {"plan": Plan([*state.plan.steps, "more"]), "birds": [Bird(name="owl")]}

    builder = one_node(Typed, "node", node)
    builder.compile(checkpointer=ClewSaver(store)).invoke({"plan": Plan(["look"])}, CONFIG)
    done = builder.compile(checkpointer=ClewSaver(store)).invoke({}, CONFIG)

    assert done == {"plan": Plan(["look", "more", "more"]), "birds": [Bird(name="owl"), Bird(name="owl")]}
    assert "unregistered type" in caplog.text
    assert "Plan" in caplog.text


def test_with_classes_that_are_named_no_others_are_made(
    store: clew.Store, caplog: pytest.LogCaptureFixture
) -> None:
    config = put(ClewSaver(store), thread(), {"plan": Plan(["look"]), "bird": Bird(name="owl")})

    strict = values(ClewSaver(store, allow=[Plan]), config)
    assert strict == {"plan": Plan(["look"]), "bird": {"name": "owl", "seen": []}}
    assert "Blocked deserialization of tests.adapters.langgraph.test_state.Bird" in caplog.text
    assert values(ClewSaver(store, allow=[]), config)["plan"] == {"steps": ["look"], "done": 0}


def test_the_strict_mode_of_langgraph_is_that_of_the_saver(
    store: clew.Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = put(ClewSaver(store), thread(), {"plan": Plan(["look"])})
    monkeypatch.setattr("langgraph.checkpoint.serde._msgpack.STRICT_MSGPACK_ENABLED", True)

    strict = ClewSaver(store)
    assert values(strict, config) == {"plan": {"steps": ["look"], "done": 0}}
    assert "Blocked deserialization" in caplog.text
    assert strict.with_allowlist([(Plan.__module__, "Plan")]).get_tuple(config).checkpoint[  # type: ignore[union-attr]
        "channel_values"
    ] == {"plan": Plan(["look"])}


def test_a_serializer_of_ones_own_decides_alone_what_is_allowed() -> None:
    with clew.open("memory:") as store:
        with pytest.raises(clew.InvalidError, match="not both"):
            ClewSaver(store, serde=JsonPlusSerializer(), allow=[Plan])
        saver = ClewSaver(store, serde=JsonPlusSerializer(allowed_msgpack_modules=[Plan]))
        with_own = put(saver, thread(), {"plan": Plan(["look"])})
        assert values(saver, with_own) == {"plan": Plan(["look"])}


def test_nothing_is_told_of_values_that_are_known_to_be_safe(caplog: pytest.LogCaptureFixture) -> None:
    with clew.open("memory:") as store, caplog.at_level(logging.DEBUG, logger=jsonplus.__name__):
        safe = {"where": Path("/tmp"), "when": MOMENT, "said": [HumanMessage("hi", id="1")]}
        assert values(ClewSaver(store), put(ClewSaver(store), thread(), safe)) == safe
        assert caplog.text == ""
