"""An agent of Pydantic AI whose conversations outlive it: resumed, branched, forked, rewound, searched.

    pip install 'clew[pydantic-ai]'
    python examples/pydantic_ai_agent.py

The model is a script, so it runs offline.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import clew
from clew.adapters.pydantic_ai import ClewConversationStore


def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Look the last word up, then say what was found."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(content=f"I counted {last.content}.")])
    bird = str(getattr(last, "content", "")).split()[-1]
    return ModelResponse(parts=[ToolCallPart(tool_name="count_birds", args={"bird": bird})])


agent = Agent(FunctionModel(think))


@agent.tool_plain
def count_birds(bird: str) -> int:
    return len(bird)


async def say(conversations: ClewConversationStore, id: str, prompt: str) -> str:
    conversation = await conversations.load(id) or Conversation(conversation_id=id)
    result = await agent.run(prompt, conversation=conversation)
    await conversations.save(result)
    return result.output


async def first_day(path: Path) -> None:
    with clew.open(path) as store:
        conversations = ClewConversationStore(store)
        print("day one:", await say(conversations, "lake", "count every heron"))
        print("        ", await say(conversations, "lake", "now the stork"))


async def second_day(path: Path) -> None:
    with clew.open(path) as store:
        conversations = ClewConversationStore(store)
        print("day two:", await say(conversations, "lake", "and the kingfisher"))

        fork = await conversations.fork("lake", at=4, new_conversation_id="pond")
        await conversations.save(await agent.run("rather the coot", conversation=fork))

        session = conversations.session("lake")
        session.rewind(3)
        loaded = await conversations.load("lake")
        assert loaded is not None
        print("rewound:", len(loaded.messages), "messages, of", store.stats().messages, "in the store")
        session.undo()
        for hit in store.search("coot", role="user"):
            print("found:", hit.snippet, "in", hit.session)
        print("calls:", store.usage().calls)


def main(path: Path) -> None:
    asyncio.run(first_day(path))
    asyncio.run(second_day(path))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(Path(directory) / "agents.db")
