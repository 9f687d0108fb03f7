"""`OpenAIConversationsSession` of the Agents SDK on a server of ours, beside the adapter's own session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import openai
import pytest
from agents import Agent, MaxTurnsExceeded, RunConfig, Runner, Session, SessionSettings, function_tool
from agents.memory import OpenAIConversationsSession
from agents.testing import ScriptedModel, assistant_message, function_call

import clew
from clew.adapters.openai_agents import ClewSession
from tests.server.conftest import TOKEN, Running

T = TypeVar("T")

QUIET = RunConfig(tracing_disabled=True)
LOOKS = [function_call("look_up", {"bird": "heron"}, call_id="c-1")]
SAYS = [assistant_message("At the pond.")]


@function_tool
def look_up(bird: str) -> str:
    """Where a bird is."""
    return f"the {bird} is at the pond"


def guide(*steps: Any) -> Agent[Any]:
    return Agent(name="guide", model=ScriptedModel(steps), tools=[look_up])


def given(agent: Agent[Any]) -> list[Any]:
    """What the model was asked in its last call."""
    call = cast("ScriptedModel", agent.model).last_call
    assert call is not None
    return cast("list[Any]", call.input)


def said(items: list[Any]) -> list[tuple[str, str]]:
    """What items say, whatever shape their content has."""
    found = []
    for item in items:
        content = item.get("content", item.get("output", item.get("arguments")))
        text = content if isinstance(content, str) else "".join(part["text"] for part in content)
        found.append((item.get("type", "message"), text))
    return found


@asynccontextmanager
async def conversation(server: Running, **options: Any) -> AsyncIterator[OpenAIConversationsSession]:
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=TOKEN) as client:
        yield OpenAIConversationsSession(openai_client=client, **options)


def both(server: Running, work: Callable[[Session], Awaitable[T]]) -> T:
    """The same work with each of the two sessions: it has to end the same."""

    async def run() -> tuple[T, T]:
        async with conversation(server) as session:
            return await work(session), await work(ClewSession("beside", server.store))

    first, second = asyncio.run(run())
    assert first == second
    return first


@pytest.mark.parametrize("streamed", [False, True])
def test_runs_with_a_tool_are_the_same_as_with_the_adapter(server: Running, streamed: bool) -> None:
    async def work(session: Session) -> list[Any]:
        agent = guide(LOOKS, SAYS)
        if streamed:
            streaming = Runner.run_streamed(agent, "the heron?", session=session, run_config=QUIET)
            async for _ in streaming.stream_events():
                pass
        else:
            result = await Runner.run(agent, "the heron?", session=session, run_config=QUIET)
            assert result.final_output == "At the pond."
        again = guide([assistant_message("Yes.")])
        await Runner.run(again, "sure?", session=session, run_config=QUIET)
        return [said(given(again)), said(cast("list[Any]", await session.get_items()))]

    asked, kept = both(server, work)
    assert asked == [
        ("message", "the heron?"),
        ("function_call", '{"bird":"heron"}'),
        ("function_call_output", "the heron is at the pond"),
        ("message", "At the pond."),
        ("message", "sure?"),
    ]
    assert kept == [*asked, ("message", "Yes.")]
    made = [info for info in server.store.list() if info.agent == "openai-conversations"]
    assert [(info.messages, info.user_turns, info.title) for info in made] == [(6, 2, "the heron?")]


def test_a_run_that_fails_keeps_what_was_done(server: Running) -> None:
    async def work(session: Session) -> list[Any]:
        with pytest.raises(MaxTurnsExceeded):
            await Runner.run(
                guide(LOOKS, LOOKS, SAYS), "the heron?", session=session, max_turns=1, run_config=QUIET
            )
        return said(cast("list[Any]", await session.get_items()))

    assert [kind for kind, _ in both(server, work)] == ["message", "function_call", "function_call_output"]


def test_items_are_added_popped_and_limited_as_with_the_adapter(server: Running) -> None:
    async def work(session: Session) -> list[Any]:
        many: list[Any] = [{"role": "user", "content": f"message {number}"} for number in range(45)]
        await session.add_items(many)
        popped = [await session.pop_item() for _ in range(2)]
        latest = await session.get_items(limit=3)
        every = await session.get_items()
        return [said(cast("list[Any]", some)) for some in (popped, latest, every)]

    popped, latest, every = both(server, work)
    assert popped == [("message", "message 44"), ("message", "message 43")]
    assert latest == [("message", f"message {number}") for number in (40, 41, 42)]
    assert every == [("message", f"message {number}") for number in range(43)]


def test_the_next_process_goes_on_and_a_rewind_is_what_it_starts_from(server: Running) -> None:
    async def ask(question: str, agent: Agent[Any], id: str | None = None) -> str:
        async with conversation(
            server, conversation_id=id, session_settings=SessionSettings(limit=50)
        ) as session:
            await Runner.run(agent, question, session=session, run_config=QUIET)
            return session.session_id

    id = asyncio.run(ask("the heron?", guide(SAYS)))
    session = server.store.get(id)
    session.checkpoint("heron")
    asyncio.run(ask("the owl?", guide([assistant_message("No.")]), id))
    session.rewind("heron")
    agent = guide([assistant_message("In a tree.")])
    asyncio.run(ask("the robin?", agent, id))
    assert [text for _, text in said(given(agent))] == ["the heron?", "At the pond.", "the robin?"]
    fork = session.fork("by night", at="heron")
    agent = guide([assistant_message("Asleep.")])
    asyncio.run(ask("and at night?", agent, fork.id))
    assert [text for _, text in said(given(agent))] == ["the heron?", "At the pond.", "and at night?"]
    assert [hit.session for hit in server.store.search("robin")] == [id]


def test_a_session_of_the_adapter_goes_on_as_a_conversation(server: Running) -> None:
    async def work(store: clew.Store) -> list[Any]:
        await Runner.run(
            guide(LOOKS, SAYS), "the heron?", session=ClewSession("birds", store), run_config=QUIET
        )
        async with conversation(server, conversation_id="birds") as session:
            await Runner.run(guide([assistant_message("Yes.")]), "sure?", session=session, run_config=QUIET)
        return cast("list[Any]", await ClewSession("birds", store).get_items())

    texts = [text for _, text in said(asyncio.run(work(server.store)))]
    assert (texts[0], texts[-2:]) == ("the heron?", ["sure?", "Yes."])
