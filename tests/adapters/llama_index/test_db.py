"""The queue of LlamaIndex's `Memory` in a Clew store, beside the one that LlamaIndex ships."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

import clew
from clew.adapters.llama_index import ClewDBChatStore
from clew.testing.adapter import run

ACTIVE, ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED


def says(*texts: str) -> list[ChatMessage]:
    return [ChatMessage(role=MessageRole.USER, content=text) for text in texts]


def texts(messages: list[ChatMessage]) -> list[str | None]:
    return [message.content for message in messages]


@pytest.fixture
def chats(store: clew.Store) -> ClewDBChatStore:
    return ClewDBChatStore(store)


@pytest.fixture
def local() -> Iterator[ClewDBChatStore]:
    """On one kind of store, for what does not depend on it."""
    with clew.open("memory:") as store:
        yield ClewDBChatStore(store)


Deed = Callable[[AsyncDBChatStore], Awaitable[Any]]

SIX: Deed = lambda s: s.add_messages("a", says(*"123456"))  # noqa: E731
DEEDS: dict[str, list[Deed]] = {
    "unknown": [
        lambda s: s.delete_oldest_messages("a", 2),
        lambda s: s.archive_oldest_messages("a", 2),
        lambda s: s.delete_messages("a"),
        lambda s: s.delete_messages("a", ACTIVE),
        lambda s: s.set_messages("a", []),
    ],
    "add": [lambda s: s.add_message("a", says("1")[0]), lambda s: s.add_messages("a", says("2", "3"))],
    "archive": [
        SIX,
        lambda s: s.archive_oldest_messages("a", 2),
        lambda s: s.archive_oldest_messages("a", 3),
    ],
    "archive all": [SIX, lambda s: s.archive_oldest_messages("a", 9)],
    "archive none": [SIX, lambda s: s.archive_oldest_messages("a", 0)],
    "archive and add": [
        SIX,
        lambda s: s.archive_oldest_messages("a", 4),
        lambda s: s.add_messages("a", says(*"78")),
    ],
    "delete oldest": [
        SIX,
        lambda s: s.archive_oldest_messages("a", 2),
        lambda s: s.delete_oldest_messages("a", 2),
        lambda s: s.archive_oldest_messages("a", 1),
    ],
    "delete active": [
        SIX,
        lambda s: s.archive_oldest_messages("a", 2),
        lambda s: s.delete_messages("a", ACTIVE),
    ],
    "delete archived": [
        SIX,
        lambda s: s.archive_oldest_messages("a", 2),
        lambda s: s.delete_messages("a", ARCHIVED),
    ],
    "delete all": [SIX, lambda s: s.archive_oldest_messages("a", 2), lambda s: s.delete_messages("a")],
    "set": [SIX, lambda s: s.set_messages("a", says(*"12x"))],
    "set after archive": [
        SIX,
        lambda s: s.archive_oldest_messages("a", 2),
        lambda s: s.set_messages("a", says(*"1234")),
    ],
    "set archived": [SIX, lambda s: s.set_messages("a", says(*"12"), ARCHIVED)],
    "added as archived": [
        lambda s: s.add_messages("a", says(*"12"), ARCHIVED),
        lambda s: s.add_messages("a", says(*"34")),
    ],
}


async def seen(chats: AsyncDBChatStore) -> list[Any]:
    found: list[Any] = [await chats.get_keys()]
    for status in (ACTIVE, ARCHIVED, None):
        messages = await chats.get_messages("a", status)
        assert await chats.count_messages("a", status) == len(messages)
        found.append(messages)
        found.append(await chats.get_messages("a", status, limit=2, offset=1))
    return found


@pytest.mark.parametrize("name", DEEDS)
def test_it_does_what_the_sql_store_does(local: ClewDBChatStore, name: str) -> None:
    async def compare() -> None:
        sql = SQLAlchemyChatStore(table_name="messages")
        for deed in DEEDS[name]:
            assert await deed(local) == await deed(sql)
            assert await seen(local) == await seen(sql)
        assert sql._async_engine is not None
        await sql._async_engine.dispose()

    run(compare())


def test_archived_ones_are_put_before_those_that_are_active(local: ClewDBChatStore) -> None:
    run(local.add_messages("a", says(*"34")))
    run(local.add_message("a", says("1")[0], ARCHIVED))
    run(local.add_message("a", says("2")[0], ARCHIVED))
    assert texts(run(local.get_messages("a", None))) == ["1", "2", "3", "4"]
    assert texts(run(local.get_messages("a"))) == ["3", "4"]


@pytest.mark.parametrize(
    ("index", "archived", "active"),
    [(0, "2", "34"), (1, "1", "34"), (2, "12", "4"), (-1, "12", "3"), (4, "12", "34"), (-9, "12", "34")],
)
def test_a_message_is_taken_by_its_index(
    local: ClewDBChatStore, index: int, archived: str, active: str
) -> None:
    run(local.add_messages("a", says(*"1234")))
    run(local.archive_oldest_messages("a", 2))
    taken = run(local.delete_message("a", index))
    assert (taken is None) is (len(archived + active) == 4)
    assert texts(run(local.get_messages("a", ARCHIVED))) == list(archived)
    assert texts(run(local.get_messages("a"))) == list(active)
    assert taken is None or texts([taken]) == [("1234" * 3)[index % 4]]


def test_the_archive_goes_back_with_the_conversation(chats: ClewDBChatStore) -> None:
    run(chats.add_messages("a", says(*"1234")))
    run(chats.archive_oldest_messages("a", 3))
    assert texts(run(chats.get_messages("a"))) == ["4"]
    chats.session("a").rewind(1)
    run(chats.add_messages("a", says("x")))
    assert texts(run(chats.get_messages("a"))) == ["1", "2", "x"]
    chats.session("a").undo()
    assert texts(run(chats.get_messages("a"))) == ["4"]
    assert texts(run(chats.get_messages("a", ARCHIVED))) == ["1", "2", "3"]


def test_what_is_deleted_can_be_brought_back(chats: ClewDBChatStore) -> None:
    run(chats.add_messages("a", says(*"1234")))
    assert texts(run(chats.delete_oldest_messages("a", 2))) == ["1", "2"]
    assert texts(run(chats.get_messages("a"))) == ["3", "4"]
    chats.session("a").undo()
    assert texts(run(chats.get_messages("a"))) == ["1", "2", "3", "4"]


def test_a_memory_flushes_and_the_next_process_goes_on(tmp_path: Path) -> None:
    def memory(store: clew.Store) -> Memory:
        return Memory.from_defaults(
            session_id="ada",
            chat_store=ClewDBChatStore(store),
            token_limit=60,
            chat_history_token_ratio=0.5,
            token_flush_size=10,
            tokenizer_fn=str.split,
        )

    async def talk(store: clew.Store, first: int, last: int) -> list[str | None]:
        keeper = memory(store)
        for number in range(first, last):
            await keeper.aput(ChatMessage(role="user", content=f"question {number} about herons"))
            await keeper.aput(ChatMessage(role="assistant", content=f"answer {number} about herons"))
        return texts(await keeper.aget())

    with clew.open(tmp_path / "agents.db") as store:
        run(talk(store, 0, 6))
    with clew.open(tmp_path / "agents.db") as store:
        given = run(talk(store, 6, 8))
        kept = store.get("ada").messages()
        assert len(kept) == 16
        assert given[-1] == "answer 7 about herons"
        assert 0 < len(given) < 16
        archived = run(ClewDBChatStore(store).count_messages("ada", ARCHIVED))
        assert archived == 16 - len(given)
        assert len(store.search("herons", role="user", limit=50)) == 8


def test_as_a_component_it_names_its_store(tmp_path: Path) -> None:
    with clew.open(tmp_path / "agents.db") as store:
        written = ClewDBChatStore(store).model_dump()
        assert written == {"location": str(tmp_path / "agents.db")}
    again = ClewDBChatStore.model_validate(written)
    again.store.close()
    with pytest.raises(clew.InvalidError, match="needs a store"):
        ClewDBChatStore()
