"""The checkpoints of workflows in a Clew store."""

from __future__ import annotations

import dataclasses
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from typing import Any
from uuid import UUID

import pytest
from agent_framework import (
    AgentResponse,
    Content,
    InMemoryCheckpointStorage,
    Message,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
    register_checkpoint_type,
)
from agent_framework._workflows._events import WorkflowEvent
from agent_framework._workflows._runner_context import WorkflowMessage
from pydantic import BaseModel

import clew
from clew.adapters.agent_framework import ClewCheckpointStorage
from clew.adapters.agent_framework.checkpoints import Values
from clew.testing.adapter import run
from tests.support.rows import each_row

HERE = __name__


@dataclasses.dataclass
class Order:
    name: str
    lines: list[tuple[str, int]]
    parent: Order | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    x: int
    y: frozenset[int]


class Colour(Enum):
    RED = "red"


class Rights(Flag):
    READ = 1
    WRITE = 2


class Model(BaseModel):
    n: int
    inner: list[Decimal] = []


class Plain:
    def __init__(self) -> None:
        raise AssertionError("a constructor must not be called to load a checkpoint")


class Sly:
    """Says itself what is to be called when it is loaded."""

    def __reduce__(self) -> Any:
        return print, ("called",)


class Text(str):
    __slots__ = ()


MINE = [f"{HERE}:{kind.__name__}" for kind in (Order, Slotted, Colour, Rights, Model, Plain, Sly, Text)]


def checkpoint(id: str, workflow: str = "flow", second: int = 0, **more: Any) -> WorkflowCheckpoint:
    at = (datetime(2026, 11, 1, tzinfo=UTC) + timedelta(seconds=second)).isoformat()
    return WorkflowCheckpoint(
        workflow_name=workflow, graph_signature_hash="g", checkpoint_id=id, timestamp=at, **more
    )


def test_a_story_is_told_as_by_the_storage_in_memory(store: clew.Store) -> None:
    async def story(storage: Any) -> list[Any]:
        told: list[Any] = []
        for number, (id, workflow, second) in enumerate(
            [
                ("a", "flow", 1),
                ("b", "flow", 3),
                ("c", "other/flow", 9),
                ("d", "flow", 2),
                ("e" * 600, "flow", 0),
            ]
        ):
            told.append(await storage.save(checkpoint(id, workflow, second, iteration_count=number)))
        for workflow in ("flow", "other/flow", "nothing"):
            told.append(sorted(await storage.list_checkpoint_ids(workflow_name=workflow)))
            listed = await storage.list_checkpoints(workflow_name=workflow)
            told.append(sorted(each.checkpoint_id for each in listed))
            latest = await storage.get_latest(workflow_name=workflow)
            told.append(latest)
        told.append(await storage.load("b"))
        await storage.save(checkpoint("b", "flow", 0, state={"again": True}))
        told += [await storage.get_latest(workflow_name="flow"), await storage.load("b")]
        told += [await storage.delete("d"), await storage.delete("d"), await storage.delete("unknown")]
        told.append(await storage.get_latest(workflow_name="flow"))
        told.append(sorted(await storage.list_checkpoint_ids(workflow_name="flow")))
        for unknown in ("d", "unknown", ""):
            with pytest.raises(WorkflowCheckpointException, match="No checkpoint found"):
                await storage.load(unknown)
        return told

    assert run(story(ClewCheckpointStorage(store))) == run(story(InMemoryCheckpointStorage()))


def test_a_checkpoint_is_a_copy_and_outlives_the_storage(store: clew.Store) -> None:
    given = checkpoint("a", state={"list": [1]})
    run(ClewCheckpointStorage(store).save(given))
    given.state["list"].append(2)
    loaded = run(ClewCheckpointStorage(store).load("a"))
    loaded.state["list"].append(3)

    assert run(ClewCheckpointStorage(store).load("a")).state == {"list": [1]}


def test_sessions_have_their_own_latest_checkpoint(local: clew.Store) -> None:
    ann, bob = (ClewCheckpointStorage(local, session_id=name) for name in ("ann", "bob"))
    run(ann.save(checkpoint("a", second=1)))
    run(bob.save(checkpoint("b", second=2)))

    assert run(ann.get_latest(workflow_name="flow")).checkpoint_id == "a"
    assert run(ann.list_checkpoint_ids(workflow_name="flow")) == ["a"]
    assert not run(ann.delete("b"))
    assert ann.session().id == "ann"


def test_a_save_is_one_commit_and_leases_hold(local: clew.Store) -> None:
    async def story() -> None:
        tasks = clew.AsyncStore.over(local)
        async with (await tasks.session("ann")).run("work") as work:
            with pytest.raises(clew.LeaseHeldError):
                await ClewCheckpointStorage(tasks, session_id="ann").save(checkpoint("a"))
            await ClewCheckpointStorage(tasks, session_id="ann", run=work).save(checkpoint("b"))

    run(story())
    storage = ClewCheckpointStorage(local, session_id="ann")
    assert run(storage.list_checkpoint_ids(workflow_name="flow")) == ["b"]


VALUES: list[Any] = [
    None, True, 3, 2**80, -0.5, "naïve 鷺 \u0000", "\ud800", [1, [2]], {"a": {"b": []}},
    {1: "a", "1": "b"}, {"$": "x"}, {(1, 2): {3}}, (), (1, (2,)), {1, 2}, frozenset({"x"}),
    b"\x00\xff", bytearray(b"ab"), datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
    datetime(2026, 1, 2),  # noqa: DTZ001 (one without a zone is a value too)
    date(2026, 1, 2), time(3, 4, 5), timedelta(days=-1, microseconds=7), UUID(int=7),
    Decimal("1.10"), complex(1, -2), float("inf"), deque([1, 2]), Counter("aab"), OrderedDict(b=1, a=2),
    defaultdict(list, {"a": [1]}), str, Order, Colour.RED, Rights.READ | Rights.WRITE,
    Order("x", [("a", 1)], Order("y", [])), Slotted(1, frozenset({2})), Model(n=1, inner=[Decimal("2.5")]),
    Text("t"), [Order("in a list", [])],
]  # fmt: skip


@each_row("value", VALUES)
def test_values_come_back_equal_types_included(value: Any) -> None:
    storage_types = [*MINE, "datetime:datetime"]

    async def story() -> Any:
        with clew.open("memory:") as store:
            storage = ClewCheckpointStorage(store, allowed_checkpoint_types=storage_types)
            await storage.save(checkpoint("a", state={"value": value}))
            return (await storage.load("a")).state["value"]

    found = run(story())

    assert found == value
    assert type(found) is type(value)


def test_what_the_framework_itself_keeps_comes_back(local: clew.Store) -> None:
    message = Message(
        "assistant", ["hello", Content.from_function_call(call_id="c", name="f", arguments={"a": 1})]
    )
    message.raw_representation = object()
    response = AgentResponse(messages=[message], response_id="r", raw_representation=object())
    event = WorkflowEvent.request_info(
        request_id="r", source_executor_id="e", request_data=message, response_type=str
    )
    given = checkpoint(
        "a",
        messages={"e": [WorkflowMessage(data=[message], source_id="e", original_request_info_event=event)]},
        pending_request_info_events={"r": event},
        state={"_executor_state": {"e": {"cache": [message], "said": response}}},
    )
    run(ClewCheckpointStorage(local).save(given))
    loaded = run(ClewCheckpointStorage(local).load("a"))

    (kept,) = loaded.messages["e"]
    assert type(kept) is WorkflowMessage
    assert kept.type is given.messages["e"][0].type
    assert kept.data[0].to_dict() == message.to_dict()
    pending = loaded.pending_request_info_events["r"]
    assert (pending.request_id, pending.response_type, type(pending.data)) == ("r", str, Message)
    assert type(loaded.state["_executor_state"]["e"]["cache"][0].contents[1]) is Content
    said = loaded.state["_executor_state"]["e"]["said"]
    assert (type(said), said.text, said.raw_representation) == (AgentResponse, "hello", None)
    body = local.get("workflow-checkpoints").get_document("checkpoint/a")
    assert body is not None
    assert b"pickle" not in body


def test_types_that_nobody_allowed_are_neither_kept_nor_loaded(local: clew.Store) -> None:
    strict = ClewCheckpointStorage(local)
    liberal = ClewCheckpointStorage(local, allowed_checkpoint_types=MINE)
    with pytest.raises(
        WorkflowCheckpointException, match=f"blocked for type '{HERE}:Order'.*allowed_checkpoint"
    ):
        run(strict.save(checkpoint("a", state={"o": Order("x", [])})))
    run(liberal.save(checkpoint("b", state={"o": Order("x", [])})))
    with pytest.raises(WorkflowCheckpointException, match=f"blocked for type '{HERE}:Order'"):
        run(strict.load("b"))

    assert run(strict.list_checkpoint_ids(workflow_name="flow")) == ["b"]


def test_a_registered_type_is_allowed(local: clew.Store) -> None:
    register_checkpoint_type(Registered)
    storage = ClewCheckpointStorage(local)
    run(storage.save(checkpoint("a", state={"o": Registered(1)})))

    assert run(storage.load("a")).state == {"o": Registered(1)}


@dataclasses.dataclass
class Registered:
    n: int


def test_nothing_is_called_when_an_object_is_loaded() -> None:
    values = Values(frozenset(MINE))
    plain = object.__new__(Plain)
    plain.__dict__["x"] = 1

    assert values.decode(values.encode(plain)).__dict__ == {"x": 1}
    with pytest.raises(WorkflowCheckpointException, match="no pickle"):
        values.encode(Sly())


@each_row(
    "planted",
    [
        {"$": "object", "type": "os:_Environ", "value": {}},
        {"$": "kind of", "type": "subprocess:Popen", "value": "true"},
        {"$": "type", "type": "agent_framework._agents:logging.Logger"},
        {
            "$": "kind of",
            "type": "agent_framework._workflows._checkpoint:FileCheckpointStorage",
            "value": "x",
        },
        {"$": "kind of", "type": "agent_framework._clients:logger.info", "value": "x"},
        {"$": "object", "type": "agent_framework._types:nothing", "value": {}},
        {"$": "enum", "type": f"{HERE}:Order", "value": "x"},
        {"$": "unheard of", "type": f"{HERE}:Order"},
        {"$": "uuid", "value": "no uuid"},
    ],
)
def test_what_somebody_planted_is_refused(planted: Any) -> None:
    with pytest.raises(WorkflowCheckpointException):
        Values(frozenset(MINE)).decode(planted)


def test_what_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(WorkflowCheckpointException, match="contains itself"):
        Values(frozenset()).encode(loop)


def test_a_type_of_a_function_is_refused() -> None:
    @dataclasses.dataclass
    class Local:
        n: int

    key = f"{HERE}:{Local.__qualname__}"
    with pytest.raises(WorkflowCheckpointException, match="Local"):
        Values(frozenset({key})).encode(Local(1))
