"""Pydantic AI's message histories in a store."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

import clew
from clew.adapters.common import faces, listed, session_id
from clew.adapters.pydantic_ai.write import (
    FRAMEWORK,
    Order,
    delete,
    draft_of,
    encoded,
    history,
    id_of,
    newest_first,
    place_named,
    place_of,
    places_of,
    standing_in,
    standing_of,
    write,
)

# ── Where an entry is, if only its id is known ────────────────────────────────────────────────────
# A session keeps the places of its entries in documents, so they are copied with the session, and no two
# conversations wait for each other. An entry that an adapter has not seen yet is searched in all
# conversations, the latest active ones first.
#
# The framework's ids grow with time. So entries that were written together need only one document, whose name
# is the greatest of their ids: an id is found under the next name that is not below it. Other ids have a
# document each.

_REMEMBERED: Final = 4096
_SOME: Final = 4
"""How many batches are searched: if the clocks of two machines differ, their ids may be mixed."""
_IN_TIME: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\Z")


class Found(NamedTuple):
    session: clew.Session
    place: clew.Head


def keep_places(session: clew.Session, ids: Sequence[str], last: clew.Entry) -> None:
    """Keep the places of entries that were written one behind the other, up to `last`."""
    if all(map(_IN_TIME.match, ids)):
        session.set_document(_document(max(ids)), f"{last.id} {len(ids)} {min(ids)}".encode())
        return
    branch, _, position = last.id.rpartition(".")
    for back, id in enumerate(reversed(ids)):
        session.set_document(_document(id), f"{branch}.{int(position) - back} 1".encode())


def _in_batches(session: clew.Session, entry: str) -> clew.Head | None:
    content = session.get_document(_document(entry))
    if content is not None:
        return _in_batch(session, content, entry)
    if not _IN_TIME.match(entry):
        return None
    following = session.documents("entry/", after=_document(entry), limit=_SOME)
    found = (_in_batch(session, content, entry) for _, content in following)
    return next((place for place in found if place is not None), None)


def _in_batch(session: clew.Session, content: bytes, entry: str) -> clew.Head | None:
    last, count, *least = content.decode().split(" ")
    if least and entry < least[0]:
        return None
    batch = session.entries(at=place_named(last), last=int(count))
    return next((place_of(each) for each in batch if id_of(each) == entry), None)


def _document(entry: str) -> str:
    return session_id("entry", entry)


class Whereabouts:
    """In which sessions entries were seen: a hint that saves a search, and may be wrong."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, str] = OrderedDict()

    def note(self, session: str, entries: Iterable[str | None]) -> None:
        for entry in entries:
            if entry is not None:
                self._seen[entry] = session
        while len(self._seen) > _REMEMBERED:
            try:
                self._seen.popitem(last=False)
            except KeyError:  # another thread was faster
                return

    def near(self, entry: str, *others: str | None) -> list[str]:
        """The sessions to search first."""
        candidates = (self._seen.get(entry), *others)
        return list(dict.fromkeys(id for id in candidates if id is not None))


def find_near(store: clew.Store, entry: str, near: Iterable[str]) -> Found | None:
    """The place of an entry, if one of these sessions has it."""
    for id in near:
        session = store.find(id)
        place = None if session is None else place_in(session, entry)
        if session is not None and place is not None:
            return Found(session, place)
    return None


def find_anywhere(store: clew.Store, entry: str) -> Found | None:
    """The place of an entry in any conversation; the cost grows with their number."""
    forks: list[str] = []
    for info in listed(store, {"framework": FRAMEWORK}):
        session = store.get(info.id)
        place = place_in(session, entry)
        if place is not None:
            return Found(session, place)
        if info.forked_from is not None:
            forks.append(info.id)
    # A fork has no documents for messages that it shares with a deleted conversation: read its messages.
    for id in forks:
        session = store.get(id)
        place = next((place_of(each) for each in newest_first(session) if id_of(each) == entry), None)
        if place is not None:
            return Found(session, place)
    return None


def place_in(session: clew.Session, entry: str) -> clew.Head | None:
    """The place of an entry in a session; None: the session did not write it, and does not stand at it."""
    return places_of(session).get(entry) or _in_batches(session, entry)


def conversations(store: clew.Store, scope: str | None) -> Iterator[clew.Session]:
    """All of the framework, or those of one scope."""
    where = {"framework": FRAMEWORK} if scope is None else {"framework": FRAMEWORK, "scope": scope}
    for info in listed(store, where):
        yield store.get(info.id)


# ── `ClewConversationStore`: the protocol of Pydantic AI's conversation stores ────────────────────


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
