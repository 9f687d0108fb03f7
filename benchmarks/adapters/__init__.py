"""Adapters beside the stores that their frameworks ship: the same loop on both, in turns.

A module of this package holds one `Framework` or two. A turn is what the framework asks of its store in one
real turn of a conversation, reads included; the module's text says what that is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec


class Subject(Protocol):
    """A store of a framework, in use, with one conversation in it."""

    async def turn(self, number: int) -> None:
        """One turn of the conversation; they are counted from 0."""

    async def close(self) -> None:
        """Let go of the files."""


Make: TypeAlias = Callable[[Path], Awaitable[Subject]]
"""Opens a store of its own in an empty directory."""


class Framework(msgspec.Struct, frozen=True):
    name: str
    clew: Make
    """The adapter, on SQLite with full durability."""
    theirs: Mapping[str, Make]
    """What the framework ships, by name, the one to be compared with first."""
    message_bytes: Callable[[int], int]
    """The size of all messages of so many turns, as the framework's own JSON."""
    disk: float = 1.5
    """The store may be so many times as large as the messages."""
