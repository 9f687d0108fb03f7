"""Results in their calls, and subagents under the calls that started them."""

from __future__ import annotations

from typing import Any

import pytest

import clew
from clew.exporters import agents
from clew.exporters.agents import Subagents
from clew.exporters.blocks import Block
from clew.exporters.pairs import MOST_HELD, paired
from clew.exporters.transcript import Transcript
from tests.exporters.told import told
from tests.support.rows import each_row


def _call(id: str) -> dict[str, Any]:
    return {"type": "tool_use", "name": "look", "input": {}, "id": id}


def _result(id: str, text: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": text}


def _assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def _user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def _of_gemini(role: str, kind: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": [{kind: {"name": "x", **each}} for each in fields]}


DONE = {"role": "assistant", "content": "done"}
CASES: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "results go into their calls in whatever order they come": (
        [_assistant(_call("1"), _call("2")), _user(_result("2", "two")), _user(_result("1", "one")), DONE],
        ["# Assistant", "look: one", "look: two", "done"],
    ),
    "words beside a result stay where they are": (
        [_assistant(_call("1")), _user(_result("1", "one"), {"type": "text", "text": "stop"})],
        ["# Assistant", "look: one", "# User", "stop"],
    ),
    "a call without a result is told when a person speaks": (
        [_assistant(_call("1")), {"role": "user", "content": "go on"}, _user(_result("1", "late"))],
        ["# Assistant", "look (no result)", "# User", "go on", "# Tool", "Result of look: late"],
    ),
    "a result that was written twice is told once": (
        [_assistant(_call("1")), _user(_result("1", "one")), _user(_result("1", "one"))],
        ["# Assistant", "look: one"],
    ),
    "two results of one call are both told": (
        [_assistant(_call("1")), _user(_result("1", "one")), _user(_result("1", "other"))],
        ["# Assistant", "look: one", "# Tool", "Result of look: other"],
    ),
    "results without ids are paired by name and order": (
        [
            _of_gemini("model", "functionCall", {"args": {}}, {"args": {}}),
            _of_gemini("user", "functionResponse", {"response": {"n": 1}}, {"response": {"n": 2}}),
        ],
        ["# Assistant", 'x: { "n": 1 }', 'x: { "n": 2 }'],
    ),
}


@each_row(("messages", "lines"), CASES.values(), ids=CASES)
def test_a_result_is_told_in_its_call(messages: list[dict[str, Any]], lines: list[str]) -> None:
    with clew.open("memory:") as store:
        store.create("a").append(*messages)
        assert told(store, "a") == lines


def test_a_result_on_another_branch_stays_there(store: clew.Store) -> None:
    s = store.create("a")
    s.append(_assistant(_call("1")), _user(_result("1", "one")))
    s.rewind(0)
    s.append(_user(_result("1", "another")))
    lines = told(store, "a", whole=True)
    assert "look (no result)" in lines
    assert {"Result of look: one", "Result of look: another"} < set(lines)


def test_what_is_held_back_has_a_bound(store: clew.Store) -> None:
    s = store.create("a")
    s.append(
        _assistant(_call("1")), *({"role": "assistant", "content": str(n)} for n in range(MOST_HELD + 10))
    )
    read = 0

    def counted() -> Any:
        nonlocal read
        for turn in Transcript(store, "a", whole=False, redactor=None).turns():
            read += 1
            yield turn

    next(iter(paired(counted())))
    assert read <= MOST_HELD + 1


# -- subagents


def _children(store: clew.Store, *ids: str, **metadata: Any) -> None:
    for id in ids:
        child = store.create(id, metadata={"parent": "a", **metadata})
        child.append({"role": "user", "content": f"Do the part of {id}."})


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (Block(kind="call", call="t1", value={}), "done"),
        (Block(kind="call", call="x", value={"prompt": "Do the  part of kid-9000001."}), "done"),
        (Block(kind="call", call="x", value={}), "agentId: kid-9000001 (resume with this id)"),
    ],
)
def test_a_subagent_is_found_by_the_id_of_its_call_its_prompt_or_its_own_id(
    store: clew.Store, call: Block, answer: str
) -> None:
    store.create("a")
    _children(store, "kid-9000001", **({"agent_meta": {"toolUseId": "t1"}} if call.call == "t1" else {}))
    _children(store, "kid-9000002")
    found = Subagents(store, "a")
    assert found.count == 2
    asked = Block(kind="call", call=call.call, value=call.value, answers=(Block(kind="result", text=answer),))
    assert [info.id for info in found.started_by(asked)] == ["kid-9000001"]
    assert found.started_by(asked) == []
    assert [info.id for info in found.rest()] == ["kid-9000002"]


def test_subagents_that_no_call_names_stand_at_the_end(store: clew.Store) -> None:
    store.create("a").append({"role": "user", "content": "hello"})
    _children(store, "one", "two")
    page = store.export("a", "html")
    assert page.index("hello") < page.index("Do the part of one.") < page.index("Do the part of two.")
    assert "Do the part of one." not in store.export("a", "html", tools=False).partition("<main>")[2]


def test_a_page_has_room_for_so_many_messages_of_subagents(
    store: clew.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.exporters.html.MOST_MESSAGES", 1)
    store.create("a").append({"role": "user", "content": "hello"})
    _children(store, "one", "two")
    page = store.export("a", "html", links={"two": "two.html"})
    assert page.count('<details class="sa') == 1
    assert '<p class="note">Subagent: <a href="./two.html">Do the part of two.</a>, 1 message</p>' in page


def test_the_head_says_what_subagents_cost(store: clew.Store) -> None:
    for id, parent in (("a", None), ("b", "a"), ("c", "b")):
        s = store.create(id, metadata={"parent": parent} if parent else {})
        s.append({"role": "user", "content": id})
        s.add_usage(model="m", input_tokens=1000, output_tokens=10, cost="0.25")
    for format in ("html", "markdown"):
        page = store.export("a", format)
        assert "1.0 k tokens in, 10 out" in page
        assert "$0.75 with subagents" in page
    assert "with subagents" not in store.export("c", "html")


def test_s52_subagents_that_lead_round_end(store: clew.Store) -> None:
    for id, parent in (("a", "b"), ("b", "a"), ("c", "c")):
        store.create(id, metadata={"parent": parent}).append({"role": "user", "content": id})
    page = store.export("a", "html")
    assert page.count('<details class="sa') == agents.DEEPEST
    assert '<details class="sa' not in store.export("c", "html")
    assert store.export("a", "markdown").count("Subagent: ") == 1


def test_s24_a_secret_in_a_subagent_is_replaced_too(store: clew.Store) -> None:
    store.create("a").append({"role": "user", "content": "hello"})
    child = store.create("b", title="password=hunter2x9", metadata={"parent": "a"})
    child.append({"role": "user", "content": "the database is postgres://app:hunter2x9@db/prod"})
    for format in ("html", "markdown"):
        page = store.export("a", format, redact=True)
        assert "hunter2x9" not in page
