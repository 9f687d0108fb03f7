"""An agent of Strands that keeps its conversation in a Clew store, stops, goes on and takes a turn back.

    pip install 'clew[strands]'
    python examples/strands_agent.py

The model is scripted, so nothing leaves the machine. Put a real one, as `BedrockModel()`, in its place.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterable
from pathlib import Path
from typing import Any

from strands import Agent, tool
from strands.models import Model
from strands.session import RepositorySessionManager

import clew
from clew.adapters.strands import ClewSessionRepository


@tool
def count(bird: str) -> str:
    """How many birds of a kind there are at the lake.

    Args:
        bird: The kind.
    """
    return f"{len(bird)} {bird}s"


class Scripted(Model):
    """Asks for the tool after each question, and repeats what the tool said."""

    def get_config(self) -> dict[str, Any]:
        return {}

    def update_config(self, **model_config: Any) -> None:
        pass

    async def structured_output(self, *args: Any, **kwargs: Any) -> AsyncGenerator[dict[str, Any], None]:
        raise NotImplementedError
        yield {}

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterable[Any]:
        last = messages[-1]["content"][0]
        result = last.get("toolResult")
        yield {"messageStart": {"role": "assistant"}}
        if result is not None:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": f"I see {result['content'][0]['text']}."}}}
        else:
            call = {"name": "count", "toolUseId": f"call-{len(messages)}"}
            bird = last["text"].rstrip("?").split()[-1]
            yield {"contentBlockStart": {"start": {"toolUse": call}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps({"bird": bird})}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if result else "tool_use"}}


def agent_on(repository: ClewSessionRepository, session: str = "lake") -> Agent:
    manager = RepositorySessionManager(session_id=session, session_repository=repository)
    return Agent(model=Scripted(), tools=[count], session_manager=manager, callback_handler=None)


def main(path: Path) -> None:
    with clew.open(path) as store:
        agent = agent_on(ClewSessionRepository(store))
        print(f"{agent('How many of the heron?')}".strip())

    with clew.open(path) as store:  # another day, another process
        repository = ClewSessionRepository(store)
        agent = agent_on(repository)
        print(f"it remembers {len(agent.messages)} messages")
        lake = repository.session("lake")
        lake.checkpoint("heron")
        print(f"{agent('How many of the owl?')}".strip())

        lake.rewind("heron")  # the owl was never asked for
        repository.fork_session("lake", "another-lake")
        print(f"{agent_on(repository)('How many of the jay?')}".strip())
        print(f"{agent_on(repository, 'another-lake')('How many of the kingfisher?')}".strip())

        for hit in store.search("owls", role="assistant"):
            print(f"found: {hit.snippet} (on the path: {hit.on_path})")
        for info in store.list(where={"framework": "strands"}):
            if info.messages:
                print(f"{info.id}: {info.messages} messages, {info.title}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(Path(directory) / "agents.db")
