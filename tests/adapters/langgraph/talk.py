"""What the tests of LangGraph's adapter share: checkpoints by hand, and a graph with a scripted model."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple, empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph

from clew.adapters.langgraph import ClewSaver


def thread(name: str = "talk", ns: str = "", id: str | None = None) -> Any:
    asked = {"thread_id": name, "checkpoint_ns": ns}
    return {"configurable": asked if id is None else {**asked, "checkpoint_id": id}}


def checkpoint(values: dict[str, Any], versions: dict[str, Any] | None = None) -> Checkpoint:
    made = empty_checkpoint()
    made["channel_values"] = values
    made["channel_versions"] = dict.fromkeys(values, 1) if versions is None else versions
    return made


def put(saver: ClewSaver, config: Any, values: dict[str, Any], **metadata: Any) -> Any:
    """A checkpoint after the one that the config names, in which all of these values are new."""
    before = saver.get_tuple(config) if "checkpoint_id" in config["configurable"] else None
    known = before.checkpoint["channel_versions"] if before else {}
    versions = {channel: saver.get_next_version(known.get(channel), None) for channel in values}
    made = checkpoint({**(before.checkpoint["channel_values"] if before else {}), **values})
    made["channel_versions"] = {**known, **versions}
    told: Any = {"source": "loop", "step": 0, **metadata}
    return saver.put(config, made, told, versions)


def values(saver: ClewSaver, config: Any) -> dict[str, Any]:
    return found(saver, config).checkpoint["channel_values"]


def found(saver: ClewSaver, config: Any) -> CheckpointTuple:
    there = saver.get_tuple(config)
    assert there is not None
    return there


def human(text: str, **fields: Any) -> HumanMessage:
    return HumanMessage(text, id=f"id of {text}"[:60], **fields)


def answer(text: str, **fields: Any) -> AIMessage:
    return AIMessage(text, id=f"id of {text}"[:60], **fields)


def texts(messages: list[AnyMessage]) -> list[str]:
    return [str(message.content) for message in messages]


def echo(state: MessagesState) -> dict[str, Any]:
    """A model that says what it heard, and how much there was."""
    heard = state["messages"][-1].content
    return {"messages": [AIMessage(f"{len(state['messages'])}: you said {heard}")]}


def one_node(state: Any, name: str, node: Any) -> StateGraph[Any, Any, Any, Any]:
    """A graph of one node, which may be given more."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(state)
    builder.add_node(name, node)
    builder.add_edge(START, name)
    return builder


def chat(saver: ClewSaver | None) -> Any:
    builder = one_node(MessagesState, "model", echo)
    return builder.compile(checkpointer=saver)


def say(graph: Any, text: str, config: Any) -> list[str]:
    return texts(graph.invoke({"messages": [HumanMessage(text)]}, config)["messages"])
