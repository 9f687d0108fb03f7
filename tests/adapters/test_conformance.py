"""The conformance class holds for the plainest adapter there is, and notices what a bad one does."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import clew
from clew.adapters.common import faces, find_own, open_own, session_id
from clew.testing.adapter import AdapterConformance

Message = dict[str, Any]


class Plain:
    """Messages are what they are."""

    def __init__(self, store: clew.Store) -> None:
        self._tasks = faces(store)[1]

    async def write(self, name: str, messages: list[Message]) -> None:
        def work(tx: clew.Store) -> None:
            open_own(tx, name, {"framework": "plain"}).append(*messages)

        await self._tasks.transact(work)

    async def read(self, name: str) -> list[Message]:
        def work(store: clew.Store) -> list[Message]:
            session = find_own(store, name, "plain")
            return [] if session is None else session.messages()

        return await self._tasks.read(work)


class Torn(Plain):
    """One message of a batch, and the others when it may go on: whoever cancels it gets half of a batch."""

    def __init__(self, store: clew.Store) -> None:
        super().__init__(store)
        self._store = store

    async def write(self, name: str, messages: list[Message]) -> None:
        session = self._store.session(name, metadata={"framework": "plain"})
        session.append(messages[0])  # without an await: it is there before anybody can cancel
        if messages[0]["content"].startswith("turn"):
            await asyncio.Event().wait()
        session.append(*messages[1:])


class Forgetful(Plain):
    """Only the last batch stays."""

    async def write(self, name: str, messages: list[Message]) -> None:
        session = await self._tasks.session(name, metadata={"framework": "plain"})
        await session.replace(messages)


class TestPlain(AdapterConformance):
    def make(self, store: clew.Store) -> Plain:
        return Plain(store)

    def messages(self) -> list[Message]:
        call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
        return [
            {"role": "user", "content": "Is that a grey heron?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "kingfisher"},
            {"role": "assistant", "content": "naïve 鷺 \0"},
        ]

    def numbered(self, number: str) -> list[Message]:
        return [{"role": "user", "content": number}, {"role": "assistant", "content": number}]

    def number_of(self, message: Message) -> str:
        content: str = message["content"]
        return content

    async def write(self, adapter: Plain, name: str, messages: list[Message]) -> None:
        await adapter.write(name, messages)

    async def read(self, adapter: Plain, name: str) -> list[Message]:
        return await adapter.read(name)


def test_half_a_batch_is_noticed() -> None:
    class TestTorn(TestPlain):
        def make(self, store: clew.Store) -> Plain:
            return Torn(store)

    with clew.open("memory:") as store, pytest.raises(AssertionError):
        TestTorn().test_a_cancelled_write_leaves_whole_batches(store)


def test_a_lost_batch_is_noticed() -> None:
    class TestForgetful(TestPlain):
        def make(self, store: clew.Store) -> Plain:
            return Forgetful(store)

    with clew.open("memory:") as store, pytest.raises(AssertionError):
        TestForgetful().test_a_new_adapter_on_the_same_store_goes_on(store)


def test_ids_of_keys_never_meet() -> None:
    keys = [("a/b", "c"), ("a", "b/c"), ("a", "b", "c"), ("a%2Fb", "c"), ("", "a"), ("a", ""), ("a",), ("",)]
    keys += [("a" * 600, "b"), ("a" * 600 + "/b",), ("a\0b",), ("a%00b",), ("\ud800",), ("x", "\ud800")]

    ids = [session_id(*key) for key in keys]
    hashes = [session_id(id) for id in ids if id.startswith("~")]

    assert len({*ids, *hashes}) == len(ids) + len(hashes)
    with clew.open("memory:") as store:
        assert {store.session(id).id for id in ids} == set(ids)


def test_many_adapters_on_a_store_share_its_threads() -> None:
    """There is one for each conversation, in some frameworks."""
    with clew.open("memory:") as store:
        adapters = [Plain(store) for _ in range(50)]
        before = threading.active_count()

        async def use_all() -> None:
            await asyncio.gather(*(one.write("talk", [{"role": "user", "content": "x"}]) for one in adapters))
            await asyncio.gather(*(one.read("talk") for one in adapters))

        asyncio.run(use_all())

        assert threading.active_count() <= before + 5
        assert len(store.get("talk").messages()) == 50


def test_what_is_no_store_is_refused_by_name() -> None:
    with pytest.raises(clew.InvalidError, match=r"clew\.open"):
        faces("agents.db")  # type: ignore[arg-type]
