"""LangChain messages in the log of a session: equal when they come back, readable, each stored once."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    ToolMessageChunk,
)
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import clew
from clew.adapters.langgraph import ClewSaver
from clew.adapters.langgraph.log import Paths
from clew.adapters.langgraph.messages import Kept
from tests.adapters.langgraph.talk import answer, checkpoint, human, put, thread, values
from tests.support.rows import each_row


class Shouted(HumanMessage):
    """A class of a user's own."""

    volume: int = 3


MESSAGES: dict[str, BaseMessage] = {
    "text": HumanMessage("hi", id="1", name="ada"),
    "blocks": HumanMessage(
        [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "x"}}]
    ),
    "calls": AIMessage(
        [
            {"type": "text", "text": "so"},
            {"type": "tool_use", "id": "c", "name": "f", "input": {"a": [1.0, True]}},
        ],
        tool_calls=[{"name": "f", "args": {"a": [1.0, True]}, "id": "c", "type": "tool_call"}],
        invalid_tool_calls=[
            {"name": "g", "args": "{", "id": "d", "error": "no JSON", "type": "invalid_tool_call"}
        ],
        response_metadata={"model_name": "m", "logprobs": None},
        usage_metadata={
            "input_tokens": 10,
            "output_tokens": 4,
            "total_tokens": 14,
            "input_token_details": {"cache_read": 3, "cache_creation": 2},
            "output_token_details": {"reasoning": 1},
        },
    ),
    "calls that were only in the kwargs": AIMessage(
        "",
        additional_kwargs={"tool_calls": [{"id": "x", "function": {"name": "f", "arguments": "{}"}}]},
        tool_calls=[],
    ),
    "result": ToolMessage("r", tool_call_id="c", artifact={"rows": [1, 2]}, status="error"),
    "system": SystemMessage("be good"),
    "function": FunctionMessage(content="r", name="f"),
    "free role": ChatMessage(content="hm", role="narrator"),
    "removal": RemoveMessage(id="1"),
    "chunk": AIMessageChunk(
        content="par", id="1", tool_call_chunks=[{"name": "f", "args": '{"a', "id": "c", "index": 0}]
    ),
    "human chunk": HumanMessageChunk(content="par"),
    "tool chunk": ToolMessageChunk(content="par", tool_call_id="c"),
    "extra field": HumanMessage("x", mood="good"),
    "bytes inside": HumanMessage("x", additional_kwargs={"raw": b"\x00\xff"}),
    "keys that are no texts": HumanMessage("x", additional_kwargs={"by": {1: "a"}}),
    "odd text": HumanMessage("naïve 鷺 \u0000 \U0001f426"),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "agents.db") as store:
        yield store


@each_row("message", MESSAGES.values())
def test_a_message_comes_back_equal_warm_and_cold(message: BaseMessage) -> None:
    with clew.open("memory:") as store:
        given = copy.deepcopy(message)
        warm = ClewSaver(store)
        config = put(warm, thread(), {"messages": [given]})

        for saver in (warm, ClewSaver(store)):
            (there,) = values(saver, config)["messages"]
            assert there == message
            assert type(there) is type(message)
            assert there is not given
        assert warm.session("talk").info.messages == 1


def test_a_message_of_the_users_own_class_is_one_that_can_be_read_where_it_is_not_allowed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with clew.open("memory:") as store, caplog.at_level(logging.ERROR):
        config = put(ClewSaver(store), thread(), {"messages": [Shouted(content="hey", volume=11)]})

        assert values(ClewSaver(store, allow=[Shouted]), config)["messages"] == [
            Shouted(content="hey", volume=11)
        ]
        assert values(ClewSaver(store), config)["messages"] == [Shouted(content="hey", volume=11)]
        (plain,) = values(ClewSaver(store, allow=[]), config)["messages"]
        assert (type(plain), plain.content) == (HumanMessage, "hey")
        assert store.get("talk").messages()[0]["content"] == "hey"


def test_a_strict_saver_makes_objects_of_safe_types_only(caplog: pytest.LogCaptureFixture) -> None:
    with clew.open("memory:") as store, caplog.at_level(logging.ERROR):
        saver = ClewSaver(store, allow=[])
        config = put(saver, thread(), {"where": Path("/tmp"), "shouted": {"it": Shouted(content="hey")}})
        forged = put(saver, thread("forged"), {"messages": [human("x")]})
        constructor = {"lc": 2, "type": "constructor", "id": ["os", "getpid"]}
        store.get("forged").append({"type": "human", "content": [constructor]})

        there = values(saver, config)
        assert there["where"] == Path("/tmp")
        assert not isinstance(there["shouted"]["it"], Shouted)
        assert values(ClewSaver(store), forged)["messages"] == [human("x")]


def test_s03_no_saver_makes_anything_of_a_pickle() -> None:
    """A row of a poisoned store that says it is one: nothing of it is run."""
    call_of_os = b"cos\ngetpid\n(tR."
    with clew.open("memory:") as store:
        for saver in (ClewSaver(store), ClewSaver(store, allow=[])):
            with pytest.raises(NotImplementedError):
                saver.serde.loads_typed(("pickle", call_of_os))


# -- what is stored


def test_a_message_is_stored_once_however_many_checkpoints_have_it(store: clew.Store) -> None:
    saver, config = ClewSaver(store), thread()
    said: list[BaseMessage] = []
    for turn in range(20):
        said = [*said, human(f"question {turn} " * 50), answer(f"answer {turn} " * 50)]
        config = put(saver, config, {"messages": said})

    assert saver.session("talk").info.messages == 40
    assert len(saver.session("talk").tree().branches) == 1
    lengths = [len(one.checkpoint["channel_values"]["messages"]) for one in ClewSaver(store).list(thread())]
    assert lengths == list(range(40, 0, -2))


def test_inputs_and_writes_of_a_checkpoint_are_compressed_when_the_next_one_comes(store: clew.Store) -> None:
    saver, text = ClewSaver(store), " ".join(str(number**5) for number in range(400))
    asked = put(saver, thread(), {"__start__": {"messages": [human(text)]}})
    saver.put_writes(asked, [("messages", [HumanMessage(text)])], "task")
    made = checkpoint({"messages": [human(text)]}, {"__start__": 2, "messages": 2})
    saver.put(asked, made, {}, {"__start__": 2, "messages": 2})

    beside = sum(len(content) for _, content in saver.session("talk").documents())
    assert beside < 0.7 * len(text)  # twice the text, as it was given
    there = ClewSaver(store).get_tuple(asked)
    assert there is not None
    assert there.checkpoint["channel_values"] == {"__start__": {"messages": [human(text)]}}
    assert there.pending_writes == [("task", "messages", [HumanMessage(text)])]


def test_an_edited_list_is_a_branch_and_the_old_checkpoint_still_has_its_own(store: clew.Store) -> None:
    saver = ClewSaver(store)
    one = put(saver, thread(), {"messages": [human("a"), answer("b"), human("c")]})
    edited = put(saver, one, {"messages": [human("a"), answer("better"), human("c")]})
    shorter = put(saver, edited, {"messages": [human("a")]})
    empty = put(saver, shorter, {"messages": []})
    anew = put(saver, empty, {"messages": [human("z")]})

    for reader in (saver, ClewSaver(store)):
        assert values(reader, one)["messages"] == [human("a"), answer("b"), human("c")]
        assert values(reader, edited)["messages"] == [human("a"), answer("better"), human("c")]
        assert values(reader, shorter)["messages"] == [human("a")]
        assert values(reader, empty)["messages"] == []
        assert values(reader, anew)["messages"] == [human("z")]
    assert [message["content"] for message in store.get("talk").messages()] == ["z"]
    assert store.verify().ok


def test_a_message_that_was_changed_in_place_is_noticed(store: clew.Store) -> None:
    saver = ClewSaver(store)
    said = [human("a"), answer("b", additional_kwargs={"note": ["x"]})]
    config = put(saver, thread(), {"messages": said})
    said[1].additional_kwargs["note"].append("y")
    later = put(saver, config, {"messages": [*said, human("c")]})

    assert values(ClewSaver(store), config)["messages"][1].additional_kwargs == {"note": ["x"]}
    assert values(ClewSaver(store), later)["messages"][1].additional_kwargs == {"note": ["x", "y"]}


def test_who_else_moved_the_head_does_not_matter(store: clew.Store) -> None:
    saver = ClewSaver(store)
    config = put(saver, thread(), {"messages": [human("a"), answer("b")]})
    session = saver.session("talk")
    session.append({"role": "user", "content": "a remark from outside"})
    config = put(saver, config, {"messages": [human("a"), answer("b"), human("c")]})
    assert values(ClewSaver(store), config)["messages"] == [human("a"), answer("b"), human("c")]

    session.rewind(0)
    config = put(saver, config, {"messages": [human("a"), answer("b"), human("c"), answer("d")]})
    assert values(ClewSaver(store), config)["messages"] == [human("a"), answer("b"), human("c"), answer("d")]
    assert session.info.messages == 4


def test_summaries_and_compactions_on_the_path_stay(store: clew.Store) -> None:
    saver = ClewSaver(store)
    config = put(saver, thread(), {"messages": [human("a"), answer("b")]})
    saver.session("talk").set_summary("they met")
    config = put(saver, config, {"messages": [human("a"), answer("b"), human("c")]})

    assert saver.session("talk").summary == "they met"
    assert len(saver.session("talk").tree().branches) == 1
    assert values(ClewSaver(store), config)["messages"] == [human("a"), answer("b"), human("c")]


def test_two_savers_that_know_nothing_of_each_other_go_on_from_one_checkpoint(store: clew.Store) -> None:
    one, other = ClewSaver(store), ClewSaver(store)
    root = put(one, thread(), {"messages": [human("a")]})
    left = put(one, root, {"messages": [human("a"), answer("left")]})
    right = put(other, root, {"messages": [human("a"), answer("right")]})
    again = put(one, root, {"messages": [human("a"), answer("again")]})

    for config, said in ((left, "left"), (right, "right"), (again, "again")):
        assert values(ClewSaver(store), config)["messages"] == [human("a"), answer(said)]


def test_usage_is_counted_once_for_each_message(store: clew.Store) -> None:
    saver, message = ClewSaver(store), MESSAGES["calls"].model_copy(update={"id": "paid"})
    root = put(saver, thread(), {"messages": [human("a")]})
    put(saver, root, {"messages": [human("a"), message]})
    put(saver, root, {"messages": [human("a, edited"), message]})

    (call,) = saver.session("talk").usage_records()
    counted = (
        call.model,
        call.input_tokens,
        call.output_tokens,
        call.cache_read_tokens,
        call.reasoning_tokens,
    )
    assert counted == ("m", 10, 4, 3, 1)


# -- other lists


def test_a_list_of_a_subgraph_costs_what_it_has_more_than_the_conversation(store: clew.Store) -> None:
    saver = ClewSaver(store)
    said = [each for turn in range(30) for each in (human(f"q{turn} " * 60), answer(f"a{turn} " * 60))]
    put(saver, thread(), {"messages": said})
    before = size(store)
    config = put(saver, thread(ns="sub:1"), {"messages": said})
    for turn in range(5):
        config = put(
            saver, config, {"messages": [*said, *(human(f"sub {n} " * 60) for n in range(turn + 1))]}
        )

    assert size(store) - before < 8000
    for reader in (saver, ClewSaver(store)):
        assert values(reader, config)["messages"] == [*said, *(human(f"sub {n} " * 60) for n in range(5))]


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
def test_a_list_that_grows_is_not_written_anew(store: clew.Store, is_cold: bool) -> None:
    saver, config = ClewSaver(store), thread()
    items: list[dict[str, Any]] = []
    for step in range(60):
        items = [*items, {"step": step, "words": "words " * 40}]
        config = put(ClewSaver(store) if is_cold else saver, config, {"items": items})

    once = sum(len(str(item)) for item in items)
    assert size(store) < 3 * once
    lengths = [len(one.checkpoint["channel_values"]["items"]) for one in ClewSaver(store).list(thread())]
    assert lengths == list(range(60, 0, -1))


def test_a_list_that_keeps_losing_what_it_had_is_written_anew_in_time(store: clew.Store) -> None:
    saver, config = ClewSaver(store), thread()
    window: list[str] = []
    for step in range(40):
        window = [*window[-9:], f"step {step} " * 40]
        config = put(saver, config, {"window": ["always", *window]})
    assert values(ClewSaver(store), config)["window"] == ["always", *window]
    chain = [name for name, _ in saver.session("talk").documents(prefix="l/")]
    saver.prune(["talk"])
    assert len(saver.session("talk").documents(prefix="l/")) <= 4 < len(chain)
    assert values(ClewSaver(store), config)["window"] == ["always", *window]


def test_a_list_whose_end_changes_has_only_its_own_end(store: clew.Store) -> None:
    saver, config = ClewSaver(store), thread()
    begin = [f"element {number} " * 40 for number in range(10)]
    made = []
    for end in ("x", "y", "z"):
        config = put(saver, config, {"items": [*begin, end * 300]})
        made.append((config, end))
    shorter = put(saver, config, {"items": begin[:4]})

    for config, end in made:
        assert values(ClewSaver(store), config)["items"] == [*begin, end * 300]
    assert values(ClewSaver(store), shorter)["items"] == begin[:4]
    assert size(store) < 2 * sum(map(len, begin))


def size(store: clew.Store) -> int:
    return sum(len(content) for _, content in store.get("talk").documents())


# -- encryption


class Backwards(CipherProtocol):
    """A cipher whose output is never the same, as that of a real one."""

    def __init__(self) -> None:
        self._count = 0

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        self._count += 1
        key = self._count % 255 + 1
        return "backwards", bytes([key]) + bytes(byte ^ key for byte in plaintext[::-1])

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return bytes(byte ^ ciphertext[0] for byte in ciphertext[:0:-1])


def test_with_encryption_nothing_can_be_read_in_the_store(store: clew.Store) -> None:
    serde = EncryptedSerializer(Backwards(), JsonPlusSerializer(allowed_msgpack_modules=None))
    saver, config = ClewSaver(store, serde=serde), thread()
    said: list[BaseMessage] = []
    for turn in range(20):
        said = [*said, human(f"secret question {turn} " * 30)]
        config = put(saver, config, {"messages": said, "plan": "secret plan"}, note="secret note")
        saver.put_writes(config, [("messages", [answer("secret")])], "task")

    for reader in (saver, ClewSaver(store, serde=serde)):
        assert values(reader, config) == {"messages": said, "plan": "secret plan"}
        assert next(iter(reader.list(thread(), filter={"note": "secret note"}))).config == config
    assert store.get("talk").messages() == []
    kept = b"".join(content for _, content in store.get("talk").documents())
    assert b"secret" not in kept
    assert len(kept) < 3 * sum(len(message.content) for message in said)


# -- memory


def test_memory_holds_no_more_than_it_may() -> None:
    paths = Paths(most_bytes=100)
    for number in range(10):
        paths.remember(f"s{number}", [Kept(b"x" * 30, None, "e1"), Kept(b"x" * 10, None, "e2")])

    assert paths.known("s0", "e2") is None
    assert [kept.entry for kept in paths.known("s9", "e1") or []] == ["e1"]
    paths.remember("s9", [Kept(b"x" * 200, None, "e1")])
    assert paths.known("s9", "e1") is None
    assert paths.known("s8", "e2") is not None


def test_a_message_with_a_number_that_is_none_is_stored_once(store: clew.Store) -> None:
    odd = answer("x", additional_kwargs={"score": math.nan})
    config = put(ClewSaver(store), thread(), {"messages": [human("a"), odd]})
    for number in range(3):
        saver = ClewSaver(store)  # which knows nothing
        messages = values(saver, config)["messages"]
        assert math.isnan(messages[1].additional_kwargs["score"])
        config = put(saver, config, {"messages": [*messages, human(f"more {number}")]})

    assert store.get("talk").info.messages == 5
    assert len(store.get("talk").tree().branches) == 1
