"""Microsoft Agent Framework: beside its history provider on files, the only one on disks that it ships.

A turn is what an agent asks of its provider around a run: all messages of the session, then to save what the
run added: a question, a call of a tool, its result, the answer. The protocol has no word for a part of a
history, so every turn reads all of it. The files of the framework are not flushed to the disk.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Final

import msgspec
from agent_framework import Content, FileHistoryProvider, HistoryProvider, Message

import clew
from benchmarks.adapters import Framework
from clew.adapters.agent_framework import ClewHistoryProvider

_CHAT: Final = "chat-1"
_WORDS: Final = "the grey heron stands in the shallow water and waits for a fish to pass by "


def _messages(number: int) -> list[Message]:
    """What a run adds to the history."""
    call = f"call-{number}"
    asked = Content.from_function_call(call_id=call, name="look_up", arguments={"bird": "heron"})
    answered = Content.from_function_result(call_id=call, result=_WORDS * (2 + number * 5 % 13))
    return [
        Message("user", [f"{number}: {_WORDS * 2}"]),
        Message("assistant", [asked], author_name="watcher", message_id=f"a-{number}"),
        Message("tool", [answered]),
        Message("assistant", [_WORDS * 4], author_name="watcher", message_id=f"b-{number}"),
    ]


class _Talk:
    """A history in a store."""

    def __init__(self, provider: HistoryProvider, store: clew.Store | None = None) -> None:
        self._provider = provider
        self._store = store

    async def turn(self, number: int) -> None:
        await self._provider.get_messages(_CHAT)
        await self._provider.save_messages(_CHAT, _messages(number))

    async def close(self) -> None:
        if self._store is not None:
            self._store.close()


async def _clew(place: Path) -> _Talk:
    store = clew.open(place / "agents.db")
    return _Talk(ClewHistoryProvider(store), store)


async def _files(place: Path) -> _Talk:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # it is experimental, says the framework
        return _Talk(FileHistoryProvider(place))


def _size(turns: int) -> int:
    return sum(
        len(msgspec.json.encode(message.to_dict()))
        for number in range(turns)
        for message in _messages(number)
    )


FRAMEWORK: Final = Framework(
    name="agent-framework", clew=_clew, theirs={"FileHistoryProvider": _files}, message_bytes=_size
)
