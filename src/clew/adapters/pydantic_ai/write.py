"""One write of the framework, in one transaction: check the revision, append entries, write the record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from pydantic_ai.conversation_store import ConversationConflict, ConversationRecord

import clew
from clew.adapters.common.history import BEGINNING
from clew.adapters.common.sessions import find_own, open_own, session_id
from clew.adapters.pydantic_ai.places import Found, keep_places, place_in
from clew.adapters.pydantic_ai.records import (
    DOCUMENT,
    FRAMEWORK,
    Draft,
    document,
    id_of,
    newest_first,
    place_of,
    standing_of,
)

Find = Callable[[str], Found]
"""Finds an entry of another conversation."""


class Order(msgspec.Struct, frozen=True):
    """A write, prepared before the transaction."""

    record: ConversationRecord
    encoded: bytes
    drafts: Sequence[Draft]
    expected_revision: str | None

    @property
    def id(self) -> str:
        return session_id(self.record.conversation_id)

    @property
    def metadata(self) -> dict[str, Any]:
        scope = self.record.scope
        return {"framework": FRAMEWORK} if scope is None else {"framework": FRAMEWORK, "scope": scope}


def write(store: clew.Store, order: Order, find: Find) -> None:
    """Write all of it, or raise ConversationConflict."""
    session = find_own(store, order.id, FRAMEWORK)
    standing = standing_of(session)
    if (None if standing is None else standing.record.revision) != order.expected_revision:
        raise ConversationConflict(order.record.conversation_id)
    if session is None:
        session = _begun(store, order, find)
    elif standing is None or standing.record.scope != order.record.scope:
        session.update(metadata=_without_scope(session.info.metadata) | order.metadata)
    _Writer(session, order, {} if standing is None else standing.places, find).write()


def delete(store: clew.Store, conversation_id: str, expected_revision: str) -> None:
    session = find_own(store, session_id(conversation_id), FRAMEWORK)
    standing = standing_of(session)
    if session is None or standing is None or standing.record.revision != expected_revision:
        raise ConversationConflict(conversation_id)
    store.delete(session.id)


def _begun(store: clew.Store, order: Order, find: Find) -> clew.Session:
    """A new session; if it begins with entries of another conversation, a fork of that one."""
    anchor = order.drafts[0].parent_id if order.drafts else order.record.head_id
    if anchor is None or store.find(order.id) is not None:
        model = next((draft.usage["model"] for draft in order.drafts if draft.usage), None)
        return open_own(store, order.id, order.metadata, model=model)
    base, place = find(anchor)
    session = base.fork(order.id, at=place)
    session.update(metadata=order.metadata)
    return session


def _without_scope(metadata: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name != "scope"}


class _Writer:
    def __init__(self, session: clew.Session, order: Order, places: dict[str, clew.Head], find: Find) -> None:
        self._session = session
        self._order = order
        self._places = dict(places)
        """The places of entries in this session."""
        self._find = find
        self._at = session.head

    def write(self) -> None:
        record = self._order.record
        for run in _runs(self._order.drafts):
            self._append(run)
        self._go_to(BEGINNING if record.head_id is None else self._place(record.head_id))
        tips = {tip: self._places[tip] for tip in record.branches if self._is_known(tip)}
        self._session.set_document(DOCUMENT, document(self._order.encoded, self._at, tips))

    def _append(self, run: list[Draft]) -> None:
        """Append entries, each of which follows the one before, behind the parent of the first."""
        parent = run[0].parent_id
        target = BEGINNING if parent is None else self._place(parent)
        if target != self._at:
            # Only entries that were written before can have another place than behind the head.
            while run and (again := place_in(self._session, run[0].id)) is not None:
                self._places[run.pop(0).id] = target = again
            self._go_to(target)
        if not run:
            return
        entries = self._session.append(*(draft.body for draft in run))
        for draft, entry in zip(run, entries, strict=True):
            if draft.usage is not None:
                self._session.add_usage(entry=entry, **draft.usage)
        self._keep([draft.id for draft in run], entries)

    def _keep(self, ids: Sequence[str], entries: Sequence[clew.Entry]) -> None:
        """Keep the places of entries that were just written."""
        self._places.update(zip(ids, map(place_of, entries), strict=True))
        keep_places(self._session, ids, entries[-1])
        self._at = place_of(entries[-1])

    def _go_to(self, place: clew.Head) -> None:
        if place == self._at:
            return
        if place == BEGINNING:
            self._session.clear()
        else:
            self._session.rewind(place)
        self._at = place

    def _place(self, id: str) -> clew.Head:
        """The place of an entry in this session's tree."""
        if not self._is_known(id):
            self._bring(self._find(id))
        return self._places[id]

    def _is_known(self, id: str) -> bool:
        if id not in self._places:
            place = place_in(self._session, id)
            if place is None:
                return False
            self._places[id] = place
        return True

    def _bring(self, found: Found) -> None:
        """Make an entry of another session, with all before it, reachable from this one."""
        entries = list(newest_first(found.session, found.place))[::-1]
        try:
            next(self._session.entries(at=found.place, last=1), None)
        except clew.errors.CheckpointNotFoundError:
            # The other session is in another tree and shares nothing: write the entries again.
            self._go_to(BEGINNING)
            copies = self._session.append(*(entry.raw for entry in entries))
            self._keep([id_of(entry) for entry in entries], copies)
        else:
            self._places[id_of(entries[-1])] = found.place


def _runs(drafts: Sequence[Draft]) -> list[list[Draft]]:
    """The drafts, split where one does not follow the one before it."""
    runs: list[list[Draft]] = []
    for draft in drafts:
        if runs and draft.parent_id == runs[-1][-1].id:
            runs[-1].append(draft)
        else:
            runs.append([draft])
    return runs
