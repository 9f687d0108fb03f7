"""Results in their calls, and subagents under the calls that started them."""

from __future__ import annotations

from typing import Any

import pytest

import clew
from clew.exporters import agents
from clew.exporters.agents import Subagents
from clew.exporters.blocks import Block
from clew.exporters.pairs import MOST_HELD, paired
from clew.exporters.transcript import Transcript, Turn


def _call(id: str | None, name: str = "look", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "input": arguments, **({"id": id} if id else {})}


def _result(id: str, text: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": text}


def _assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def _user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def _turns(store: clew.Store, id: str = "a", *, whole: bool = False) -> list[Turn]:
    return list(paired(Transcript(store, id, whole=whole, redactor=None).turns()))


def _shape(turns: list[Turn]) -> list[list[Any]]:
    """Of each turn its blocks: the kind, or of a call the texts of its answers."""
    return [
        [
            [answer.text for answer in block.answers] if block.kind == "call" else block.kind
            for block in turn.blocks
        ]
        for turn in turns
    ]


def test_results_go_into_their_calls_in_whatever_order_they_come(store: clew.Store) -> None:
    s = store.create("a")
    s.append(_assistant(_call("1"), _call("2")), _user(_result("2", "two")), _user(_result("1", "one")))
    s.append({"role": "assistant", "content": "done"})
    assert _shape(_turns(store)) == [[["one"], ["two"]], ["text"]]


def test_words_beside_a_result_stay_where_they_are(store: clew.Store) -> None:
    text = {"type": "text", "text": "stop"}
    store.create("a").append(_assistant(_call("1")), _user(_result("1", "one"), text))
    assert _shape(_turns(store)) == [[["one"]], ["text"]]


def test_a_call_without_a_result_is_told_when_a_person_speaks(store: clew.Store) -> None:
    s = store.create("a")
    s.append(_assistant(_call("1")), {"role": "user", "content": "go on"}, _user(_result("1", "late")))
    assert _shape(_turns(store)) == [[[]], ["text"], ["result"]]


def test_a_result_that_was_written_twice_is_told_once(store: clew.Store) -> None:
    store.create("a").append(_assistant(_call("1")), _user(_result("1", "one")), _user(_result("1", "one")))
    assert _shape(_turns(store)) == [[["one"]]]
    store.create("b").append(_assistant(_call("1")), _user(_result("1", "one")), _user(_result("1", "other")))
    assert _shape(_turns(store, "b")) == [[["one"]], ["result"]]


def test_a_result_on_another_branch_stays_there(store: clew.Store) -> None:
    s = store.create("a")
    s.append(_assistant(_call("1")), _user(_result("1", "one")))
    s.rewind(0)
    s.append(_user(_result("1", "another")))
    assert _shape(_turns(store, whole=True)) == [[[]], ["result"], ["result"]]


def test_results_without_ids_are_paired_by_name_and_order(store: clew.Store) -> None:
    def part(kind: str, name: str, **more: Any) -> dict[str, Any]:
        return {kind: {"name": name, **more}}

    store.create("a").append(
        {"role": "model", "parts": [part("functionCall", "x", args={}), part("functionCall", "x", args={})]},
        {
            "role": "user",
            "parts": [
                part("functionResponse", "x", response={"output": "1"}),
                part("functionResponse", "x", response={"output": "2"}),
            ],
        },
    )
    [[first, second]] = _shape(_turns(store))
    assert "1" in first[0]
    assert "2" in second[0]


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
