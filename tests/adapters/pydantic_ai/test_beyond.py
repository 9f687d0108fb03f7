"""What Clew adds to conversations of Pydantic AI, and what it does with those of others."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import (
    BinaryImage,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

import clew
from clew.adapters.pydantic_ai import ClewConversationStore
from tests.adapters.pydantic_ai.talk import AT, asks, run, says, started, texts, turn


def test_each_response_is_counted_once(local: clew.Store) -> None:
    used = RequestUsage(
        input_tokens=100,
        output_tokens=20,
        cache_read_tokens=60,
        output_reasoning_tokens=7,
        cost=Decimal("0.5"),
    )

    async def story() -> None:
        adapter = ClewConversationStore(local)
        talk = Conversation(conversation_id="talk", messages=[asks("one"), says("two", used)])
        await adapter.save(talk)
        talk.messages.extend(turn("three"))
        await adapter.save(talk)
        await adapter.fork("talk", new_conversation_id="try")

    run(story())
    totals = local.usage()

    assert (totals.calls, totals.input_tokens, totals.output_tokens) == (2, 105, 23)
    assert (totals.cache_read_tokens, totals.reasoning_tokens, totals.cost) == (60, 7, Decimal("0.5"))
    (first, _) = local.get("talk").usage_records()
    assert first.entry == list(local.get("talk").entries())[1].id
    assert local.get("talk").info.model == "scripted"


def test_a_rewind_by_clew_is_a_branch_for_the_framework(local: clew.Store) -> None:
    async def story() -> None:
        adapter = ClewConversationStore(local)
        await started(adapter)
        stale = await adapter.load("talk")
        assert stale is not None
        session = adapter.session("talk")
        session.rewind(1)

        loaded = await adapter.load("talk")
        assert loaded is not None
        assert texts(loaded.messages) == ["ask one", "say one"]
        with pytest.raises(ConversationConflict):
            await adapter.save(stale)
        loaded.messages.extend(turn("other"))
        await adapter.save(loaded)
        record = await adapter.read_record("talk")
        assert record is not None
        (left,) = record.branches
        assert texts([e.message for e in await adapter.read_history(left)])[-1] == "say two"

        session.undo()
        undone = await adapter.load("talk")
        assert undone is not None
        assert texts(undone.messages)[-1] == "say two"
        session.clear()
        empty = await adapter.load("talk")
        assert empty is not None
        assert empty.messages == []

    run(story())


def test_a_fork_by_clew_is_a_conversation(local: clew.Store) -> None:
    async def story() -> None:
        adapter = ClewConversationStore(local)
        await started(adapter, scope="ann")
        adapter.session("talk").fork("try", at=2)

        loaded = await adapter.load("try", scope="ann")
        assert loaded is not None
        assert texts(loaded.messages)[-1] == "ask two"
        loaded.messages.append(says("otherwise"))
        await adapter.save(loaded)
        record = await adapter.read_record("try")
        assert record is not None
        assert (record.forked_from, record.scope) == ("talk", "ann")
        assert local.get("talk").info.messages == 4

    run(story())
    assert local.stats().messages == 5


def test_marks_of_clew_do_not_show_in_the_history(local: clew.Store) -> None:
    async def story() -> list[str]:
        adapter = ClewConversationStore(local)
        talk = await started(adapter)
        adapter.session("talk").set_summary("two turns")
        talk.messages.extend(turn("three"))
        await adapter.save(talk)
        whole = await adapter.load_entries("talk")
        assert whole is not None
        assert await adapter.load_entries("talk", limit=3) == whole[3:]
        loaded = await adapter.load("talk")
        assert loaded is not None
        return texts(loaded.messages)

    assert run(story())[-3:] == ["say two", "ask three", "say three"]
    assert local.get("talk").summary == "two turns"


def test_a_copied_session_is_a_conversation_in_the_other_store(local: clew.Store) -> None:
    run(started(ClewConversationStore(local)))
    with clew.open("memory:") as other:
        clew.copy(local, other, sessions=["talk"])
        loaded = run(ClewConversationStore(other).load("talk"))

    assert texts(loaded.messages) == ["ask one", "say one", "ask two", "say two"]


def test_a_write_under_the_lease_of_a_run(local: clew.Store) -> None:
    async def story() -> None:
        tasks = clew.AsyncStore.over(local)
        talk = await started(ClewConversationStore(tasks))
        session = await tasks.get("talk")
        async with session.run("work") as work:
            talk.messages.extend(turn("three"))
            with pytest.raises(clew.LeaseHeldError):
                await ClewConversationStore(tasks).save(talk)
            await ClewConversationStore(tasks, run=work).save(talk)

    run(story())
    assert [entry.epoch for entry in local.get("talk").entries()] == [0, 0, 0, 0, 1, 1]


def test_a_fork_may_go_into_a_session_that_was_made_before(local: clew.Store) -> None:
    adapter = ClewConversationStore(local)
    run(started(adapter))
    local.create("other", title="Birds")

    forked = run(adapter.fork("talk", new_conversation_id="other"))

    assert forked.messages == run(adapter.load("talk")).messages
    assert local.get("other").info.title == "Birds"


def test_what_is_no_message_of_the_framework_is_named(local: clew.Store) -> None:
    adapter = ClewConversationStore(local)
    run(started(adapter))
    (odd,) = local.get("talk").append({"role": "user", "content": "by hand"})

    with pytest.raises(clew.InvalidError, match=odd.id):
        run(adapter.load("talk"))
    local.get("talk").rewind(3)
    assert len(run(adapter.load("talk")).messages) == 4


def test_only_a_store_will_do() -> None:
    with pytest.raises(clew.InvalidError, match="needs a store"):
        ClewConversationStore("agents.db")  # type: ignore[arg-type]


def test_pictures_system_prompts_and_thoughts_come_back_and_are_shown(local: clew.Store) -> None:
    picture = BinaryImage(data=b"\x89PNG", media_type="image/png")
    prompt = UserPromptPart(content=["look at this", picture], timestamp=AT)
    messages: list[ModelMessage] = [
        ModelRequest(parts=[SystemPromptPart(content="be brief", timestamp=AT), prompt], timestamp=AT),
        ModelResponse(parts=[ThinkingPart(content="a bird"), TextPart(content="a heron")], timestamp=AT),
    ]
    adapter = ClewConversationStore(local)
    run(adapter.save(Conversation(conversation_id="talk", messages=messages)))

    assert run(adapter.load("talk")).messages == messages
    assert local.get("talk").info.title == "look at this"
    text = local.export("talk", "markdown")
    for part in ("look at this", "be brief", "a bird", "a heron", "image/png"):
        assert part in text
