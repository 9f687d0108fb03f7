"""The contenders: one file for each, behind one small protocol.

Peers run as their documentation sets them up, on a file, with the durability that they have by default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from benchmarks.harness.work import Message


class Contender(Protocol):
    """A store that keeps conversations, seen through what a benchmark needs of it."""

    def __init__(self, directory: Path) -> None:
        """Keep everything in `directory`, which exists and is empty or was this contender's before."""

    async def open(self) -> None: ...

    def prepare(self, messages: Sequence[Message]) -> list[Any]:
        """The messages in the form in which a user of this store has them at hand. Not timed."""

    async def append(self, session: str, items: list[Any]) -> None:
        """Store the items by one call of the store, or as few as it allows. On return they are durable."""

    async def read(self, session: str) -> list[Any]:
        """The whole history."""

    async def close(self) -> None: ...


CONTENDERS = {
    "raw": "raw:RawFile",
    "clew": "clew_store:Clew",
    "clew async": "clew_store:ClewAsync",
    "openai SQLiteSession": "openai_agents:OpenAISession",
    "openai AdvancedSQLiteSession": "openai_agents:OpenAIAdvancedSession",
    "langgraph SqliteSaver": "langgraph_sqlite:LangGraph",
    "langgraph AsyncSqliteSaver": "langgraph_sqlite:LangGraphAsync",
    "google-adk DatabaseSessionService": "google_adk:GoogleADK",
}
"""Name in the tables, and where the class stands. Imported when used: the peers are heavy."""

FAST_PEERS = ("openai SQLiteSession", "openai AdvancedSQLiteSession")
SLOW_PEERS = ("langgraph SqliteSaver", "google-adk DatabaseSessionService")


async def start(name: str, directory: Path) -> Contender:
    """The contender, open, in a folder of its own below `directory`."""
    module, _, attribute = CONTENDERS[name].partition(":")
    make = cast(
        "Callable[[Path], Contender]", getattr(import_module(f"benchmarks.peers.{module}"), attribute)
    )
    folder = directory / "".join(c if c.isalnum() else "-" for c in name)
    folder.mkdir(parents=True, exist_ok=True)
    contender = make(folder)
    await contender.open()
    return contender
