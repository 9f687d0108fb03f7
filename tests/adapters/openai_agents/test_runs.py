"""The Agents SDK's own loop on a Clew store, with a model that follows a script."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, MagicMock

import pytest
from agents import (
    Agent,
    MaxTurnsExceeded,
    ModelRetrySettings,
    ModelSettings,
    RunConfig,
    Runner,
    SessionSettings,
    Usage,
    function_tool,
)
from agents.memory import OpenAIResponsesCompactionSession
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

import clew
from clew.adapters.openai_agents import ClewSession, UsageHooks
from examples import openai_agents_agent

QUIET = RunConfig(tracing_disabled=True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "agents.db") as store:
        yield store


@function_tool
def look_up(bird: str) -> str:
    """Where a bird is."""
    return f"the {bird} is at the pond"


def agent(*steps: Any, **settings: Any) -> Agent[Any]:
    return Agent(name="guide", model=ScriptedModel(steps), tools=[look_up], **settings)


def asked(agent: Agent[Any]) -> list[Any]:
    """What the model was given in its last call."""
    call = cast("ScriptedModel", agent.model).last_call
    assert call is not None
    return cast("list[Any]", call.input)


def kinds(session: ClewSession) -> list[str]:
    return [each.get("type") or each["role"] for each in session.clew.messages()]


LOOKS = [function_call("look_up", {"bird": "heron"}, call_id="c-1")]
SAYS = [assistant_message("At the pond.")]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_run_with_a_tool_is_kept_and_the_next_process_goes_on(
    tmp_path: Path, store: clew.Store, streamed: bool
) -> None:
    async def first() -> str:
        session = ClewSession("birds", store)
        guide = agent(LOOKS, SAYS)
        if streamed:
            streaming = Runner.run_streamed(guide, "the heron?", session=session, run_config=QUIET)
            async for _ in streaming.stream_events():
                pass
            return str(streaming.final_output)
        result = await Runner.run(guide, "the heron?", session=session, run_config=QUIET)
        return str(result.final_output)

    assert asyncio.run(first()) == "At the pond."
    store.close()
    with clew.open(tmp_path / "agents.db") as again:
        session = ClewSession("birds", again)
        assert kinds(session) == ["user", "function_call", "function_call_output", "message"]
        guide = agent([assistant_message("Yes.")])
        asyncio.run(Runner.run(guide, "sure?", session=session, run_config=QUIET))
        given = asked(guide)
        assert [each.get("type") or each["role"] for each in given][-2:] == ["message", "user"]
        assert given[0]["content"] == "the heron?"
        assert session.clew.info.user_turns == 2
        (found,) = again.search("heron", role="user")
        assert found.session == "birds"


def test_a_model_call_that_is_retried_leaves_no_traces(store: clew.Store) -> None:
    session = ClewSession("birds", store)
    again = ModelSettings(
        retry=ModelRetrySettings(max_retries=2, backoff={"initial_delay": 0}, policy=lambda _: True)
    )
    guide = agent(LOOKS, ConnectionError("gone"), SAYS, model_settings=again)
    result = asyncio.run(Runner.run(guide, "the heron?", session=session, run_config=QUIET))
    assert result.final_output == "At the pond."
    assert kinds(session) == ["user", "function_call", "function_call_output", "message"]


def test_a_run_that_fails_keeps_what_was_done(store: clew.Store) -> None:
    session = ClewSession("birds", store)
    guide = agent(LOOKS, LOOKS, SAYS)
    with pytest.raises(MaxTurnsExceeded):
        asyncio.run(Runner.run(guide, "the heron?", session=session, max_turns=1, run_config=QUIET))
    assert kinds(session) == ["user", "function_call", "function_call_output"]


def test_a_limit_bounds_what_the_model_gets_not_what_is_kept(store: clew.Store) -> None:
    session = ClewSession("birds", store, session_settings=SessionSettings(limit=2))
    for number in range(3):
        guide = agent([assistant_message(f"answer {number}")])
        asyncio.run(Runner.run(guide, f"question {number}", session=session, run_config=QUIET))
    assert [each["content"] for each in asked(guide) if each.get("role") == "user"] == [
        "question 1",
        "question 2",
    ]
    assert len(session.clew.messages()) == 6


def test_a_handoff_is_kept_and_every_model_call_is_counted(store: clew.Store) -> None:
    usage = Usage(requests=1, input_tokens=10, output_tokens=3, total_tokens=13)
    expert = Agent(name="expert", model=ScriptedModel([ModelStep(output=SAYS, usage=usage)]))
    to_expert = [function_call("transfer_to_expert", {}, call_id="h-1")]
    guide = agent(ModelStep(output=to_expert, usage=usage), handoffs=[expert])
    session = ClewSession("birds", store)
    hooks = UsageHooks(session, model="gpt-4.1")
    result = asyncio.run(Runner.run(guide, "the heron?", session=session, hooks=hooks, run_config=QUIET))
    assert result.last_agent is expert
    assert kinds(session) == ["user", "function_call", "function_call_output", "message"]
    assert [(call.source, call.input_tokens) for call in session.clew.usage_records()] == [
        ("guide", 10),
        ("expert", 10),
    ]


def test_a_rewind_is_what_the_next_run_starts_from(store: clew.Store) -> None:
    session = ClewSession("birds", store)
    asyncio.run(Runner.run(agent(SAYS), "the heron?", session=session, run_config=QUIET))
    session.clew.checkpoint("heron")
    asyncio.run(Runner.run(agent([assistant_message("No.")]), "the owl?", session=session, run_config=QUIET))
    store.get("birds").rewind("heron")
    guide = agent([assistant_message("In a tree.")])
    asyncio.run(Runner.run(guide, "the robin?", session=session, run_config=QUIET))
    assert [each["content"] for each in asked(guide) if each.get("role") == "user"] == [
        "the heron?",
        "the robin?",
    ]


def test_compaction_shortens_what_the_model_gets_and_loses_nothing(store: clew.Store) -> None:
    client = MagicMock()
    summary = {"type": "compaction", "id": "cmp", "encrypted_content": "sealed"}
    client.responses.compact = AsyncMock(return_value=SimpleNamespace(output=[summary]))
    session = ClewSession("birds", store)
    compacting = OpenAIResponsesCompactionSession(
        "birds", session, client=client, should_trigger_compaction=lambda seen: len(seen["session_items"]) > 3
    )
    for question in ("the heron?", "the owl?"):
        step = ModelStep(output=SAYS, response_id=f"resp-{question}")
        asyncio.run(Runner.run(agent(step), question, session=compacting, run_config=QUIET))
    client.responses.compact.assert_awaited_once()
    assert asyncio.run(session.get_items()) == [summary]
    assert "sealed by the provider" in store.export("birds", "markdown")
    session.clew.undo()
    assert kinds(session) == ["user", "message", "user", "message"]


def test_the_example_resumes_goes_back_and_forks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(openai_agents_agent.main(tmp_path / "agents.db"))

    expected = [
        "birds: Where is the heron? At the pond.",
        "birds: And the owl? I do not know.",
        "birds: And the robin? At the pond, too.",
        "birds-at-night: What sings at night? The nightingale.",
        "birds: 8 items",
        "birds-at-night: 6 items",
        "found: [('birds', 'assistant'), ('birds', 'tool')]",
        "600 tokens read",
    ]
    assert expected == capsys.readouterr().out.splitlines()
