"""Threads as a whole: copied, thinned out, and cleared of what nothing needs any more."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

import clew
from clew.adapters.langgraph import lists
from clew.adapters.langgraph.documents import (
    LIST,
    LOG,
    VALUE,
    Codec,
    Head,
    Place,
    list_prefix,
    run_name,
    value_name,
    writes_of,
)
from clew.adapters.langgraph.memory import Thread, Unsettled, is_waiting
from clew.adapters.langgraph.reading import COUNTERS, Reader
from clew.adapters.langgraph.standing import Path, place_of

_MOST_SYSTEM: Final = 8
"""Of the system messages at the beginning of a path, so many stay whatever a retention rule removes."""


class Upkeep:
    """Work on whole threads. Every method is one transaction, inside of `store.transact`."""

    def __init__(self, codec: Codec, reader: Reader) -> None:
        self._codec = codec
        self._reader = reader

    def keep_latest(self, store: clew.Store, thread: Thread) -> None:
        """Only the newest checkpoint of each namespace, of the root that which the thread stands at, and the
        ancestors that its values are made of."""
        session = thread.find(store)
        if session is None:
            return
        if is_waiting(session):
            raise Unsettled(thread)
        heads = self._heads(session)
        self._keep(session, heads, self._latest(session, heads))

    def drop_removed(self, store: clew.Store, thread: Thread) -> None:
        """Delete the checkpoints that go with messages which a retention rule removed.

        They hold copies of such messages: the input of a graph, and what its tasks wrote. The checkpoints
        that the thread goes on from, and the ancestors that their values are made of, stay.
        """
        session = thread.find(store)
        last = _last_removed(session) if session is not None else None
        if session is None or last is None:
            return
        heads = self._heads(session)
        path = Path(session.tree(), session.head)
        places = {place for head in heads.values() if (place := place_of(head)) is not None}
        gone = {place for place in places if _is_gone(session, path, last, place)}
        kept = [head for head in heads.values() if place_of(head) not in gone]
        if len(kept) < len(heads):
            self._keep(session, heads, [*kept, *self._latest(session, heads)])

    def _latest(self, session: clew.Session, heads: dict[str, Head]) -> list[Head]:
        """The newest checkpoint of each namespace; of the root the one that the thread stands at."""
        newest: dict[str, Head] = {}
        for head in heads.values():
            if head.ns not in newest or newest[head.ns].id < head.id:
                newest[head.ns] = head
        standing = self._reader.standing(session)
        if standing is not None:
            newest[""] = standing.found.head
        return list(newest.values())

    def _keep(self, session: clew.Session, heads: dict[str, Head], wanted: Iterable[Head]) -> None:
        """Delete all checkpoints but these and the ancestors that their values are made of."""
        by_place = {(head.ns, head.id): head for head in heads.values()}
        kept = {place for head in wanted for place in self._needed(head, by_place)}
        self._drop(session, heads, [head for head in heads.values() if (head.ns, head.id) not in kept])

    def _needed(self, head: Head, by_place: dict[tuple[str, str], Head]) -> Iterable[tuple[str, str]]:
        yield head.ns, head.id
        spread = set(self._codec.serde.loads_typed(head.metadata).get(COUNTERS) or ())
        seeking = {channel for channel in spread if channel not in head.refs}
        seen, current = {head.id}, head
        while seeking and current.parent and current.parent not in seen:
            seen.add(current.parent)
            parent = by_place.get((head.ns, current.parent))
            if parent is None:
                return
            yield parent.ns, parent.id
            seeking -= parent.refs.keys()
            current = parent

    def drop_runs(self, store: clew.Store, session_id: str, runs: Collection[str]) -> None:
        """No checkpoint of these runs, nor what was written after it."""
        session = store.find(session_id)
        if session is None:
            return
        heads = self._heads(session)
        load = self._codec.serde.loads_typed
        self._drop(session, heads, [h for h in heads.values() if load(h.metadata).get("run_id") in runs])
        for run in runs:
            session.delete_document(run_name(run))

    def knows_run(self, store: clew.Store, session_id: str, runs: Collection[str]) -> bool:
        session = store.find(session_id)
        return session is not None and any(session.get_document(run_name(run)) is not None for run in runs)

    def _heads(self, session: clew.Session) -> dict[str, Head]:
        """All checkpoints by the names of their documents."""
        decode = self._codec.decode_head
        return {name: decode(document) for name, document in session.documents(prefix="c/")}

    def _drop(self, session: clew.Session, heads: dict[str, Head], unwanted: list[Head]) -> None:
        places = {(head.ns, head.id) for head in unwanted}
        for name, head in heads.items():
            if (head.ns, head.id) in places:
                session.delete_document(name)
                for written, _ in session.documents(prefix=writes_of(Place(head.ns, head.id))):
                    session.delete_document(written)
        left = [head for head in heads.values() if (head.ns, head.id) not in places]
        self._drop_values(session, left)

    def _drop_values(self, session: clew.Session, left: list[Head]) -> None:
        needed: set[str] = set()
        for head in left:
            for channel, ref in head.refs.items():
                if ref[0] == VALUE:
                    needed.add(value_name(ref[1]))
                elif ref[0] == LIST and list_prefix(head.ns, channel) + ref[1] not in needed:
                    needed.update(lists.names_of_chain(session, head.ns, channel, ref[1]))
        for prefix in ("v/", "l/"):
            for name, _ in session.documents(prefix=prefix):
                if name not in needed:
                    session.delete_document(name)

    # -- copies

    def copy(self, store: clew.Store, source: Thread, target: Thread) -> None:
        """All checkpoints and writes of a thread for another one. What was said is shared, not copied."""
        old = source.find(store)
        if old is None or source.session == target.session:
            return
        if is_waiting(old):
            raise Unsettled(source)
        is_shared = store.find(target.session) is None
        if is_shared:
            new = old.fork(target.session)
            new.update(metadata={**old.info.metadata, **target.metadata()})
        else:
            new = target.open(store)
        entries = self._moved_entries(old, new, is_shared=is_shared)
        for name, document in old.documents():
            new.set_document(name, self._moved(name, document, entries))

    def _moved_entries(self, old: clew.Session, new: clew.Session, *, is_shared: bool) -> dict[str, str]:
        """The entries that checkpoints need and the copy does not share, and what they are called in it.

        A fork shares the path to the head. What lies on other branches is gone when its owner is, so a copy
        has its own of that.
        """
        on_path = {entry.id for entry in old.entries()} if is_shared else set()
        moved_to: dict[str, str] = {}
        stood = new.head
        for wanted in self._entries_in_use(old) - on_path:
            if wanted in moved_to:
                continue
            last = ""
            for entry in _entries_to(old, wanted):
                if entry.id in on_path or entry.id in moved_to:
                    last = moved_to.get(entry.id, entry.id)
                elif entry.kind == "message":
                    _stand_at(new, last)
                    (added,) = new.append(entry.raw)
                    last = moved_to[entry.id] = added.id
        if moved_to and is_shared:
            new.rewind(stood)
        return moved_to

    def _entries_in_use(self, session: clew.Session) -> set[str]:
        found: set[str] = set()
        for name, document in session.documents():
            if name.startswith("c/"):
                head = self._codec.decode_head(document)
                found |= {ref[1] for ref in head.refs.values() if ref[0] == LOG}
            elif name.startswith("l/"):
                found.add(msgspec.msgpack.decode(document, type=lists.Segment).entry)
        return found - {""}

    def _moved(self, name: str, document: bytes, entries: dict[str, str]) -> bytes:
        if name.startswith("l/"):
            segment = msgspec.msgpack.decode(document, type=lists.Segment)
            changed = msgspec.structs.replace(segment, entry=entries.get(segment.entry, segment.entry))
            return msgspec.msgpack.encode(changed)
        if not entries or not name.startswith("c/"):
            return document
        head = self._codec.decode_head(document)
        refs = {
            channel: [LOG, entries.get(ref[1], ref[1])] if ref[0] == LOG else ref
            for channel, ref in head.refs.items()
        }
        return self._codec.encode_head(msgspec.structs.replace(head, refs=refs))


def _entries_to(session: clew.Session, entry: str) -> list[clew.Entry]:
    try:
        return list(session.entries(at=entry))
    except clew.NotFoundError:
        return []  # purged, with the session that it was in: the copy of its checkpoint cannot be read either


def _last_removed(session: clew.Session) -> int | None:
    """The position of the last message that a retention rule removed from the path; None: there is none.

    The oldest messages are removed first; only leading system messages stay before them.
    """
    found: int | None = None
    for entry in session.entries():
        if entry.kind == "removed":
            found = entry.position
        elif entry.kind == "message" and (found is not None or entry.position >= _MOST_SYSTEM):
            break
    return found


def _is_gone(session: clew.Session, path: Path, last: int, place: str) -> bool:
    """Whether a checkpoint at this place has copies of messages that were removed."""
    depth = path.depth(place)
    if depth is not None:
        return depth <= last
    try:
        return next(iter(session.entries(at=place, last=1))).kind == "removed"
    except (clew.NotFoundError, StopIteration):  # purged, with the session that it was in
        return True


def _stand_at(session: clew.Session, entry: str) -> None:
    last = next(iter(session.entries(last=1)), None)
    if (last.id if last else "") == entry:
        return
    if entry:
        session.rewind(entry)
    else:
        session.clear()
