"""OpenAI's Conversations API: `openai.OpenAI(base_url="http://127.0.0.1:8731/v1", api_key=TOKEN)`.

A conversation is made as a session whose metadata names the framework `openai-conversations`. Every other
session can be read too, by its id, as long as its messages are written as OpenAI's Responses API writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count, islice
from typing import Any, Final

from clew.core.conversation.append import hold_key, holds_key
from clew.core.log.records import COPIED_FROM, MADE_BY, PARENT
from clew.errors import SessionNotFoundError, SessionTakenError
from clew.model import Entry, Head, Json, SessionInfo
from clew.server.call import Call
from clew.server.conversations.items import given_ids, has_own_id, new_id, place_id, refused, shown, taken
from clew.server.conversations.places import find_id, places_of
from clew.server.conversations.wire import (
    ChangedConversation,
    Conversation,
    DeletedConversation,
    Included,
    Item,
    ItemList,
    ItemsQuery,
    NewConversation,
    NewItems,
)
from clew.server.problems import Problem
from clew.server.routes.sessions import trash_session
from clew.server.routing import Routes
from clew.session import Session
from clew.store import Store

FRAMEWORK: Final = "openai-conversations"
WRITES_TO: Final = frozenset({FRAMEWORK, "openai-agents"})
"""The frameworks whose sessions this API also writes to: they keep the same items."""
KEPT_AS: Final = {name: f"openai.{name}" for name in ("framework", PARENT, COPIED_FROM, MADE_BY)}
"""A pair of a client's metadata whose name the store needs itself is kept under another one."""
BEGINNING: Final = Head("", -1)

routes = Routes(prefix="/v1")


@routes.post("/conversations", answer=Conversation)
def create_conversation(call: Call, body: NewConversation) -> Conversation:
    """Make a conversation, with its first items."""
    given = body.items or ()
    items = taken(given, call.hashed_key("items"))
    _check_distinct(given_ids(given))
    metadata = {**_stored(body.metadata or {}), "framework": FRAMEWORK}
    settings = call.new_settings({"metadata": metadata})
    key, former = call.hashed_key(), call.former_key

    def work(store: Store) -> SessionInfo:
        # A repeat with the same key finds what the first request made, also that of an older Clew.
        session = None if former is None else _made_before(call, store, new_id("conv", former), former)
        if session is not None:
            session.append(*taken(given, former), key=former)
        else:
            session = _made_now(call, store, key, settings)
            session.append(*items, key=key)
        return session.info

    return _conversation(call.store.transact(work))


def _made_before(call: Call, store: Store, id: str, key: str) -> Session | None:
    """The conversation that this caller made by this key. Another session may have its id: one that somebody
    planted, or that was put in its place. None: there is none, or it is not the caller's to see any more."""
    session = store.find(id)
    if session is None or not call.principal.sees(session.info):
        return None
    with session._look() as (reader, row):
        return session if row.id == id and holds_key(reader, row.sid, key) else None


def _made_now(call: Call, store: Store, key: str | None, settings: dict[str, Any]) -> Session:
    """The conversation of a key, or a new one. If something else has its id, it gets another one."""
    for number in count():
        id = new_id("conv", call.hashed_key(f"conversation {number}"))
        if store.find(id) is None:
            session = store.create(id, **settings)
            if key is not None:
                session._scope.run(partial(hold_key, sid=session._sid, key=key))
            return session
        found = None if key is None else _made_before(call, store, id, key)
        if found is not None:
            return found
    raise AssertionError("not reached")


@routes.get("/conversations/{conversation_id}", answer=Conversation)
def get_conversation(call: Call, conversation_id: str) -> Conversation:
    """A conversation, without its items."""
    return _conversation(call.session(conversation_id).info)


@routes.post("/conversations/{conversation_id}", answer=Conversation)
def update_conversation(call: Call, conversation_id: str, body: ChangedConversation) -> Conversation:
    """Replace the metadata of a conversation."""

    def work(session: Session) -> SessionInfo:
        before = session.info.metadata
        hidden = {name: value for name, value in before.items() if not _is_shown(name, value)}
        session.update(metadata={**hidden, **_stored(body.metadata or {})})
        return session.info

    return _conversation(call.change(call.session(conversation_id), work))


@routes.delete("/conversations/{conversation_id}", answer=DeletedConversation)
def delete_conversation(call: Call, conversation_id: str) -> DeletedConversation:
    """Put a conversation in the trash, from which it can be restored."""
    session = call.session(conversation_id)
    if not trash_session(call, call.store, session.id):
        raise SessionNotFoundError(conversation_id)
    return DeletedConversation(id=session.id)


@routes.post("/conversations/{conversation_id}/items", answer=ItemList)
def create_items(call: Call, conversation_id: str, query: Included, body: NewItems) -> ItemList:
    """Add items at the end of a conversation, all of them or none."""
    session = call.session(conversation_id)
    _check_writable(session)
    key = call.key_in(session)
    # Nobody computes these ids: `key` is a keyed hash, but for what an older Clew has stored.
    items = taken(body.items, session.id if key is not None else None, key)
    ids = given_ids(body.items)
    if ids:
        _check_distinct(ids)
        entries = call.change(session, lambda inside: _append_new(inside, items, ids, key))
    else:
        entries = session.append(*items, key=key, expect=call.expect)
    return _listed(call, session, entries, has_more=False)


@routes.get("/conversations/{conversation_id}/items", answer=ItemList)
def list_items(call: Call, conversation_id: str, query: ItemsQuery) -> ItemList:
    """List the items of a conversation."""
    session = call.session(conversation_id)
    after = None
    if query.after is not None:
        after = places_of(call.store).find(session, query.after)
        if after is None:
            raise _no_item(query.after, session, "after")
    if query.order == "asc":
        path = session.entries(after=after)
    else:
        path = session.entries(before=after, newest_first=True)
    found = list(islice(_messages(path), query.limit + 1))
    return _listed(call, session, found[: query.limit], has_more=len(found) > query.limit)


@routes.get("/conversations/{conversation_id}/items/{item_id}", answer=Item)
def get_item(call: Call, conversation_id: str, item_id: str, query: Included) -> dict[str, Json]:
    """One item of a conversation."""
    session = call.session(conversation_id)
    entry = places_of(call.store).find(session, item_id)
    if entry is None:
        raise _no_item(item_id, session)
    return shown(entry)


@routes.delete("/conversations/{conversation_id}/items/{item_id}", answer=Conversation)
def delete_item(call: Call, conversation_id: str, item_id: str) -> Conversation:
    """Take an item out of a conversation.

    The others keep their order and their ids; `undo` of the session brings it back.
    """
    session = call.session(conversation_id)
    _check_writable(session)

    def work(inside: Session) -> SessionInfo:
        entry = places_of(call.store).find(inside, item_id)
        if entry is None:
            raise _no_item(item_id, session)
        later = list(_messages(inside.entries(after=entry)))
        inside.rewind(entry.position - 1 if entry.position else BEGINNING)
        for one in later:
            # What has no id of its own is known by its place, which is another one now: so it keeps that id.
            message = one.raw if has_own_id(one.message) else {**one.message, "id": place_id(one)}
            inside.append(message, at=one.time)
        return inside.info

    return _conversation(call.change(session, work))


# -- inside


def _append_new(
    session: Session, items: list[dict[str, Json]], ids: list[str], key: str | None
) -> list[Entry]:
    """Append items some of which a client named itself: no two items of a conversation have the same id."""
    before = session.head.position
    entries = session.append(*items, key=key)
    if entries[0].position > before:  # else it is a repeat, and was checked the first time
        for id in ids:
            if find_id(session, id, before=entries[0]) is not None:
                raise _duplicate(id)
    return entries


def _check_distinct(ids: list[str]) -> None:
    for at, id in enumerate(ids):
        if id in ids[:at]:
            raise _duplicate(id)


def _check_writable(session: Session) -> None:
    """Other frameworks keep their messages in other forms: what is written between them would spoil both."""
    owner = _framework_of(session)
    if owner is not None and owner not in WRITES_TO:
        raise SessionTakenError(session.id, FRAMEWORK, str(owner))


def _framework_of(session: Session) -> Json:
    return session.info.metadata.get("framework")


def _messages(entries: Iterator[Entry]) -> Iterator[Entry]:
    return (entry for entry in entries if entry.kind == "message")


def _listed(call: Call, session: Session, entries: list[Entry], *, has_more: bool) -> ItemList:
    data = [shown(entry) for entry in entries]
    if not data:
        return ItemList(data=data, first_id=None, last_id=None, has_more=False)
    last = data[-1]["id"]
    if _framework_of(session) == FRAMEWORK:
        places_of(call.store).remember(session, last, entries[-1])
    else:
        # Elsewhere several items may have the same id; the place tells them apart.
        last = place_id(entries[-1])
    return ItemList(data=data, first_id=data[0]["id"], last_id=last, has_more=has_more)


def _conversation(info: SessionInfo) -> Conversation:
    return Conversation(
        id=info.id, created_at=int(info.created_at.timestamp()), metadata=_shown_metadata(info.metadata)
    )


def _stored(metadata: dict[str, str]) -> dict[str, str]:
    return {KEPT_AS.get(name, name): value for name, value in metadata.items()}


def _is_shown(name: str, value: Json) -> bool:
    return isinstance(value, str) and name not in KEPT_AS


def _shown_metadata(metadata: dict[str, Json]) -> dict[str, str]:
    names = {kept: name for name, kept in KEPT_AS.items()}
    return {names.get(name, name): value for name, value in metadata.items() if _is_shown(name, value)}


def _no_item(id: str, session: Session, param: str | None = None) -> Problem:
    return Problem(
        404,
        "item_not_found",
        "There is no such item",
        f"Item with id '{id[:200]}' not found in conversation '{session.id}'.",
        fields={"param": param},
    )


def _duplicate(id: str) -> Problem:
    return refused("items", "duplicate_item", f"the conversation has an item with the id '{id}' already")
