"""The OpenAI Agents SDK on a Clew store: resume, go back, fork, search.

    python examples/openai_agents_agent.py

The model follows a script, so nothing leaves the machine. Give the agent a real model, and it is the same.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from agents import Agent, RunConfig, Runner, Usage, function_tool
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

import clew
from clew.adapters.openai_agents import ClewSession, UsageHooks

QUIET = RunConfig(tracing_disabled=True)
USAGE = Usage(requests=1, input_tokens=120, output_tokens=15, total_tokens=135)


@function_tool
def spot(bird: str) -> str:
    """Where a bird was seen."""
    return f"{bird}: at the pond, 7 am"


def says(text: str) -> ModelStep:
    return ModelStep(output=[assistant_message(text)], usage=USAGE)


def looks(bird: str) -> ModelStep:
    return ModelStep(output=[function_call("spot", {"bird": bird}, call_id=f"call-{bird}")], usage=USAGE)


async def ask(session: ClewSession, question: str, *script: ModelStep) -> None:
    guide: Agent[Any] = Agent(name="guide", model=ScriptedModel(script), tools=[spot])
    result = await Runner.run(guide, question, session=session, hooks=UsageHooks(session), run_config=QUIET)
    print(f"{session.session_id}: {question} {result.final_output}")


async def main(path: Path) -> None:
    async with clew.open_async(path) as store:
        session = ClewSession("birds", store)
        await ask(session, "Where is the heron?", looks("heron"), says("At the pond."))
        session.clew.checkpoint("heron")
        await ask(session, "And the owl?", says("I do not know."))

    async with clew.open_async(path) as store:  # another day, another process
        session = ClewSession("birds", store)
        session.clew.rewind("heron")  # the owl was never asked for
        fork = await session.fork("birds-at-night")
        await ask(session, "And the robin?", looks("robin"), says("At the pond, too."))
        await ask(fork, "What sings at night?", says("The nightingale."))
        for each in (session, fork):
            print(f"{each.session_id}: {len(await each.get_items())} items")
        print("found:", [(hit.session, hit.role) for hit in await store.search("pond", tools=True)][:2])
        print(f"{session.clew.usage().input_tokens} tokens read")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory) / "agents.db"))
