"""What LangGraph asks for, in terms of threads and places."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import get_checkpoint_id

from clew.adapters.common.sessions import session_id
from clew.adapters.langgraph.documents import Place
from clew.adapters.langgraph.memory import Thread


def thread_named(thread_id: Any) -> Thread:
    return Thread(str(thread_id), session_id(str(thread_id)))


def thread_of(config: RunnableConfig) -> Thread:
    return thread_named(config["configurable"]["thread_id"])


def place_of(config: RunnableConfig) -> Place:
    return Place(config["configurable"].get("checkpoint_ns") or "", get_checkpoint_id(config) or "")


def with_id(config: RunnableConfig, id: str) -> RunnableConfig:
    asked = config["configurable"]
    ns = asked.get("checkpoint_ns", "")
    return {"configurable": {"thread_id": asked["thread_id"], "checkpoint_ns": ns, "checkpoint_id": id}}
