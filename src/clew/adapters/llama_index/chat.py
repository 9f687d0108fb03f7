"""A chat store of LlamaIndex: the messages of each key, in the log of one session."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

from llama_index.core.base.llms.types import ContentBlock, MessageRole
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store.base import BaseChatStore

import clew
from clew.adapters.common import (
    Remembered,
    dump_model,
    encode,
    faces,
    find_own,
    listed,
    mended,
    messages_in,
    newest,
    open_own,
    restored,
    rewind_before,
    session_id,
)

# -- one transaction each, on the log of a key

Said: TypeAlias = dict[str, Any]
"""A message as it is stored."""

FRAMEWORK: Final = "llama-index"


def made(store: clew.Store, key: str) -> clew.Session:
    """The session of a key, created if there is none."""
    return open_own(store, session_id(key), {"framework": FRAMEWORK, "key": key})


def found(store: clew.Store, key: str) -> clew.Session | None:
    """The session of a key, if there is one."""
    return find_own(store, session_id(key), FRAMEWORK)


def keys(store: clew.Store) -> list[str]:
    """All keys, in the order in which they were first used."""
    infos = sorted(listed(store, {"framework": FRAMEWORK}), key=lambda info: (info.created_at, info.id))
    return [_key_of(info) for info in infos]


def _key_of(info: clew.SessionInfo) -> str:
    key = info.metadata.get("key")
    # A fork has the metadata of its base; it is found by its own id.
    return key if isinstance(key, str) and session_id(key) == info.id else info.id


def adding(key: str, said: Said, index: int | None) -> Callable[[clew.Store], None]:
    """`index` means the same as in `list.insert`; None: at the end."""

    def work(store: clew.Store) -> None:
        session = made(store, key)
        if index is None:
            session.append(said)
            return
        path = messages_in(session)
        after = path[index:]
        if after:
            rewind_before(session, after[0])
        session.append(said, *(entry.raw for entry in after))

    return work


def setting(key: str, said: Sequence[Said]) -> Callable[[clew.Store], None]:
    """Only the messages that differ from those on the path are written."""

    def work(store: clew.Store) -> None:
        session = made(store, key)
        path = messages_in(session)
        same = 0
        while same < min(len(path), len(said)) and is_same(path[same], said[same]):
            same += 1
        if same < len(path):
            rewind_before(session, path[same])
        session.append(*said[same:])

    return work


def deleting(key: str, index: int) -> Callable[[clew.Store], Said | None]:
    """`index` means the same as in `list.pop`; no error if there is no such message."""

    def work(store: clew.Store) -> Said | None:
        session = found(store, key)
        path = [] if session is None else messages_in(session)
        if session is None or index >= len(path):
            return None
        after = path[index:][1:]
        taken = path[index]
        rewind_before(session, taken)
        session.append(*(entry.raw for entry in after))
        return taken.message

    return work


def deleting_last(key: str) -> Callable[[clew.Store], Said | None]:
    def work(store: clew.Store) -> Said | None:
        session = found(store, key)
        latest = [] if session is None else newest(session, 1)
        if session is None or not latest:
            return None
        rewind_before(session, latest[0])
        return latest[0].message

    return work


def deleting_all(key: str) -> Callable[[clew.Store], list[Said] | None]:
    def work(store: clew.Store) -> list[Said] | None:
        session = found(store, key)
        if session is None:
            return None
        said = session.messages()
        store.delete(session.id)
        return said

    return work


def is_same(entry: clew.Entry, said: Said) -> bool:
    """Whether an entry is this message as it was stored."""
    if entry.replaced:
        said = json.loads(mended(encode(said)))
    return entry.message == said


# -- messages as JSON, and back

_BLOCKS: dict[str, Any] = {
    kind.model_fields["block_type"].default: kind for kind in get_args(get_args(ContentBlock)[0])
}


def written(message: ChatMessage) -> Said:
    return dump_model(message)


def read_message(said: Said) -> ChatMessage:
    said = restored(said)
    try:
        return ChatMessage.model_validate(said)
    except (ValueError, AttributeError, TypeError):
        # It was valid when it was stored: a file that it names may be gone, a document may be only text now.
        return ChatMessage.model_construct(
            role=MessageRole(said["role"]),
            additional_kwargs=said["additional_kwargs"],
            blocks=[_read_block(block) for block in said["blocks"]],
        )


def _read_block(block: dict[str, Any]) -> Any:
    kind = _BLOCKS[block["block_type"]]
    try:
        return kind.model_validate(block)
    except ValueError:
        path = block.get("path")
        return kind.model_construct(**{**block, "path": Path(path) if isinstance(path, str) else path})


# -- the chat store

MOST_REMEMBERED: Final = 64
"""Keys whose histories are kept in memory."""


def faces_of(
    store: clew.Store | clew.AsyncStore | None, location: str | None
) -> tuple[clew.Store, clew.AsyncStore]:
    """Both faces of the store that a chat store is given, or of the one at a location."""
    if store is None and location is None:
        raise clew.InvalidError("a chat store needs a store, as clew.open() gives, or the location of one")
    return faces(clew.open(location) if store is None else store)


class ClewChatStore(BaseChatStore):
    """A `BaseChatStore` on an open store of Clew. It does not close the store.

    Serialized as a component of LlamaIndex it is the location of its store: `from_dict` opens that.
    """

    location: str

    _blocking: clew.Store = PrivateAttr()
    _tasks: clew.AsyncStore = PrivateAttr()
    _histories: dict[str, Remembered] = PrivateAttr(default_factory=dict)

    def __init__(
        self, store: clew.Store | clew.AsyncStore | None = None, *, location: str | None = None, **data: Any
    ) -> None:
        blocking, tasks = faces_of(store, location)
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
        """The session of a key: for `checkpoint(name, files=…)`, `rewind`, `fork`, `undo` and so on."""
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
        """Append a message; with `idx`, insert it before the message at that index."""
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
