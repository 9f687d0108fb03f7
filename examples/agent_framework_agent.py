"""An agent of the Microsoft Agent Framework that remembers, and goes back in time.

    pip install 'clew[agent-framework]'
    python examples/agent_framework_agent.py

The model is a script, so it runs offline.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)

import clew
from clew.adapters.agent_framework import ClewHistoryProvider


class ScriptedClient(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Looks the last word up, then says what was found."""

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse]:
        return self._answer(list(messages))

    async def _answer(self, messages: list[Message]) -> ChatResponse:
        last = messages[-1]
        if last.role == "tool":
            after = f", after {len(messages)} messages" if len(messages) > 3 else ""
            said: Any = f"I counted {last.contents[0].result}{after}."
        else:
            bird = last.text.split()[-1]
            call = f"call-{len(messages)}"
            said = Content.from_function_call(call_id=call, name="count_birds", arguments={"bird": bird})
        return ChatResponse(messages=[Message("assistant", [said])])


@tool(approval_mode="never_require")
def count_birds(bird: str) -> int:
    """How many there are of a bird."""
    return len(bird)


async def say(store: clew.Store, prompt: str) -> str:
    history = ClewHistoryProvider(store)
    agent = Agent(ScriptedClient(), name="watcher", tools=[count_birds], context_providers=[history])
    answer = await agent.run(prompt, session=AgentSession(session_id="lake"))
    return str(answer.text)


async def first_day(path: Path) -> None:
    with clew.open(path) as store:
        print("day one:", await say(store, "count every heron"))


async def second_day(path: Path) -> None:
    with clew.open(path) as store:
        print("day two:", await say(store, "and the kingfisher"))
        session = store.get("lake")
        session.rewind(3)
        print("rewound:", await say(store, "and the coot"))
        for hit in store.search("coot", role="user"):
            print("found:", hit.snippet)
        session.undo()
        print("undone: the session has", session.info.messages, "messages again")


def main(path: Path) -> None:
    asyncio.run(first_day(path))
    asyncio.run(second_day(path))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(Path(directory) / "agents.db")
