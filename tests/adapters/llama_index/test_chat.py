"""Chat stores of LlamaIndex in a Clew store: what LlamaIndex asks of one, and what Clew adds."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    CitableBlock,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage, MessageRole, MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base import BaseChatStore

import clew
from clew.adapters.llama_index import ClewChatStore
from clew.testing.adapter import AdapterConformance, run
from examples import llama_index_agent

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def said(text: str, role: MessageRole = MessageRole.USER, **extra: Any) -> ChatMessage:
    return ChatMessage(role=role, content=text, additional_kwargs=extra)


def says(*texts: str) -> list[ChatMessage]:
    return [said(text) for text in texts]


def texts(messages: list[ChatMessage] | None) -> list[str | None]:
    return [message.content for message in messages or []]


class TestConformance(AdapterConformance):
    def make(self, store: clew.Store) -> ClewChatStore:
        return ClewChatStore(store)

    def messages(self) -> list[Any]:
        call = ToolCallBlock(tool_call_id="c-1", tool_name="look_up", tool_kwargs={"bird": "heron"})
        return [
            said("where is the grey heron"),
            ChatMessage(role="assistant", blocks=[ThinkingBlock(content="hm"), call]),
            said("kingfisher", MessageRole.TOOL, tool_call_id="c-1"),
            said("naïve 鷺 \u0000", MessageRole.ASSISTANT),
        ]

    def numbered(self, number: str) -> list[Any]:
        return [said(number), said(number, MessageRole.ASSISTANT)]

    async def write(self, adapter: Any, name: str, messages: list[Any]) -> None:
        # A chat store takes one message, or all of them: to add several is to set what was there and more.
        # What this process read before may be old by then, so this is what a lone writer does.
        await adapter.aset_messages(name, [*await adapter.aget_messages(name), *messages])

    async def read(self, adapter: Any, name: str) -> list[Any]:
        found: list[Any] = await adapter.aget_messages(name)
        return found

    def number_of(self, message: Any) -> str:
        return str(message.content)

    appends = False


@pytest.fixture
def chats(store: clew.Store) -> ClewChatStore:
    return ClewChatStore(store)


@pytest.fixture
def local() -> Iterator[ClewChatStore]:
    """On one kind of store, for what does not depend on it."""
    with clew.open("memory:") as store:
        yield ClewChatStore(store)


# ── As the store that LlamaIndex ships ────────────────────────────────────────────────────────────

Deed = Callable[[BaseChatStore], Any]

DEEDS: list[Deed] = [
    lambda s: s.get_messages("a"),
    lambda s: s.add_message("a", said("1")),
    lambda s: s.add_message(key="b", message=said("2")),
    lambda s: [s.add_message(key, said(key)) for key in ("z", "m", "")],
    lambda s: s.set_messages("a", says(*"123")),
    lambda s: s.set_messages("a", says("1", "x", "y")),
    lambda s: s.set_messages("a", says("1")),
    lambda s: s.set_messages("a", says("2")),
    lambda s: s.set_messages("a", []),
    lambda s: s.delete_message("a", 0),
    lambda s: s.delete_message("a", 1),
    lambda s: s.delete_message("a", 2),
    lambda s: s.delete_message("a", 3),
    lambda s: s.delete_message(key="a", idx=-1) if s.get_messages("a") else None,
    lambda s: s.delete_message(key="a", idx=-2) if s.get_messages("a")[1:] else None,
    # Of a list without messages, LlamaIndex's own store fails to take the last one.
    lambda s: s.delete_last_message("a") if s.get_messages("a") or "a" not in s.get_keys() else None,
    lambda s: s.delete_messages("a"),
    lambda s: s.delete_messages("b"),
]


@pytest.mark.parametrize("seed", range(4))
def test_it_does_what_the_simple_store_does(seed: int) -> None:
    """One deed after the other, in orders that are the same on every run; after each both say the same."""
    chance = random.Random(seed)
    for _ in range(12):
        with clew.open("memory:") as store:
            ours, simple = ClewChatStore(store), SimpleChatStore()
            for deed in chance.choices(DEEDS, k=12):
                assert deed(ours) == deed(simple)
                assert ours.get_messages("a") == simple.get_messages("a")
                assert ours.get_keys() == simple.get_keys()


@pytest.mark.parametrize("index", [0, 1, 3, 9, -1, -9])
def test_a_message_is_put_before_another(local: ClewChatStore, index: int) -> None:
    simple = SimpleChatStore()
    for each in (local, simple):
        each.set_messages("a", says(*"123"))
        each.add_message("a", said("x"), idx=index)
    assert local.get_messages("a") == simple.get_messages("a")


def test_an_index_before_the_first_is_an_error_and_changes_nothing(local: ClewChatStore) -> None:
    local.set_messages("a", says(*"12"))
    with pytest.raises(IndexError):
        local.delete_message("a", -3)
    assert texts(local.get_messages("a")) == ["1", "2"]


def test_the_last_of_none_is_none(local: ClewChatStore) -> None:
    local.set_messages("a", [])
    assert local.delete_last_message("a") is None


def test_tasks_do_the_same(chats: ClewChatStore) -> None:
    async def work() -> list[Any]:
        await chats.async_add_message("a", said("1"))
        await chats.aset_messages("a", says(*"1234"))
        found = [texts(await chats.aget_messages("a")), await chats.aget_keys()]
        first, last = await chats.adelete_message("a", 0), await chats.adelete_last_message("a")
        found += [texts([first, last]) if first and last else None, texts(await chats.adelete_messages("a"))]
        return [*found, await chats.aget_messages("a"), await chats.adelete_messages("a")]

    assert run(work()) == [["1", "2", "3", "4"], ["a"], ["1", "4"], ["2", "3"], [], None]


# ── What goes in comes back ───────────────────────────────────────────────────────────────────────

BLOCKS = [
    TextBlock(text="naïve"),
    ImageBlock(image=PIXEL),
    ImageBlock(url="https://example.com/heron.png", detail="low"),
    AudioBlock(audio=b"RIFF0000WAVE", format="wav"),
    DocumentBlock(data=b"%PDF-1.4", title="field guide"),
    CachePoint(cache_control=CacheControl(type="ephemeral")),
    CitableBlock(title="t", source="s", content=[TextBlock(text="quoted")]),
    CitationBlock(
        cited_content=TextBlock(text="cited"), source="s", title="t", additional_location_info={"page": 3}
    ),
    ThinkingBlock(content="hm", num_tokens=3, additional_information={"signature": "x"}),
    ToolCallBlock(tool_call_id="1", tool_name="look", tool_kwargs={"deep": {"list": [1, 2.5, None]}}),
    ToolCallBlock(tool_name="look", tool_kwargs='{"half'),
]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_block_comes_back_equal(local: ClewChatStore, number: int) -> None:
    block: Any = BLOCKS[number]
    message = ChatMessage(role="assistant", blocks=[block], additional_kwargs={"n": [1, {"x": None}]})
    local.add_message("a", message)
    (found,) = local.get_messages("a")
    assert found == message
    assert type(found.blocks[0]) is type(block)


@pytest.mark.parametrize("role", list(MessageRole))
def test_every_role_comes_back(local: ClewChatStore, role: MessageRole) -> None:
    local.add_message("a", said("x", role))
    assert local.get_messages("a") == [said("x", role)]


def test_a_file_that_is_gone_does_not_take_the_message_with_it(local: ClewChatStore, tmp_path: Path) -> None:
    picture = tmp_path / "heron.png"
    picture.write_bytes(PIXEL)
    message = ChatMessage(role="user", blocks=[TextBlock(text="look"), ImageBlock(path=picture)])
    local.add_message("a", message)
    assert local.get_messages("a") == [message]
    picture.unlink()
    (found,) = local.get_messages("a")
    assert found.content == "look"
    assert isinstance(found.blocks[1], ImageBlock)
    assert found.blocks[1].path == picture


def test_what_is_not_json_is_refused_and_nothing_is_written(local: ClewChatStore) -> None:
    with pytest.raises(Exception, match="serialize"):
        local.set_messages("a", [*says("1"), said("2", thing=object())])
    assert local.get_keys() == []


# ── What Clew adds ────────────────────────────────────────────────────────────────────────────────


def test_a_message_is_stored_once_however_often_the_history_is_set(chats: ClewChatStore) -> None:
    history: list[ChatMessage] = []
    for number in range(6):
        history.append(said(str(number)))
        chats.set_messages("a", history)
    session = chats.session("a")
    assert [entry.position for entry in session.entries()] == list(range(6))
    assert len(session.tree().branches) == 1


@pytest.mark.parametrize(
    "deed",
    [
        lambda s: s.set_messages("a", says("x")),
        lambda s: s.delete_message("a", 1),
        lambda s: s.delete_last_message("a"),
        lambda s: s.add_message("a", said("x"), idx=0),
    ],
    ids=["set", "delete", "delete last", "insert"],
)
def test_what_was_there_before_a_change_can_be_brought_back(chats: ClewChatStore, deed: Deed) -> None:
    chats.set_messages("a", says(*"123"))
    deed(chats)
    assert texts(chats.get_messages("a")) != ["1", "2", "3"]
    chats.session("a").undo()
    assert texts(chats.get_messages("a")) == ["1", "2", "3"]


def test_a_deleted_key_is_in_the_trash(chats: ClewChatStore, store: clew.Store) -> None:
    chats.set_messages("a", says("1"))
    assert texts(chats.delete_messages("a")) == ["1"]
    assert chats.get_keys() == []
    store.restore_deleted("a")
    assert texts(chats.get_messages("a")) == ["1"]


def test_a_rewound_or_forked_session_is_what_is_read(chats: ClewChatStore) -> None:
    chats.set_messages("a", says(*"123"))
    session = chats.session("a")
    session.fork("b", at=1)
    session.rewind(0)
    assert texts(chats.get_messages("a")) == ["1"]
    assert texts(chats.get_messages("b")) == ["1", "2"]
    assert chats.get_keys() == ["a", "b"]


def test_marks_are_passed_over(local: ClewChatStore) -> None:
    local.set_messages("a", says(*"12"))
    local.session("a").set_summary("two")
    local.set_messages("a", says(*"123"))
    local.session("a").set_summary("three")
    assert texts([taken] if (taken := local.delete_last_message("a")) else []) == ["3"]
    local.delete_message("a", 0)
    assert texts(local.get_messages("a")) == ["2"]


def test_many_keys_do_not_mix(local: ClewChatStore) -> None:
    for number in range(70):
        local.add_message(f"key/{number}", said(str(number)))
    for number in range(70):
        assert texts(local.get_messages(f"key/{number}")) == [str(number)]
    assert len(local.get_keys()) == 70


# ── As a component, and under a memory ────────────────────────────────────────────────────────────


def test_as_a_component_it_names_its_store(tmp_path: Path) -> None:
    with clew.open(tmp_path / "agents.db") as store:
        chats = ClewChatStore(store)
        chats.add_message("a", said("1"))
        written = chats.to_dict()
    assert written == {"location": str(tmp_path / "agents.db"), "class_name": "ClewChatStore"}
    again = ClewChatStore.from_dict(written)
    with again.store:
        assert texts(again.get_messages("a")) == ["1"]


def test_it_needs_a_store() -> None:
    with pytest.raises(clew.InvalidError, match="needs a store"):
        ClewChatStore()


def test_a_memory_buffer_talks_and_the_next_process_goes_on(tmp_path: Path) -> None:
    def engine(store: clew.Store) -> SimpleChatEngine:
        memory = ChatMemoryBuffer.from_defaults(
            chat_store=ClewChatStore(store), chat_store_key="ada", token_limit=1000
        )
        return SimpleChatEngine(llm=MockLLM(), memory=memory, prefix_messages=[])

    with clew.open(tmp_path / "agents.db") as store:
        engine(store).chat("the heron?")
    with clew.open(tmp_path / "agents.db") as store:
        second = engine(store)
        run(second.achat("the owl?"))
        found = ClewChatStore(store).get_messages("ada")
        assert [message.role.value for message in found] == ["user", "assistant", "user", "assistant"]
        assert [message.content for message in found][::2] == ["the heron?", "the owl?"]
        assert second.chat_history == found
        (hit,) = store.search("owl", role="user")
        assert hit.session == "ada"
        second.reset()
        assert ClewChatStore(store).get_messages("ada") == []


def test_the_example_resumes_goes_back_and_forks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    llama_index_agent.main(tmp_path / "agents.db")

    expected = [
        "ada: Where is the heron? (2 messages)",
        "ada: And the owl? (4 messages)",
        "ada: And the robin? (4 messages)",
        "ada-owl: How does it hear so well? (6 messages)",
        "keys: ['ada', 'ada-owl']",
        "found: [('ada-owl', 'user')]",
    ]
    assert expected == capsys.readouterr().out.splitlines()
