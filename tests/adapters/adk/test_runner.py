"""ADK's own runner, with tools, state and rewind, on a Clew store; the model is scripted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import Field

import clew
from clew.adapters.adk import ClewSessionService
from tests.adapters.adk.events import TALK, load, run, texts


class Scripted(BaseLlm):
    """Says what it is told to say, and remembers what it was asked."""

    model: str = "scripted"
    answers: list[types.Part]
    asked: list[LlmRequest] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.asked.append(llm_request)
        part = self.answers[len(self.asked) - 1]
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def look_up(bird: str, tool_context: ToolContext) -> dict[str, Any]:
    """Look a bird up."""
    seen = tool_context.state.get("seen", 0) + 1
    tool_context.state.update({"seen": seen, "user:favourite": bird, "temp:raw": "..."})
    return {"result": f"{bird} number {seen}"}


def calls(bird: str) -> types.Part:
    return types.Part.from_function_call(name="look_up", args={"bird": bird})


def spotter(*answers: types.Part) -> LlmAgent:
    return LlmAgent(
        name="spotter", model=Scripted(answers=list(answers)), tools=[look_up], output_key="answer"
    )


async def ask(runner: Runner, text: str, **options: Any) -> str:
    """Ask, and give the id of the invocation."""
    message = types.Content(role="user", parts=[types.Part(text=text)])
    invocation = ""
    async for event in runner.run_async(
        user_id=TALK["user_id"], session_id=TALK["session_id"], new_message=message, **options
    ):
        invocation = event.invocation_id
    return invocation


def runner_of(store: clew.Store, agent: LlmAgent) -> Runner:
    return Runner(agent=agent, app_name=TALK["app_name"], session_service=ClewSessionService(store))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "agents.db") as store:
        yield store


def test_a_conversation_with_tools_goes_on_in_another_runner(store: clew.Store) -> None:
    async def work() -> None:
        first = runner_of(store, spotter(calls("heron"), types.Part(text="a heron")))
        await first.session_service.create_session(**TALK)
        await ask(first, "what is that?")
        again = spotter(calls("owl"), types.Part(text="an owl"))
        await ask(runner_of(store, again), "and that?")

        found = await load(ClewSessionService(store))
        assert texts(found) == ["what is that?", "", "", "a heron", "and that?", "", "", "an owl"]
        assert found.state == {"seen": 2, "answer": "an owl", "user:favourite": "owl"}
        assert isinstance(again.model, Scripted)
        heard = [part.text for content in again.model.asked[0].contents for part in content.parts or []]
        assert heard == ["what is that?", None, None, "a heron", "and that?"]

    run(work())
    kept = store.get("adk/birds/ann/talk")
    assert kept.info.title == "what is that?"
    assert kept.info.user_turns == 2
    assert [hit.in_tool for hit in store.search("owl", tools=True, role="tool")] == [True]


def test_the_runners_own_rewind_takes_the_state_back(store: clew.Store) -> None:
    async def work() -> None:
        script = (calls("heron"), types.Part(text="one"), calls("owl"), types.Part(text="two"), calls("jay"))
        runner = runner_of(store, spotter(*script, types.Part(text="three")))
        await runner.session_service.create_session(**TALK)
        await ask(runner, "first")
        second = await ask(runner, "second")
        await runner.rewind_async(
            user_id=TALK["user_id"], session_id=TALK["session_id"], rewind_before_invocation_id=second
        )

        found = await load(ClewSessionService(store))
        assert found.state == {"seen": 1, "answer": "one", "user:favourite": "owl"}
        assert len(found.events) == 9  # they stay, and are hidden
        await ask(runner, "third")
        assert (await load(ClewSessionService(store))).state["seen"] == 2

    run(work())


def test_clews_rewind_takes_runner_and_state_back(store: clew.Store) -> None:
    async def work() -> None:
        agent = spotter(
            calls("heron"), types.Part(text="one"), types.Part(text="two"), types.Part(text="again")
        )
        runner = runner_of(store, agent)
        await runner.session_service.create_session(**TALK)
        await ask(runner, "first")
        kept = store.get("adk/birds/ann/talk")
        kept.checkpoint("after the first")
        await ask(runner, "second")
        kept.rewind("after the first")
        await ask(runner, "another second")

        assert isinstance(agent.model, Scripted)
        heard = [part.text for content in agent.model.asked[-1].contents for part in content.parts or []]
        assert heard == ["first", None, None, "one", "another second"]
        found = await load(ClewSessionService(store))
        assert texts(found) == ["first", "", "", "one", "another second", "again"]
        assert found.state["answer"] == "again"

    run(work())


def test_temporary_state_is_seen_until_the_run_ends(store: clew.Store) -> None:
    async def work() -> None:
        script = [calls("heron"), types.Part(text="one"), types.Part(text="two")]
        agent = LlmAgent(
            name="spotter", model=Scripted(answers=script), tools=[look_up], instruction="Raw: {temp:raw?}."
        )
        runner = runner_of(store, agent)
        await runner.session_service.create_session(**TALK)
        config = RunConfig(get_session_config=GetSessionConfig(num_recent_events=3))
        await ask(runner, "first", run_config=config)
        await ask(runner, "second", run_config=config)

        assert isinstance(agent.model, Scripted)
        instructions = [str(request.config.system_instruction) for request in agent.model.asked]
        assert ["Raw: ...." in instruction for instruction in instructions] == [False, True, False]
        heard = [part.text for content in agent.model.asked[2].contents for part in content.parts or []]
        assert heard[-2:] == ["one", "second"]

    run(work())


def test_the_example_tells_its_story(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from examples import adk_agent

    adk_agent.main(tmp_path / "agents.db")

    expected = [
        "day one: Noted: heron.",
        "day two: Noted: heron, owl.",
        "rewound: 4 events, state: ['heron']",
        "the fork: Noted: heron, owl, jay.",
        "listed: lake {'seen': ['heron'], 'user:latest': 'jay'}",
        "listed: lake#fork-1 {'seen': ['heron', 'owl', 'jay'], 'user:latest': 'jay'}",
        "found: now an owl in adk/birds/ann/lake#fork-1",
    ]
    assert capsys.readouterr().out.splitlines() == expected
