"""The chat store of LlamaIndex's newer `Memory`: active and archived messages.

    memory = Memory.from_defaults(session_id="ada", chat_store=ClewDBChatStore(clew.open("agents.db")))

The oldest messages of the path are archived, the others are active. A label on the last archived entry says
where the archive ends, so a rewind of the session also rewinds the archive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

import clew
from clew.adapters.common import messages_in, rewind_before
from clew.adapters.llama_index.chat import (
    Said,
    deleting_all,
    faces_of,
    found,
    is_same,
    keys,
    made,
    read_message,
    written,
)

Status: TypeAlias = Literal["active", "archived"]
T = TypeVar("T")

ARCHIVED: Final = "archived"


class Queue(NamedTuple):
    archived: list[clew.Entry]
    active: list[clew.Entry]

    def of(self, status: Status | None) -> list[clew.Entry]:
        if status is None:
            return [*self.archived, *self.active]
        return self.archived if status == ARCHIVED else self.active


def queue_of(session: clew.Session) -> Queue:
    path = messages_in(session)
    ends = [index for index, entry in enumerate(path) if entry.annotations.get("label") == ARCHIVED]
    end = ends[-1] + 1 if ends else 0
    return Queue(path[:end], path[end:])


def active_in(store: clew.Store, key: str) -> list[Said]:
    """The active messages. The archive is not read for them."""
    session = found(store, key)
    if session is None:
        return []
    return session.messages(after=next(session.entries(label=ARCHIVED, newest_first=True), None))


def looking(key: str, look: Callable[[Queue], T], default: T) -> Callable[[clew.Store], T]:
    def work(store: clew.Store) -> T:
        session = found(store, key)
        return default if session is None else look(queue_of(session))

    return work


def adding(key: str, said: Sequence[Said], status: Status) -> Callable[[clew.Store], None]:
    """Archived messages are added at the end of the archive."""

    def work(store: clew.Store) -> None:
        if not said:
            return
        session = made(store, key)
        if status == ARCHIVED:
            _rewrite(session, said, ARCHIVED, queue_of(session).active)
        else:
            session.append(*said)

    return work


def setting(key: str, said: Sequence[Said], status: Status) -> Callable[[clew.Store], None]:
    def work(store: clew.Store) -> None:
        session = made(store, key) if said else found(store, key)
        if session is None:
            return
        path, same = queue_of(session), 0
        if status != ARCHIVED and not path.archived:
            while same < min(len(path.active), len(said)) and is_same(path.active[same], said[same]):
                same += 1
        everything = path.of(None)
        if same < len(everything):
            rewind_before(session, everything[same])
        _rewrite(session, said[same:], status, [])

    return work


def archiving(key: str, count: int) -> Callable[[clew.Store], list[Said]]:
    """Archive the oldest active messages."""

    def work(store: clew.Store) -> list[Said]:
        session = found(store, key)
        oldest = [] if session is None else queue_of(session).active[: max(count, 0)]
        if session is not None and oldest:
            session.annotate(oldest[-1], label=ARCHIVED)
        return [entry.message for entry in oldest]

    return work


def taking(key: str, choose: Callable[[Queue], list[clew.Entry]]) -> Callable[[clew.Store], list[Said]]:
    """Take entries off the path; they stay on a branch. The status of the others does not change."""

    def work(store: clew.Store) -> list[Said]:
        session = found(store, key)
        if session is None:
            return []
        queue = queue_of(session)
        taken = choose(queue)
        if taken:
            _leave_out(session, queue, {entry.id for entry in taken})
        return [entry.message for entry in taken]

    return work


def _leave_out(session: clew.Session, queue: Queue, gone: set[str]) -> None:
    first = next(entry for entry in queue.of(None) if entry.id in gone)
    rewind_before(session, first)
    earlier = [entry for entry in queue.archived if entry.position < first.position]
    if earlier:  # the label may be on an entry that is taken away
        session.annotate(earlier[-1], label=ARCHIVED)
    later = [
        [entry for entry in part if entry.position > first.position and entry.id not in gone]
        for part in queue
    ]
    _rewrite(session, [entry.message for entry in later[0]], ARCHIVED, [])
    session.append(*(entry.raw for entry in later[1]))


def _rewrite(
    session: clew.Session, said: Sequence[Said], status: Status, behind: Sequence[clew.Entry]
) -> None:
    """Write messages of a status before entries that are on the path."""
    if behind:
        rewind_before(session, behind[0])
    written = session.append(*said)
    if status == ARCHIVED and written:
        session.annotate(written[-1], label=ARCHIVED)
    session.append(*(entry.raw for entry in behind))


# -- the chat store

ACTIVE = MessageStatus.ACTIVE


class ClewDBChatStore(AsyncDBChatStore):
    """An `AsyncDBChatStore` on an open store of Clew. It does not close the store.

    Active and archived messages are all in the session of their key, where Clew finds and shows them.
    """

    location: str

    _blocking: clew.Store = PrivateAttr()
    _tasks: clew.AsyncStore = PrivateAttr()

    def __init__(
        self, store: clew.Store | clew.AsyncStore | None = None, *, location: str | None = None, **data: Any
    ) -> None:
        blocking, tasks = faces_of(store, location)
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
        """The session of a key: for `checkpoint(name, files=…)`, `rewind`, `fork`, `undo` and so on."""
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
        """Delete and return the message at this index of all messages; None: there is none."""
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
