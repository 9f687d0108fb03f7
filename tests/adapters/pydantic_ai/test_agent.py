"""An agent of Pydantic AI, with a scripted model, whose conversations are in a Clew store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import clew
from clew.adapters.pydantic_ai import ClewConversationStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


@pytest.fixture
def store(path: Path) -> Iterator[clew.Store]:
    with clew.open(path) as store:
        yield store


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that calls the tool that the user names, and then says what it got."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart) and last.outcome != "retried":
        return ModelResponse(parts=[TextPart(content=f"it is {last.content}")])
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[ToolCallPart(tool_name="count", args={"text": "four"})])
    words = str(getattr(last, "content", "")).split()
    if words and words[0] in ("count", "pay"):
        args = {"text": words[-1]} if words[0] == "count" else {"sum": int(words[-1])}
        return ModelResponse(parts=[ToolCallPart(tool_name=words[0], args=args)])
    return ModelResponse(parts=[TextPart(content=f"heard {len(messages)}")])


def scripted() -> Agent[None, Any]:
    agent: Agent[None, Any] = Agent(FunctionModel(answer), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(retries=2)
    def count(text: str) -> int:
        if text == "oops":
            raise ModelRetry("say it otherwise")
        return len(text)

    @agent.tool_plain(requires_approval=True)
    def pay(sum: int) -> str:
        return f"paid {sum}"

    return agent


async def say(store: Any, id: str, text: str, **options: Any) -> Any:
    conversation = await store.load(id) or Conversation(conversation_id=id)
    result = await scripted().run(text, conversation=conversation, **options)
    await store.save(result)
    return result.output


def test_tools_are_called_and_the_next_process_goes_on(path: Path) -> None:
    with clew.open(path) as first:
        assert asyncio.run(say(ClewConversationStore(first), "talk", "count heron")) == "it is 5"
        assert asyncio.run(say(ClewConversationStore(first), "talk", "count oops")) == "it is 4"
    with clew.open(path) as second:
        assert asyncio.run(say(ClewConversationStore(second), "talk", "hello")) == "heard 11"
        session = second.get("talk")
        assert session.info.messages == 12
        assert session.usage().calls == 6
        # Each message was stored once, however often the history went to the model.
        assert second.stats().messages == 12


def test_a_call_waits_for_approval_in_another_process(path: Path) -> None:
    async def ask(store: clew.Store) -> None:
        output = await say(ClewConversationStore(store), "shop", "pay 12")
        assert isinstance(output, DeferredToolRequests)

    async def approve(store: clew.Store) -> str:
        conversations = ClewConversationStore(store)
        loaded = await conversations.load("shop")
        assert loaded is not None
        assert loaded.deferred_tool_requests is not None
        (call,) = loaded.deferred_tool_requests.approvals
        results = loaded.deferred_tool_requests.build_results(approvals={call.tool_call_id: True})
        result = await scripted().run(conversation=loaded, deferred_tool_results=results)
        await conversations.save(result)
        again = await conversations.load("shop")
        assert again is not None
        assert again.deferred_tool_requests is None
        return str(result.output)

    with clew.open(path) as store:
        asyncio.run(ask(store))
    with clew.open(path) as store:
        assert asyncio.run(approve(store)) == "it is paid 12"


def test_a_turn_is_done_again_on_a_branch_and_tried_in_a_fork(store: clew.Store) -> None:
    async def story() -> None:
        conversations = ClewConversationStore(store)
        await say(conversations, "talk", "count heron")
        await say(conversations, "talk", "count ibis")
        loaded = await conversations.load("talk")
        assert loaded is not None
        branched = await conversations.branch("talk", at=4, expected_revision=loaded.revision)
        result = await scripted().run("count egret", conversation=branched)
        await conversations.save(result)
        forked = await conversations.fork("talk", at=4, new_conversation_id="try")
        tried = await scripted().run("count stork", conversation=forked)
        await conversations.save(tried)

        assert (result.output, tried.output) == ("it is 5", "it is 5")
        with pytest.raises(ConversationConflict):
            await conversations.save(loaded)

    asyncio.run(story())
    # 4 shared, then 4 for each of the three that went on from there.
    assert store.stats().messages == 16
    assert store.get("try").info.forked_from is not None
    assert [hit.on_path for hit in store.search("ibis", role="user")] == [False]
    assert {hit.session for hit in store.search("heron", role="user")} <= {"talk", "try"}


class Together(ClewConversationStore):
    """The first two that load a conversation have both loaded it before one of them goes on."""

    def __init__(self, store: clew.Store) -> None:
        super().__init__(store)
        self._loaded = 0
        self._by_both = asyncio.Event()

    async def load(self, *args: Any, **options: Any) -> Conversation | None:
        found = await super().load(*args, **options)
        self._loaded += 1
        if self._loaded == 2:
            self._by_both.set()
        await self._by_both.wait()
        return found


def test_a_stream_of_two_agents_at_once_loses_nothing(store: clew.Store) -> None:
    async def story() -> int:
        conversations = Together(store)
        retries = 0

        async def agent(name: str) -> None:
            nonlocal retries
            for number in range(4):
                while True:
                    try:
                        await say(conversations, "talk", f"hello {name} {number}")
                    except ConversationConflict:
                        retries += 1
                        continue
                    break

        await asyncio.gather(agent("a"), agent("b"))
        return retries

    assert asyncio.run(story()) > 0
    assert store.get("talk").info.messages == 16
    assert len({hit.entry_id for hit in store.search("hello", role="user")}) == 8


def test_files_go_back_with_the_conversation(store: clew.Store, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("first")
    conversations = ClewConversationStore(store)
    asyncio.run(say(conversations, "talk", "hello"))
    conversations.session("talk").checkpoint("before", files=work)
    (work / "notes.txt").write_text("second")
    asyncio.run(say(conversations, "talk", "hello again"))

    conversations.session("talk").rewind("before", files=True)

    assert (work / "notes.txt").read_text() == "first"
    assert asyncio.run(say(conversations, "talk", "hello")) == "heard 3"


def test_the_example_tells_its_story(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from examples import pydantic_ai_agent

    pydantic_ai_agent.main(path)

    assert capsys.readouterr().out.splitlines() == [
        "day one: I counted 5.",
        "         I counted 5.",
        "day two: I counted 10.",
        "rewound: 4 messages, of 16 in the store",
        "found: rather the coot in pond",
        "calls: 8",
    ]
