"""What LlamaIndex's `Memory` keeps its queue in, in a Clew store.

from clew.adapters.llama_index import ClewDBChatStore

memory = Memory.from_defaults(session_id="ada", chat_store=ClewDBChatStore(clew.open("agents.db")))
"""

from __future__ import annotations

from typing import Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

import clew
from clew.adapters.common.sessions import faces
from clew.adapters.llama_index.log import Said, deleting_all, keys, made
from clew.adapters.llama_index.messages import read_message, written
from clew.adapters.llama_index.queue import (
    Queue,
    Status,
    active_in,
    adding,
    archiving,
    looking,
    setting,
    taking,
)

ACTIVE = MessageStatus.ACTIVE


class ClewDBChatStore(AsyncDBChatStore):
    """An `AsyncDBChatStore` over an open store of Clew, which stays yours to close.

    Every message stays in the session of its key, where Clew finds and shows it, active or archived.
    """

    location: str

    _blocking: clew.Store = PrivateAttr()
    _tasks: clew.AsyncStore = PrivateAttr()

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
        return "ClewDBChatStore"

    @property
    def store(self) -> clew.Store:
        """The store behind it."""
        return self._blocking

    def session(self, key: str) -> clew.Session:
        """The session of a key: `checkpoint(name, files=…)`, `rewind`, `fork`, `undo`, and all else."""
        return made(self._blocking, key)

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """Oldest first, from the `offset`th on, at most `limit`."""
        if status is ACTIVE:
            found = await self._tasks.read(lambda store: active_in(store, key))
        else:
            found = await self._tasks.read(looking(key, lambda queue: _said(queue, status), []))
        first = offset or 0
        return _read(found[first:] if limit is None else found[first : first + limit])

    async def count_messages(self, key: str, status: MessageStatus | None = ACTIVE) -> int:
        return await self._tasks.read(looking(key, lambda queue: len(queue.of(_name(status))), 0))

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = ACTIVE) -> None:
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = ACTIVE
    ) -> None:
        await self._tasks.transact(adding(key, [written(each) for each in messages], status.value))

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = ACTIVE
    ) -> None:
        await self._tasks.transact(setting(key, [written(each) for each in messages], status.value))

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """The message at this index of all that are there; None: there is none."""
        taken = await self._tasks.transact(taking(key, lambda queue: queue.of(None)[idx : idx + 1 or None]))
        return read_message(taken[0]) if taken else None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Without a status the session of the key goes to the trash."""
        if status is None:
            await self._tasks.transact(deleting_all(key))
        else:
            await self._tasks.transact(taking(key, lambda queue: queue.of(_name(status))))

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        return _read(await self._tasks.transact(taking(key, lambda queue: queue.active[: max(n, 0)])))

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        return _read(await self._tasks.transact(archiving(key, n)))

    async def get_keys(self) -> list[str]:
        return await self._tasks.read(keys)


def _name(status: MessageStatus | None) -> Status | None:
    return None if status is None else status.value


def _said(queue: Queue, status: MessageStatus | None) -> list[Said]:
    return [entry.message for entry in queue.of(_name(status))]


def _read(said: list[Said]) -> list[ChatMessage]:
    return [read_message(each) for each in said]
