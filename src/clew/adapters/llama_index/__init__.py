"""Chat stores of LlamaIndex in a Clew store.

    from clew.adapters.llama_index import ClewChatStore        # pip install 'clew[llama-index]'

    chats = ClewChatStore(clew.open("agents.db"))
    memory = ChatMemoryBuffer.from_defaults(chat_store=chats, chat_store_key="ada")

For the newer `Memory` there is `ClewDBChatStore`, which also knows what is archived.

Each key is a session, each message one entry of its log, written once. What is set or deleted branches off
where it differs from what was there: `chats.session("ada").undo()` brings the old messages back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import clew
from clew.adapters.common.remembered import Remembered
from clew.adapters.common.sessions import faces, missing, session_id
from clew.adapters.llama_index.log import (
    Said,
    adding,
    deleting,
    deleting_all,
    deleting_last,
    found,
    keys,
    made,
    setting,
)

try:
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.llms import ChatMessage
    from llama_index.core.storage.chat_store.base import BaseChatStore

    from clew.adapters.llama_index.db import ClewDBChatStore
    from clew.adapters.llama_index.messages import read_message, written
except ImportError as exc:
    raise missing("llama-index", exc) from exc

__all__ = ["ClewChatStore", "ClewDBChatStore"]

MOST_REMEMBERED: Final = 64
"""Keys whose histories are kept in memory."""


class ClewChatStore(BaseChatStore):
    """A `BaseChatStore` over an open store of Clew, which stays yours to close.

    As a component it is written down as the location of its store: `from_dict` opens that.
    """

    location: str

    _blocking: clew.Store = PrivateAttr()
    _tasks: clew.AsyncStore = PrivateAttr()
    _histories: dict[str, Remembered] = PrivateAttr(default_factory=dict)

    def __init__(
        self, store: clew.Store | clew.AsyncStore | None = None, *, location: str | None = None, **data: Any
    ) -> None:
        if store is None and location is None:
            raise clew.InvalidError(
                "a chat store needs a store, as clew.open() gives, or the location of one"
            )
        blocking, tasks = faces(clew.open(location) if store is None else store)
        fields: dict[str, Any] = {"location": blocking.location}
        super().__init__(**fields)
        self._blocking, self._tasks = blocking, tasks

    @classmethod
    def class_name(cls) -> str:
        return "ClewChatStore"

    @property
    def store(self) -> clew.Store:
        """The store behind it."""
        return self._blocking

    def session(self, key: str) -> clew.Session:
        """The session of a key: `checkpoint(name, files=…)`, `rewind`, `fork`, `undo`, and all else."""
        return made(self._blocking, key)

    # -- reading

    def get_messages(self, key: str) -> list[ChatMessage]:
        return [read_message(said) for said in self._blocking.read(self._read(key))]

    async def aget_messages(self, key: str) -> list[ChatMessage]:
        return [read_message(said) for said in await self._tasks.read(self._read(key))]

    def _read(self, key: str) -> Callable[[clew.Store], list[Said]]:
        id = session_id(key)
        history = self._histories.get(id)
        if history is None:
            if len(self._histories) >= MOST_REMEMBERED:
                self._histories = {}
            history = self._histories[id] = Remembered()
        return lambda store: history.messages(store, found(store, key))

    def get_keys(self) -> list[str]:
        return self._blocking.read(keys)

    async def aget_keys(self) -> list[str]:
        return await self._tasks.read(keys)

    # -- writing: each is one transaction

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        self._blocking.transact(setting(key, [written(message) for message in messages]))

    async def aset_messages(self, key: str, messages: list[ChatMessage]) -> None:
        await self._tasks.transact(setting(key, [written(message) for message in messages]))

    def add_message(self, key: str, message: ChatMessage, idx: int | None = None) -> None:
        """Append a message; with `idx`, put it before the one that is there."""
        self._blocking.transact(adding(key, written(message), idx))

    async def async_add_message(self, key: str, message: ChatMessage, idx: int | None = None) -> None:
        await self._tasks.transact(adding(key, written(message), idx))

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Put the session of a key in the trash, and return its messages; None: there is none."""
        return _all_read(self._blocking.transact(deleting_all(key)))

    async def adelete_messages(self, key: str) -> list[ChatMessage] | None:
        return _all_read(await self._tasks.transact(deleting_all(key)))

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Take a message away, and return it; None: there is none at this index."""
        return _read(self._blocking.transact(deleting(key, idx)))

    async def adelete_message(self, key: str, idx: int) -> ChatMessage | None:
        return _read(await self._tasks.transact(deleting(key, idx)))

    def delete_last_message(self, key: str) -> ChatMessage | None:
        return _read(self._blocking.transact(deleting_last(key)))

    async def adelete_last_message(self, key: str) -> ChatMessage | None:
        return _read(await self._tasks.transact(deleting_last(key)))


def _read(said: Said | None) -> ChatMessage | None:
    return None if said is None else read_message(said)


def _all_read(said: list[Said] | None) -> list[ChatMessage] | None:
    return None if said is None else [read_message(each) for each in said]
