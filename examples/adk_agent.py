"""An agent of Google ADK whose sessions outlive it: resumed, rewound with its state, forked, searched.

    pip install 'clew[adk]'
    python examples/adk_agent.py

The model is a script, so it runs offline.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.tool_context import ToolContext
from google.genai import types

import clew
from clew.adapters.adk import ClewSessionService

KEY: dict[str, Any] = {"app_name": "birds", "user_id": "ann", "session_id": "lake"}


class Script(BaseLlm):
    """Notes the last word that it is told down, then says what was noted."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        last = (llm_request.contents[-1].parts or [types.Part()])[-1]
        if last.function_response is not None:
            part = types.Part(text=f"Noted: {(last.function_response.response or {})['result']}.")
        else:
            bird = (last.text or "").split()[-1]
            part = types.Part.from_function_call(name="note", args={"bird": bird})
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def note(bird: str, tool_context: ToolContext) -> str:
    """Note a bird."""
    tool_context.state["seen"] = [*tool_context.state.get("seen", []), bird]
    tool_context.state["user:latest"] = bird
    return ", ".join(tool_context.state["seen"])


AGENT = LlmAgent(name="spotter", model=Script(model="script"), tools=[note])


async def say(service: ClewSessionService, text: str, session_id: str = "lake") -> str:
    runner = Runner(agent=AGENT, app_name="birds", session_service=service)
    message = types.Content(role="user", parts=[types.Part(text=text)])
    said = ""
    async for event in runner.run_async(user_id="ann", session_id=session_id, new_message=message):
        if event.content and event.content.parts:
            said = event.content.parts[0].text or said
    return said


async def first_day(path: Path) -> None:
    with clew.open(path) as store:
        service = ClewSessionService(store)
        await service.create_session(**KEY)
        print("day one:", await say(service, "there is a heron"))
        service.session(**KEY).checkpoint("evening")


async def second_day(path: Path) -> None:
    with clew.open(path) as store:
        service = ClewSessionService(store)
        print("day two:", await say(service, "now an owl"))

        kept = service.session(**KEY)
        kept.fork()
        kept.rewind("evening")
        session = await service.get_session(**KEY)
        assert session is not None
        print("rewound:", len(session.events), "events, state:", session.state["seen"])
        print("the fork:", await say(service, "and a jay", "lake#fork-1"))
        for listed in (await service.list_sessions(app_name="birds")).sessions:
            print("listed:", listed.id, listed.state)
        for hit in store.search("owl", role="user"):
            print("found:", hit.snippet, "in", hit.session)


def main(path: Path) -> None:
    asyncio.run(first_day(path))
    asyncio.run(second_day(path))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(Path(directory) / "agents.db")
