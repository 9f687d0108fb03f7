"""Writing a Pydantic AI run: messages as entries, the rest as records."""

from __future__ import annotations

import dataclasses
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, ConversationRecord
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse

import clew
from clew.adapters.common import (
    BEGINNING,
    encode_model,
    entry_at,
    find_own,
    listed,
    mended,
    open_own,
    session_id,
    with_numbers,
)

# ── Messages as entries, and the record of a conversation ─────────────────────────────────────────
# Messages of Pydantic AI as entries of a session, and the record of their conversation in a document.
#
# The head of the session decides. A rewind on the command line, or a fork, moves it without the framework:
# then the record is given as if the framework had branched there, with another revision. So a program that
# loaded the record before cannot save over the move.

_MESSAGE: Final[TypeAdapter[ModelMessage]] = TypeAdapter(
    ModelMessage, config=ConfigDict(defer_build=True, ser_json_bytes="base64", val_json_bytes="base64")
)
"""Writes one message as `ModelMessagesTypeAdapter` writes a list of them."""


class _Named(msgspec.Struct):
    entry_id: str | None = None


_decode_name = msgspec.json.Decoder(_Named).decode


class Draft(msgspec.Struct, frozen=True):
    """An entry on its way into a session."""

    id: str
    parent_id: str | None
    body: bytes
    """The framework's JSON of the message, with the id of the entry as one more field."""
    usage: dict[str, Any] | None
    """Of a response: the arguments of `add_usage`."""


def draft_of(entry: ConversationEntry) -> Draft:
    body = dumped(_MESSAGE, entry.message)
    named = b'{"entry_id":' + msgspec.json.encode(entry.id) + b"," + body[1:]
    usage = usage_of(entry.message) if isinstance(entry.message, ModelResponse) else None
    return Draft(entry.id, entry.parent_id, named, usage)


def dumped(kind: TypeAdapter[Any], value: Any) -> bytes:
    """The JSON text of a value, in the form that the store keeps."""
    return encode_model(value, kind.dump_json, partial(kind.dump_python, mode="json"))


def usage_of(response: ModelResponse) -> dict[str, Any]:
    """The arguments of `add_usage` for a call."""
    used = response.usage
    return {
        "model": response.model_name,
        "vendor": response.provider_name,
        "input_tokens": max(used.input_tokens, 0),
        "output_tokens": max(used.output_tokens, 0),
        "cache_read_tokens": max(used.cache_read_tokens, 0),
        "cache_write_tokens": max(used.cache_write_tokens, 0),
        "reasoning_tokens": max(used.output_reasoning_tokens, 0),
        "cost": used.cost,
        "at": response.timestamp,
    }


def id_of(entry: clew.Entry) -> str:
    """The framework's id of an entry. An entry that the framework did not write has the id of the store."""
    return _decode_name(entry.raw).entry_id or entry.id


def place_of(entry: clew.Entry) -> clew.Head:
    return place_named(entry.id)


def place_named(id: str) -> clew.Head:
    """The place of the entry with this id of the store; empty: before the first entry."""
    branch, _, position = id.rpartition(".")
    return clew.Head(branch, int(position)) if branch else BEGINNING


def newest_first(session: clew.Session, at: clew.Head | None = None) -> Iterator[clew.Entry]:
    """The messages on the path to a place (by default the head), without marks."""
    return (entry for entry in session.entries(at=at, newest_first=True) if entry.kind == "message")


def history(session: clew.Session, at: clew.Head, limit: int | None) -> list[ConversationEntry]:
    """The entries up to a place, in order; only the last `limit` of them."""
    found = _messages(session, at, None if limit is None else limit + 1)  # with the parent of the first
    names = [id_of(entry) for entry in found]
    messages = _decoded(session, found)
    parents = [None, *names]
    entries = [
        ConversationEntry(id=name, parent_id=parent, message=message)
        for name, parent, message in zip(names, parents, messages, strict=False)
    ]
    return entries if limit is None else entries[-limit:]


def _messages(session: clew.Session, at: clew.Head, last: int | None) -> list[clew.Entry]:
    found = [entry for entry in session.entries(at=at, last=last) if entry.kind == "message"]
    if last is None or len(found) == last or at.position < last:
        return found
    return list(islice(newest_first(session, at), last))[::-1]  # there are marks among them


def _decoded(session: clew.Session, found: Sequence[clew.Entry]) -> list[ModelMessage]:
    try:
        return ModelMessagesTypeAdapter.validate_json(
            b"[" + b",".join(with_numbers(entry.raw) for entry in found) + b"]"
        )
    except ValidationError as exc:
        index = exc.errors(include_url=False, include_context=False)[0]["loc"][0]
        place = f"entry {found[index].id}" if isinstance(index, int) else "an entry"
        raise clew.InvalidError(
            f"{place} of session {session.id!r} is no message of Pydantic AI: rewind the session to before it"
        ) from exc


# -- the record

FRAMEWORK: Final = "pydantic-ai"
DOCUMENT: Final = "record"

_RECORD: Final = TypeAdapter(ConversationRecord)


class _Kept(msgspec.Struct):
    """The document."""

    record: msgspec.Raw
    head: str
    """The store's id of the entry at which the session stood when the record was written."""
    tips: dict[str, str]
    """The store's ids of the last entries of the branches."""


_decode = msgspec.json.Decoder(_Kept).decode


class _Gist(msgspec.Struct):
    head_id: str | None


_decode_gist = msgspec.json.Decoder(_Gist).decode


class Standing(NamedTuple):
    """A record, and the places of the entries that it names."""

    record: ConversationRecord
    places: dict[str, clew.Head]


def encoded(record: ConversationRecord) -> bytes:
    return mended(dumped(_RECORD, record))


def document(record: bytes, head: clew.Head, tips: dict[str, clew.Head]) -> bytes:
    names = {tip: entry_at(place) for tip, place in tips.items()}
    return msgspec.json.encode(_Kept(msgspec.Raw(record), entry_at(head), names))


def standing_in(store: clew.Store, conversation_id: str) -> Standing | None:
    return standing_of(find_own(store, session_id(conversation_id), FRAMEWORK))


def standing_of(session: clew.Session | None) -> Standing | None:
    """The record of a session for the framework; None: it is no conversation of this framework."""
    if session is None:
        return None
    content = session.get_document(DOCUMENT)
    if content is None:
        return _without_record(session)
    kept = _decode(content)
    record = _RECORD.validate_json(with_numbers(bytes(kept.record)))
    places = {tip: place_named(name) for tip, name in kept.tips.items()}
    head = session.head
    if entry_at(head) != kept.head:
        return _moved(session, record, places, head, place_named(kept.head))
    if record.head_id is not None:
        places[record.head_id] = head
    return Standing(record, places)


def places_of(session: clew.Session) -> dict[str, clew.Head]:
    """The places of the entries that the record of a session names, without decoding the whole record."""
    content = session.get_document(DOCUMENT)
    kept = None if content is None else _decode(content)
    if kept is None or entry_at(head := session.head) != kept.head:
        standing = standing_of(session)
        return {} if standing is None else standing.places
    places = {tip: place_named(name) for tip, name in kept.tips.items()}
    head_id = _decode_gist(kept.record).head_id
    return places if head_id is None else {**places, head_id: head}


def _moved(
    session: clew.Session,
    record: ConversationRecord,
    places: dict[str, clew.Head],
    head: clew.Head,
    was: clew.Head,
) -> Standing:
    """The record after the head was moved without the framework."""
    head_id = _last_id(session)
    if head_id is not None:
        places[head_id] = head
    if head_id == record.head_id:
        return Standing(record, places)  # only a mark was put behind the last message
    branches = [tip for tip in record.branches if tip not in (head_id, record.head_id)]
    if record.head_id is not None:
        branches.append(record.head_id)
        places[record.head_id] = was
    moved = dataclasses.replace(
        record,
        head_id=head_id,
        branches=branches,
        deferred_tool_requests=None,
        revision=f"{record.revision}@{entry_at(head)}",
    )
    return Standing(moved, places)


def _without_record(session: clew.Session) -> Standing | None:
    """A record for a fork that the framework did not make: it has messages, but no record yet."""
    info = session.info
    if info.metadata.get("framework") != FRAMEWORK or info.head.position < 0:
        return None
    head_id = _last_id(session)
    if head_id is None:
        return None
    scope = info.metadata.get("scope")
    base = info.forked_from
    record = ConversationRecord(
        conversation_id=info.id,
        head_id=head_id,
        scope=scope if isinstance(scope, str) else None,
        forked_from=None if base is None else base.session,
        revision=f"@{entry_at(info.head)}",
        updated_at=info.updated_at,
    )
    return Standing(record, {head_id: info.head})


def _last_id(session: clew.Session) -> str | None:
    last = next(newest_first(session), None)
    return None if last is None else id_of(last)


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


# ── Writing one run ───────────────────────────────────────────────────────────────────────────────
# One write of the framework, in one transaction: check the revision, append entries, write the record.

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
