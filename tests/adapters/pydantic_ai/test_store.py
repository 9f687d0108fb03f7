"""Conversations of Pydantic AI in a Clew store."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelRequest, ModelResponse, ThinkingPart, ToolCallPart, ToolReturnPart
from pydantic_ai.tools import DeferredToolRequests
from pydantic_ai.usage import RunUsage

import clew
from clew.adapters.pydantic_ai import ClewConversationStore
from clew.testing.adapter import AdapterConformance
from tests.adapters.pydantic_ai.talk import AT, asks, run, says, started, texts, turn


class TestConformance(AdapterConformance):
    def make(self, store: clew.Store) -> ClewConversationStore:
        return ClewConversationStore(store)

    def messages(self) -> list[Any]:
        call = ToolCallPart(tool_name="look_up", args={"bird": "heron"}, tool_call_id="call-1")
        answer = ToolReturnPart(
            tool_name="look_up", content="kingfisher", tool_call_id="call-1", timestamp=AT
        )
        thought = ThinkingPart(content="hm", signature="sealed")
        return [
            asks("where is the grey heron"),
            ModelResponse(parts=[thought, call], timestamp=AT),
            ModelRequest(parts=[answer], timestamp=AT),
            says("naïve 鷺 \u0000"),
        ]

    def numbered(self, number: str) -> list[Any]:
        return [asks(number), says(number)]

    def number_of(self, message: Any) -> str:
        return str(message.parts[0].content)

    async def write(self, adapter: Any, name: str, messages: list[Any]) -> None:
        while True:
            loaded = await adapter.load(name) or Conversation(conversation_id=name)
            loaded.messages.extend(messages)
            try:
                await adapter.save(loaded)
            except ConversationConflict:
                continue  # what the framework tells its users to do: load again, and retry
            return

    async def read(self, adapter: Any, name: str) -> list[Any]:
        loaded = await adapter.load(name)
        return [] if loaded is None else loaded.messages


def test_a_long_story_is_told_as_by_the_store_in_memory(store: clew.Store) -> None:
    """Save, branch, switch back, rewrite, fork, delete: after each step both stores say the same."""

    async def story(adapter: Any) -> list[Any]:
        told: list[Any] = []

        async def tell(id: str) -> None:
            record = await adapter.read_record(id)
            if record is None:
                told.append(None)
                return
            lines = [await adapter.read_history(tip) for tip in [record.head_id, *record.branches]]
            told.append([texts([entry.message for entry in line]) for line in lines])
            told.append((record.scope, record.forked_from, record.usage, record.deferred_tool_requests))
            chain = lines[0]
            assert [entry.parent_id for entry in chain] == [None, *(entry.id for entry in chain[:-1])]

        first = await started(adapter, "talk", "one", "two", scope="ann")
        await tell("talk")
        branched = await adapter.branch("talk", at=2, expected_revision=first.revision)
        await tell("talk")
        branched.messages.extend(turn("two again"))
        branched.usage = RunUsage(requests=3, input_tokens=7, details={"reasoning": 2})
        await adapter.save(branched)
        await tell("talk")
        record = await adapter.read_record("talk")
        back = await adapter.branch(
            "talk", from_entry=record.branches[0], expected_revision=branched.revision
        )
        await tell("talk")
        rewritten = dataclasses.replace(back, messages=[asks("summary"), says("short")])
        rewritten.new_message_index = None
        await adapter.save(rewritten)
        await tell("talk")
        fork = await adapter.fork("talk", at=1, new_conversation_id="try")
        fork.messages.extend(turn("try"))
        await adapter.save(fork)
        await tell("try")
        await adapter.delete("talk")
        await tell("talk")
        await tell("try")
        told.append([each.conversation_id for each in await adapter.list_conversations(scope="ann")])
        told.append(await adapter.load("nobody"))
        return told

    assert run(story(ClewConversationStore(store))) == run(story(InMemoryConversationStore()))


def test_a_refused_write_leaves_nothing(store: clew.Store) -> None:
    adapter = ClewConversationStore(store)
    run(started(adapter))
    before = store.stats()
    entry = ConversationEntry(parent_id=None, message=asks("too late"))
    record = ConversationRecord(conversation_id="talk", head_id=entry.id)

    for expected in (None, "an old revision"):
        with pytest.raises(ConversationConflict):
            run(adapter.write_record(record, new_entries=[entry], expected_revision=expected))

    with pytest.raises(LookupError):
        run(adapter.read_entry(entry.id))
    assert store.stats().entries == before.entries


def test_of_two_writers_that_loaded_the_same_one_is_refused(store: clew.Store) -> None:
    async def race() -> list[Any]:
        adapter = ClewConversationStore(store)
        await started(adapter)
        loaded = [await ClewConversationStore(store).load("talk") for _ in range(4)]
        for number, conversation in enumerate(loaded):
            assert conversation is not None
            conversation.messages.extend(turn(f"writer {number}"))
        saves = [ClewConversationStore(store).save(conversation) for conversation in loaded if conversation]
        return await asyncio.gather(*saves, return_exceptions=True)

    outcomes = run(race())

    assert sum(isinstance(outcome, list) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, ConversationConflict) for outcome in outcomes) == 3
    assert store.get("talk").info.messages == 6


def test_a_head_that_nobody_has_is_a_conflict(store: clew.Store) -> None:
    adapter = ClewConversationStore(store)
    record = ConversationRecord(conversation_id="talk", head_id="released meanwhile")
    orphan = ConversationEntry(parent_id="released meanwhile", message=asks("hello"))

    with pytest.raises(ConversationConflict):
        run(adapter.write_record(record, expected_revision=None))
    moved = dataclasses.replace(record, head_id=orphan.id)
    with pytest.raises(ConversationConflict):
        run(adapter.write_record(moved, new_entries=[orphan], expected_revision=None))

    assert store.find("talk") is None


def test_entries_have_their_own_ids_and_the_last_few_can_be_read(store: clew.Store) -> None:
    async def story() -> None:
        adapter = ClewConversationStore(store)
        conversation = Conversation(conversation_id="talk", messages=[*turn("one"), *turn("two")])
        saved = await adapter.save(conversation)

        assert await adapter.load_entries("talk") == saved
        assert await adapter.load_entries("talk", limit=3) == saved[1:]
        assert await adapter.load_entries("talk", limit=0) == []
        assert await adapter.read_history(saved[2].id, limit=2) == saved[1:3]
        assert await adapter.read_history(None) == []
        assert [await adapter.read_entry(entry.id) for entry in saved] == saved
        # Another object has seen none of them.
        assert await ClewConversationStore(store).read_entry(saved[1].id) == saved[1]
        with pytest.raises(LookupError, match="no such"):
            await adapter.read_entry("no such")
        with pytest.raises(UserError, match="negative"):
            await adapter.load("talk", limit=-1)

    run(story())


def test_a_window_is_saved_behind_the_whole_history(store: clew.Store) -> None:
    async def story() -> list[str]:
        adapter = ClewConversationStore(store)
        await started(adapter)
        window = await adapter.load("talk", limit=1)
        assert window is not None
        assert texts(window.messages) == ["say two"]
        window.messages.append(asks("three"))
        await adapter.save(window)
        loaded = await adapter.load("talk")
        assert loaded is not None
        return texts(loaded.messages)

    assert run(story()) == ["ask one", "say one", "ask two", "say two", "three"]


def test_records_come_newest_first_of_one_scope_or_all(store: clew.Store) -> None:
    async def story() -> None:
        adapter = ClewConversationStore(store)
        for number, scope in enumerate(["ann", "bob", "ann", None]):
            await started(adapter, f"talk-{number}", "one", scope=scope)
        first = await adapter.read_record("talk-0")
        assert first is not None
        newer = dataclasses.replace(first, revision="next", updated_at=first.updated_at + timedelta(hours=1))
        await adapter.write_record(newer, expected_revision=first.revision)

        listed = await adapter.list_conversations()
        assert [record.conversation_id for record in listed] == ["talk-0", "talk-3", "talk-2", "talk-1"]
        assert listed[0] == newer
        ann = await adapter.list_conversations(scope="ann", limit=1)
        assert [record.conversation_id for record in ann] == ["talk-0"]
        assert await adapter.list_conversations(scope="nobody") == []
        assert await adapter.load("talk-1", scope="ann") is None
        moved = dataclasses.replace(newer, revision="last", scope=None)
        await adapter.write_record(moved, expected_revision="next")
        assert [r.conversation_id for r in await adapter.list_conversations(scope="ann")] == ["talk-2"]

    run(story())


def test_deleting_spares_what_a_fork_shares_and_frees_the_id(store: clew.Store) -> None:
    async def story() -> None:
        adapter = ClewConversationStore(store)
        conversation = Conversation(conversation_id="talk", messages=[*turn("one"), *turn("two")])
        saved = await adapter.save(conversation)
        fork = await adapter.fork("talk", at=3, new_conversation_id="try")
        assert store.stats().messages == 4  # nothing was copied
        with pytest.raises(ConversationConflict):
            await adapter.delete_record("talk", expected_revision="old")
        await adapter.delete("talk")
        await adapter.delete("talk")

        assert await adapter.load("talk") is None
        assert await adapter.read_history(saved[2].id) == saved[:3]
        assert await ClewConversationStore(store).read_entry(saved[0].id) == saved[0]
        with pytest.raises(ConversationConflict):
            await adapter.save(conversation)
        await started(adapter, "talk", "anew")
        again = await adapter.load("talk")
        assert again is not None
        assert texts(again.messages) == ["ask anew", "say anew"]
        await adapter.delete("try")
        with pytest.raises(LookupError):
            await adapter.read_entry(saved[0].id)
        with pytest.raises(ConversationConflict):
            await adapter.save(fork)

    run(story())


def test_a_record_may_point_into_any_conversation(store: clew.Store) -> None:
    """Also into one of which it is no fork, and whose tree it does not share."""

    async def story() -> None:
        adapter = ClewConversationStore(store)
        saved = await adapter.save(Conversation(conversation_id="talk", messages=turn("one")))
        fresh = ClewConversationStore(store)
        pointer = ConversationRecord(conversation_id="pointer", head_id=saved[0].id)
        await fresh.write_record(pointer, expected_revision=None)
        assert await fresh.load_entries("pointer") == saved[:1]

        await started(adapter, "other")
        other = await adapter.read_record("other")
        assert other is not None
        moved = dataclasses.replace(other, head_id=saved[1].id, revision="moved")
        await adapter.write_record(moved, expected_revision=other.revision)
        assert await adapter.load_entries("other") == saved
        await adapter.delete("talk")
        await adapter.delete("pointer")
        assert await adapter.load_entries("other") == saved

    run(story())


def test_an_entry_that_is_written_again_is_one_entry(store: clew.Store) -> None:
    async def story() -> None:
        adapter = ClewConversationStore(store)
        entries = [ConversationEntry(id="e/1", parent_id=None, message=asks("one"))]
        entries.append(ConversationEntry(id="é" * 400, parent_id="e/1", message=says("two")))
        record = ConversationRecord(conversation_id="talk", head_id=entries[1].id, revision="1")
        await adapter.write_record(record, new_entries=entries, expected_revision=None)
        again = dataclasses.replace(record, revision="2")
        await adapter.write_record(again, new_entries=entries, expected_revision="1")
        assert await adapter.load_entries("talk") == entries

    run(story())
    assert store.stats().messages == 2


def test_what_was_deferred_and_what_it_cost_comes_back(store: clew.Store) -> None:
    call = ToolCallPart(tool_name="pay", args='{"sum": 3}', tool_call_id="call-1")
    deferred = DeferredToolRequests(approvals=[call], metadata={"call-1": {"why": "money"}})
    usage = RunUsage(requests=1, tool_calls=2, input_tokens=9, details={"cached": 1}, cost=Decimal("0.25"))

    async def story() -> Conversation | None:
        conversation = Conversation(
            conversation_id="talk", messages=turn("one"), usage=usage, deferred_tool_requests=deferred
        )
        await ClewConversationStore(store).save(conversation)
        return await ClewConversationStore(store).load("talk")

    loaded = run(story())

    assert loaded.usage == usage
    assert loaded.deferred_tool_requests == deferred
