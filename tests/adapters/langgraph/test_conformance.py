"""What every adapter promises, of LangGraph's. Imports little: some of these tests start processes."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint

import clew
from clew.adapters.langgraph import ClewSaver
from clew.testing.adapter import AdapterConformance


def talk(name: str) -> Any:
    return {"configurable": {"thread_id": name, "checkpoint_ns": ""}}


class TestConformance(AdapterConformance):
    appends = False
    """The newest checkpoint is the state: two who continue the same one make two branches."""

    def make(self, store: clew.Store) -> ClewSaver:
        return ClewSaver(store)

    def messages(self) -> list[Any]:
        call = {"name": "look_up", "args": {"bird": "heron"}, "id": "call-1", "type": "tool_call"}
        used = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}
        return [
            HumanMessage("where is the grey heron", id="q"),
            AIMessage("", tool_calls=[call], usage_metadata=used, id="a"),
            ToolMessage("kingfisher", tool_call_id="call-1", name="look_up", id="b"),
            AIMessage("naïve 鷺 \u0000", additional_kwargs={"refusal": None}, id="c"),
        ]

    def numbered(self, number: str) -> list[Any]:
        return [HumanMessage(number, id=f"{number}-h"), AIMessage(number, id=f"{number}-a")]

    def number_of(self, message: Any) -> str:
        return str(message.content)

    async def write(self, adapter: Any, name: str, messages: list[Any]) -> None:
        before = await adapter.aget_tuple(talk(name))
        config = before.config if before else talk(name)
        known = before.checkpoint["channel_values"]["messages"] if before else []
        version = before.checkpoint["channel_versions"]["messages"] + 1 if before else 1
        made = empty_checkpoint()
        made["channel_values"], made["channel_versions"] = (
            {"messages": known + messages},
            {"messages": version},
        )
        await adapter.aput(config, made, {}, {"messages": version})

    async def read(self, adapter: Any, name: str) -> list[Any]:
        there = await adapter.aget_tuple(talk(name))
        return there.checkpoint["channel_values"]["messages"] if there else []
