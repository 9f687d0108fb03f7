"""LangGraph: what a graph with a model and a tool asks of its saver, on the saver for SQLite and on Clew.

A turn is a question, a call of a tool, its result, the answer. For that a graph asks for the latest
checkpoint (`aget_tuple`), then puts five new ones (`aput`, each after the one before) and what four tasks
wrote (`aput_writes`, whenever they come): all in the background, as is its default, and waits in the end.
What the tool answers has up to 12 KB, as pages of files have. `langgraph_postgres`: the same on PostgreSQL.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

import clew
from benchmarks.adapters import Framework
from clew.adapters.langgraph import ClewSaver

_THREAD: Final = {"thread_id": "birds", "checkpoint_ns": ""}
_WORDS: Final = "the grey heron stands in the shallow water and waits for a fish to pass by "
_START, _MODEL, _TOOLS = "__start__", "branch:to:model", "branch:to:tools"
_STEPS: Final = (
    (_START, "model", _MODEL),
    (_MODEL, "tools", _TOOLS),
    (_TOOLS, "model", _MODEL),
    (_MODEL, "", ""),
)
"""Which channel made a task run, what runs next, and by which channel."""


def _messages(number: int) -> list[AnyMessage]:
    """What a turn adds to the conversation."""
    call = ToolCall(name="look_up", args={"bird": "heron"}, id=f"call-{number}", type="tool_call")
    told: Any = {"usage_metadata": {"input_tokens": 900, "output_tokens": 80, "total_tokens": 980}}
    told["response_metadata"] = {"model_name": "scripted"}
    return [
        HumanMessage(f"{number}: {_WORDS * 2}", id=f"{number:032}-q"),
        AIMessage("", tool_calls=[call], id=f"{number:032}-c", **told),
        ToolMessage(
            _WORDS * (number * 53 % 160), name="look_up", tool_call_id=f"call-{number}", id=f"{number:032}-r"
        ),
        AIMessage(_WORDS * 12, id=f"{number:032}-a", **told),
    ]


def _size(turns: int) -> int:
    return sum(len(message.model_dump_json()) for number in range(turns) for message in _messages(number))


class Talk:
    """A conversation with a saver."""

    def __init__(self, saver: BaseCheckpointSaver[Any], resources: AsyncExitStack) -> None:
        self._saver = saver
        self._resources = resources

    async def turn(self, number: int) -> None:
        found = await self._saver.aget_tuple({"configurable": _THREAD})
        known: list[AnyMessage] = found.checkpoint["channel_values"]["messages"] if found else []
        self._parent: str | None = found.checkpoint["id"] if found else None
        self._versions = dict(found.checkpoint["channel_versions"]) if found else {}
        self._seen = dict(found.checkpoint["versions_seen"]) if found else {}
        self._step = 5 * number - 1
        self._put: asyncio.Task[None] | None = None
        asked, *rest = _messages(number)
        work = [self._checkpoint({"messages": known, _START: {"messages": [asked]}}, [_START], "input")]
        for message, (woken_by, _, next_by) in zip([asked, *rest], _STEPS, strict=True):
            work.append(
                self._writes(woken_by, [("messages", [message]), *([(next_by, None)] if next_by else [])])
            )
            known = [*known, message]
            values = {"messages": known, **({next_by: None} if next_by else {})}
            work.append(
                self._checkpoint(values, ["messages", woken_by, *([next_by] if next_by else [])], "loop")
            )
        await asyncio.gather(*work)

    def _checkpoint(self, values: dict[str, Any], changed: Sequence[str], source: str) -> asyncio.Task[None]:
        version = self._saver.get_next_version(max(self._versions.values(), default=None), None)
        self._versions |= dict.fromkeys(changed, version)
        self._seen[changed[-1]] = {changed[-1]: version}
        made = empty_checkpoint()
        made["channel_values"], made["channel_versions"] = values, dict(self._versions)
        made["versions_seen"], made["updated_channels"] = dict(self._seen), list(changed)
        config = {"configurable": {**_THREAD, **({"checkpoint_id": self._parent} if self._parent else {})}}
        metadata: Any = {"source": source, "step": self._step, "parents": {}}
        self._parent, self._step = made["id"], self._step + 1
        saving = self._saver.aput(config, made, metadata, dict.fromkeys(changed, version))  # type: ignore[arg-type]
        put = self._put = asyncio.ensure_future(_after(self._put, saving))
        return put

    def _writes(self, task: str, writes: list[tuple[str, Any]]) -> asyncio.Task[None]:
        config: Any = {"configurable": {**_THREAD, "checkpoint_id": self._parent}}
        name = f"{self._parent}"[::-1]
        return asyncio.ensure_future(self._saver.aput_writes(config, writes, name, f"~__pregel_pull, {task}"))

    async def close(self) -> None:
        await self._resources.aclose()


async def _after(previous: asyncio.Task[None] | None, work: Any) -> None:
    if previous is not None:
        await previous
    await work


async def _clew(place: Path) -> Talk:
    return await on_clew(str(place / "agents.db"))


async def on_clew(url: str) -> Talk:
    resources = AsyncExitStack()
    store = resources.enter_context(clew.open(url))
    return Talk(ClewSaver(store), resources)


async def _sqlite(place: Path) -> Talk:
    resources = AsyncExitStack()
    saver = await resources.enter_async_context(AsyncSqliteSaver.from_conn_string(str(place / "theirs.db")))
    return Talk(saver, resources)


async def _in_memory(place: Path) -> Talk:
    return Talk(InMemorySaver(), AsyncExitStack())


FRAMEWORK: Final = Framework(
    name="langgraph",
    clew=_clew,
    theirs={"AsyncSqliteSaver": _sqlite, "InMemorySaver": _in_memory},
    message_bytes=_size,
    disk=2.5,  # inputs and writes of checkpoints are kept beside the messages
)
