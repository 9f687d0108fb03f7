"""Pydantic AI's message histories in a store."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

import clew
from clew.adapters.common import faces, session_id
from clew.adapters.pydantic_ai.write import (
    Found,
    Order,
    Whereabouts,
    conversations,
    delete,
    draft_of,
    encoded,
    find_anywhere,
    find_near,
    history,
    standing_in,
    standing_of,
    write,
)


class ClewConversationStore(ConversationStore):
    """A `ConversationStore` that keeps its conversations in a Clew store of any kind.

    A deleted conversation is in the trash of the store, from which it can be brought back; its entries stay
    readable as long as a fork shares its tree, and are removed for good by `store.delete(id, purge=True)`.
    """

    def __init__(self, store: clew.Store | clew.AsyncStore, *, run: clew.AsyncRun | None = None) -> None:
        """`run`: write to the session of this run under its lease."""
        self._store, self._tasks = faces(store)
        self._run = run
        self._whereabouts = Whereabouts()

    def session(self, conversation_id: str) -> clew.Session:
        """The Clew session of a conversation, for what the framework cannot do: checkpoints with files,
        rewind, undo, search, export. SessionNotFoundError if there is none."""
        return self._store.get(session_id(conversation_id))

    # -- records

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        standing = await self._tasks.read(partial(standing_in, conversation_id=conversation_id))
        if standing is None:
            return None
        self._note(standing.record)
        return standing.record

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Newest first. Reads every conversation (of the scope), whatever the limit."""
        records = await self._tasks.read(partial(_records, scope=scope))
        for record in records[:limit]:
            self._note(record)
        return records[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        drafts = tuple(draft_of(entry) for entry in new_entries)
        order = Order(record, encoded(record), drafts, expected_revision)
        for _ in range(len(drafts) + 2):  # each round finds one more entry
            try:
                await self._tasks.transact(partial(self._write, order=order), run=self._run)
            except _NotNear as unknown:
                await self._search(unknown.entry, record.conversation_id)
            else:
                self._note(record, *(draft.id for draft in drafts))
                return
        raise ConversationConflict(record.conversation_id)  # it was deleted as often as it was found

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Put the session in the trash. Messages that forks share with it stay."""
        deletion = partial(delete, conversation_id=conversation_id, expected_revision=expected_revision)
        await self._tasks.transact(deletion, run=self._run)

    # -- entries

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        (entry,) = await self._history(entry_id, 1)
        return entry

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        if head_id is None or (limit is not None and limit <= 0):
            return []
        return await self._history(head_id, limit)

    async def _history(self, head_id: str, limit: int | None) -> list[ConversationEntry]:
        def read(store: clew.Store) -> tuple[str, list[ConversationEntry]]:
            near = self._whereabouts.near(head_id)
            found = find_near(store, head_id, near) or find_anywhere(store, head_id)
            if found is None:
                raise LookupError(f"no conversation has an entry {head_id!r}")
            return found.session.id, history(found.session, found.place, limit)

        session, entries = await self._tasks.read(read)
        self._whereabouts.note(session, [head_id])
        return entries

    # -- in a transaction

    def _write(self, store: clew.Store, order: Order) -> None:
        record = order.record
        base = None if record.forked_from is None else session_id(record.forked_from)

        def find(entry: str) -> Found:
            found = find_near(store, entry, self._whereabouts.near(entry, base))
            if found is None:
                raise _NotNear(entry)
            return found

        write(store, order, find)

    async def _search(self, entry: str, conversation_id: str) -> None:
        """Search an entry in all conversations, outside any transaction, because that may take long."""
        found = await self._tasks.read(partial(find_anywhere, entry=entry))
        if found is None:
            raise ConversationConflict(conversation_id)
        self._whereabouts.note(found.session.id, [entry])

    def _note(self, record: ConversationRecord, *entries: str) -> None:
        id = session_id(record.conversation_id)
        self._whereabouts.note(id, [*entries, *record.branches, record.head_id])


class _NotNear(Exception):
    """An entry is in none of the sessions that were searched first."""

    def __init__(self, entry: str) -> None:
        self.entry = entry


def _records(store: clew.Store, scope: str | None) -> list[ConversationRecord]:
    found = (standing_of(session) for session in conversations(store, scope))
    records = [standing.record for standing in found if standing is not None]
    return sorted(records, key=lambda record: record.updated_at, reverse=True)
