"""Agents and workflows of the Agent Framework, with a scripted model, on a Clew store."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Never

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    Content,
    Executor,
    FunctionInvocationLayer,
    Message,
    UsageDetails,
    WorkflowBuilder,
    WorkflowContext,
    handler,
    response_handler,
    tool,
)

import clew
from clew.adapters.agent_framework import ClewCheckpointStorage, ClewHistoryProvider

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # session stores are experimental, says the framework
    from clew.adapters.agent_framework import ClewAgentSessionStore


class Scripted(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Counts the letters of the last word by a tool, then says how many it heard of."""

    used: ClassVar[dict[str, int]] = {
        "input_token_count": 10,
        "output_token_count": 2,
        "cache_read_input_token_count": 4,
    }

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse]:
        return self._answer(list(messages))

    async def _answer(self, messages: list[Message]) -> ChatResponse:
        last = messages[-1]
        if last.role == "tool":
            said: Any = f"{last.contents[0].result} letters, {len(messages)} messages"
        else:
            word = last.text.split()[-1]
            said = Content.from_function_call(call_id=f"call-{word}", name="count", arguments={"word": word})
        used = UsageDetails(**self.used)  # type: ignore[typeddict-item]
        return ChatResponse(
            messages=[Message("assistant", [said])], response_id=f"r{len(messages)}", usage_details=used
        )


@tool(approval_mode="never_require")
def count(word: str) -> int:
    """How many letters a word has."""
    return len(word)


def agent_on(*providers: Any) -> Agent[Any]:
    return Agent(Scripted(), name="counter", tools=[count], context_providers=list(providers))


def test_an_agent_goes_on_in_another_process(tmp_path: Path) -> None:
    async def say(text: str) -> str:
        with clew.open(tmp_path / "agents.db") as store:
            agent = agent_on(ClewHistoryProvider(store))
            answer = await agent.run(text, session=AgentSession(session_id="talk"))
            return str(answer.text)

    assert asyncio.run(say("count heron")) == "5 letters, 3 messages"
    assert asyncio.run(say("count stork")) == "5 letters, 7 messages"
    with clew.open(tmp_path / "agents.db") as store:
        session = store.get("talk")
        assert session.info.messages == 8
        assert session.info.title == "count heron"
        assert [hit.position for hit in store.search("stork", role="user")] == [4]
        assert store.search("heron", tools=True).hits
        session.rewind(3)
    assert asyncio.run(say("count coot")) == "4 letters, 7 messages"


@pytest.mark.parametrize(
    ("told", "cached"),
    [
        ({"input_token_count": 30, "cache_read_input_token_count": 60}, (60, 0)),
        ({"input_token_count": 80, "anthropic.cache_creation_input_tokens": 10}, (0, 10)),
        (
            {
                "input_token_count": 70,
                "anthropic.cache_read_input_tokens": 20,
                "cache_read_input_token_count": 20,
            },
            (20, 0),
        ),
    ],
)
def test_an_input_that_leaves_its_cache_out_is_made_whole(
    monkeypatch: pytest.MonkeyPatch, told: dict[str, int], cached: tuple[int, int]
) -> None:
    """Clients of Anthropic and Bedrock tell the prompt without it."""

    async def story(store: clew.Store) -> None:
        agent = agent_on(ClewHistoryProvider(store))
        await agent.run("count heron", session=AgentSession(session_id="talk"))

    monkeypatch.setattr(Scripted, "used", told)
    with clew.open("memory:") as store:
        asyncio.run(story(store))
        totals = store.usage()
    assert totals.input_tokens == 2 * 90
    assert (totals.cache_read_tokens, totals.cache_write_tokens) == tuple(2 * count for count in cached)


def test_what_a_run_used_is_counted_once(tmp_path: Path) -> None:
    async def story(store: clew.Store) -> None:
        audit = ClewHistoryProvider(store, source_id="audit", load_messages=False)
        agent = agent_on(ClewHistoryProvider(store), audit)
        await agent.run("count heron", session=AgentSession(session_id="talk"))
        await agent.run("count ibis", session=AgentSession(session_id="talk"))

    with clew.open(tmp_path / "agents.db") as store:
        asyncio.run(story(store))
        totals = store.usage()
        assert (totals.calls, totals.input_tokens, totals.output_tokens) == (2, 40, 8)
        assert totals.cache_read_tokens == 16
        assert store.get("talk/audit").info.messages == 8


def test_a_session_with_its_history_goes_on_in_another_process(tmp_path: Path) -> None:
    async def say(text: str) -> str:
        with clew.open(tmp_path / "agents.db") as store:
            sessions = ClewAgentSessionStore(store)
            session = await sessions.get("talk") or AgentSession(session_id="talk")
            answer = await agent_on().run(text, session=session)
            await sessions.set("talk", session)
            return str(answer.text)

    assert asyncio.run(say("count heron")) == "5 letters, 3 messages"
    assert asyncio.run(say("count ibis")) == "4 letters, 7 messages"
    with clew.open(tmp_path / "agents.db") as store:
        assert store.stats().messages == 8


class Ask(Executor):
    """Sums numbers up, and asks a human before it says the sum."""

    def __init__(self) -> None:
        super().__init__(id="ask")
        self.total = 0

    @handler
    async def add(self, numbers: list[int], ctx: WorkflowContext[Never, str]) -> None:
        self.total += sum(numbers)
        await ctx.request_info(request_data=f"is {self.total} right?", response_type=bool)

    @response_handler
    async def answered(self, asked: str, right: bool, ctx: WorkflowContext[Never, str]) -> None:
        await ctx.yield_output(f"{asked} {right}")

    async def on_checkpoint_save(self) -> dict[str, Any]:
        return {"total": self.total}

    async def on_checkpoint_restore(self, state: dict[str, Any]) -> None:
        self.total = state["total"]


class Split(Executor):
    @handler
    async def split(self, text: str, ctx: WorkflowContext[list[int]]) -> None:
        await ctx.send_message([int(part) for part in text.split()])


def test_a_workflow_waits_for_an_answer_in_another_process(tmp_path: Path) -> None:
    def flow(store: clew.Store) -> tuple[Any, ClewCheckpointStorage]:
        storage = ClewCheckpointStorage(store, session_id="ann")
        first, last = Split(id="split"), Ask()
        builder = WorkflowBuilder(name="sums", start_executor=first, checkpoint_storage=storage)
        return builder.add_edge(first, last).build(), storage

    async def start() -> None:
        with clew.open(tmp_path / "agents.db") as store:
            workflow, storage = flow(store)
            result = await workflow.run("1 2 3")
            assert len(result.get_request_info_events()) == 1
            assert len(await storage.list_checkpoint_ids(workflow_name="sums")) >= 2

    async def finish() -> list[Any]:
        with clew.open(tmp_path / "agents.db") as store:
            workflow, storage = flow(store)
            latest = await storage.get_latest(workflow_name="sums")
            assert latest is not None
            (pending,) = latest.pending_request_info_events
            result = await workflow.run(checkpoint_id=latest.checkpoint_id, responses={pending: True})
            return list(result.get_outputs())

    asyncio.run(start())
    assert asyncio.run(finish()) == ["is 6 right? True"]


def test_a_workflow_of_agents_is_kept_without_pickle(tmp_path: Path) -> None:
    async def story() -> None:
        with clew.open(tmp_path / "agents.db") as store:
            storage = ClewCheckpointStorage(store)
            agent = agent_on()
            flow = WorkflowBuilder(name="agents", start_executor=agent, checkpoint_storage=storage).build()
            await flow.run("count heron")
            latest = await storage.get_latest(workflow_name="agents")
            assert latest is not None
            again = WorkflowBuilder(
                name="agents", start_executor=agent_on(), checkpoint_storage=storage
            ).build()
            await again.run(checkpoint_id=latest.checkpoint_id)
            kept = store.get("workflow-checkpoints").documents("checkpoint/")
            assert kept
            assert not any(b"pickle" in content for _, content in kept)

    asyncio.run(story())


def test_the_example_tells_its_story(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from examples import agent_framework_agent

    agent_framework_agent.main(tmp_path / "agents.db")

    assert capsys.readouterr().out.splitlines() == [
        "day one: I counted 5.",
        "day two: I counted 10, after 7 messages.",
        "rewound: I counted 4, after 7 messages.",
        "found: and the coot",
        "undone: the session has 8 messages again",
    ]
