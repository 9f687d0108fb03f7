"""What LangGraph asks for, in terms of threads and places: its configs, and its listings."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import get_checkpoint_id

from clew.adapters.common import session_id
from clew.adapters.langgraph_documents import Place, checkpoint_name
from clew.adapters.langgraph_memory import Thread
from clew.adapters.langgraph_reading import PAGE, Found


class Listing:
    """What is asked for by `list`, and how much of it was given."""

    def __init__(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        asked = config["configurable"] if config is not None else {}
        self.ns: str | None = asked.get("checkpoint_ns")
        self._id: str | None = asked.get("checkpoint_id")
        self._before = get_checkpoint_id(before) if before else None
        self._limit = limit
        self.count = 0
        self.page = PAGE if limit is None or filter else max(1, min(limit, PAGE))

    @property
    def is_full(self) -> bool:
        return self._limit is not None and self.count >= self._limit

    def has(self, found: Found) -> bool:
        if self._id and found.id != self._id:
            return False
        return not self._before or found.id < self._before

    def begin(self) -> str | None:
        """The name behind which the listing begins; newest first, so what is before comes behind."""
        if self._id:
            return checkpoint_name(Place(self.ns or "", self._id)) + "\U0010ffff"
        return checkpoint_name(Place(self.ns or "", self._before)) if self._before else None


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


def by_id(candidate: tuple[Thread, Found]) -> str:
    return candidate[1].id
