"""Whole threads: copied, pruned, cleared of removed messages, and taken over after a rewind or a fork."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
from langgraph.checkpoint.base import empty_checkpoint

import clew
from clew.adapters.common import listed
from clew.adapters.langgraph import log
from clew.adapters.langgraph.documents import (
    LIST,
    LOG,
    VALUE,
    Codec,
    Head,
    Place,
    checkpoint_name,
    list_prefix,
    run_name,
    value_name,
    writes_of,
)
from clew.adapters.langgraph.log import FIRST_CHOICE
from clew.adapters.langgraph.messages import kept_from
from clew.adapters.langgraph.put import (
    FRAMEWORK,
    Path,
    Standing,
    Thread,
    Unsettled,
    chosen,
    is_waiting,
    last_entry_of,
)
from clew.adapters.langgraph.read import COUNTERS, Found, Reader

_MOST_SYSTEM: Final = 8
"""Of the system messages at the beginning of a path, so many stay whatever a retention rule removes."""


class Upkeep:
    """Work on whole threads. Call each method inside `store.transact`."""

    def __init__(self, codec: Codec, reader: Reader) -> None:
        self._codec = codec
        self._reader = reader

    def keep_latest(self, store: clew.Store, thread: Thread) -> None:
        """Keep the newest checkpoint of each namespace (of the root the one that the thread stands at) and
        the ancestors that its values are made of; delete all others."""
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
        places = {place for head in heads.values() if (place := last_entry_of(head)) is not None}
        gone = {place for place in places if _is_gone(session, path, last, place)}
        kept = [head for head in heads.values() if last_entry_of(head) not in gone]
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
        """Delete the checkpoints of these runs, and the writes after them."""
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
                    needed.update(log.names_of_chain(session, head.ns, channel, ref[1]))
        for prefix in ("v/", "l/"):
            for name, _ in session.documents(prefix=prefix):
                if name not in needed:
                    session.delete_document(name)

    # -- copies

    def copy(self, store: clew.Store, source: Thread, target: Thread) -> None:
        """Copy all checkpoints and writes of a thread to another one. Messages are shared, not copied."""
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
        """Copy the entries that checkpoints need and the copy does not share: their ids, old to new.

        A fork shares the path to the head. Entries on other branches go when their owner is purged, so the
        copy gets its own.
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
                found.add(msgspec.msgpack.decode(document, type=log.Segment).entry)
        return found - {""}

    def _moved(self, name: str, document: bytes, entries: dict[str, str]) -> bytes:
        if name.startswith("l/"):
            segment = msgspec.msgpack.decode(document, type=log.Segment)
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


# -- threads that Clew has rewound or forked


class Moving:
    """Lets threads go on after Clew has moved them. Call each method inside `store.transact`."""

    def __init__(self, codec: Codec, reader: Reader) -> None:
        self._codec = codec
        self._reader = reader

    def settle(self, store: clew.Store, thread: Thread) -> None:
        """Write what a thread needs to go on."""
        session = thread.find(store)
        if session is None:
            return
        if is_waiting(session):
            self._adopt(store, session)
        standing = self._reader.standing(session)
        if standing is not None and self._reader.needs_restart(session, standing):
            self._write(session, self._again(standing.found.head))

    def settle_forks(self, store: clew.Store, thread: Thread) -> None:
        """Give the forks of a thread their own checkpoints."""
        base = thread.find(store)
        forks = base.tree().forks.items() if base is not None else ()
        for id, point in forks:
            fork = store.find(id)
            if base is not None and point.session == base.id and fork is not None and is_waiting(fork):
                self._adopt(store, fork)

    def _again(self, head: Head) -> Head:
        """The same checkpoint again, as another child of its parent, with no writes after it.

        It has a new id, so its tasks and the namespaces of its subgraphs are new too.
        """
        made = empty_checkpoint()
        metadata = {**self._reader.metadata_of(head), "source": "fork"}
        metadata.pop("run_id", None)
        return msgspec.structs.replace(
            head,
            id=made["id"],
            fields={**head.fields, "t": made["ts"]},
            metadata=self._codec.serde.dumps_typed(metadata),
            writes=[],
        )

    def _write(self, session: clew.Session, head: Head) -> None:
        session.set_document(checkpoint_name(Place(head.ns, head.id)), self._codec.encode_head(head))

    # -- forks

    def _adopt(self, store: clew.Store, fork: clew.Session) -> None:
        """Give a fork the checkpoints of its base on the path that both share."""
        info = fork.info
        base = self._base(store, info)
        fork.update(metadata={**info.metadata, **Thread(fork.id, fork.id).metadata()})
        if fork.documents(prefix="c/", limit=1):
            return
        if base is None:
            self._begin_with_messages(fork, info)
        else:
            _Copy(self._codec, self._reader, base, fork).take_over(self._again)

    def _base(self, store: clew.Store, info: clew.SessionInfo) -> clew.Session | None:
        """The session that has the checkpoints; None: it was purged."""
        while info.forked_from is not None:
            id = info.forked_from.session
            base = store.find(id)
            if base is None or base.id != id or info.id not in base.tree().heads:
                if _is_in_trash(store, id):
                    raise clew.NotFoundError(
                        f"thread {info.id!r} is a fork of {id!r}, whose state is in the trash: bring it back "
                        f"with store.restore_deleted({id!r}), then read the fork"
                    )
                return None
            if not is_waiting(base) or base.documents(prefix="c/", limit=1):
                return base
            info = base.info
        return None

    def _begin_with_messages(self, fork: clew.Session, info: clew.SessionInfo) -> None:
        """Begin with the messages alone: the base was purged with its documents, but messages are shared."""
        if not self._codec.is_open or info.forked_from is None:
            return
        for entry in fork.entries(at=info.forked_from.head, newest_first=True):
            if entry.kind == "message" and kept_from(entry.raw, entry.id) is not None:
                break
        else:
            return
        made: dict[str, Any] = {**empty_checkpoint(), "channel_versions": {FIRST_CHOICE: 1}}
        fields, other = self._codec.fields_of(made)
        metadata = self._codec.serde.dumps_typed({"source": "fork", "step": -1, "parents": {}})
        refs = {FIRST_CHOICE: [LOG, entry.id]}
        self._write(fork, Head(made["id"], "", None, fields, other, metadata, refs))


class _Copy:
    """The checkpoints of a base for a fork of it."""

    def __init__(self, codec: Codec, reader: Reader, base: clew.Session, fork: clew.Session) -> None:
        self._codec = codec
        self._reader = reader
        self._base = base
        self._fork = fork
        info = fork.info
        assert info.forked_from is not None
        self._path = Path(fork.tree(), info.forked_from.head)
        self._made = info.created_at

    def take_over(self, again: Callable[[Head], Head]) -> None:
        """Copy the checkpoint at which the fork begins, its ancestors, and their values."""
        everything = self._reader.all_of(self._base)
        roots = [found for found in everything if not found.head.ns]
        before = [found for found in roots if self._is_before(found.head)] or roots
        standing = chosen(before, self._path, self._reader.is_input)
        if standing is None:
            return
        tip = standing.found.head
        # The base may have gone on from it; the writes of its tasks do not belong to the fork.
        standing = Standing(standing.found, any(found.head.parent == tip.id for found in roots))
        by_id = {found.id: found for found in roots}
        kept = {found.id: found for found in _ancestors(tip, by_id)}
        if self._reader.needs_restart(self._base, standing):
            tip = again(tip)
            self._fork.set_document(checkpoint_name(Place(tip.ns, tip.id)), self._codec.encode_head(tip))
            self._copy_values(tip)
        else:
            kept[tip.id] = standing.found
        inner = [found for found in everything if found.head.ns and self._belongs(found, kept, by_id, tip)]
        for found in (*kept.values(), *inner):
            self._copy(found)

    def _is_before(self, head: Head) -> bool:
        """Whether a checkpoint was there when the fork was made."""
        try:
            return datetime.fromisoformat(head.fields["t"]) <= self._made
        except (KeyError, TypeError, ValueError):
            return True

    def _belongs(self, found: Found, kept: dict[str, Found], roots: dict[str, Found], tip: Head) -> bool:
        """Whether a checkpoint of a subgraph belongs to the checkpoints that the fork keeps."""
        root = self._reader.root_of(found.head)
        return root in kept if root in roots else found.id < tip.id

    def _copy(self, found: Found) -> None:
        head, name = found.head, found.name
        document = self._base.get_document(name)
        if document is None:
            return
        self._fork.set_document(name, document)
        for written, content in self._base.documents(prefix=writes_of(Place(head.ns, head.id))):
            self._fork.set_document(written, content)
        self._copy_values(head)
        run = self._reader.metadata_of(head).get("run_id")
        if isinstance(run, str) and run:
            self._fork.set_document(run_name(run), b"")

    def _copy_values(self, head: Head) -> None:
        for name in _names_of_values(self._base, head):
            content = self._base.get_document(name)
            if content is not None and self._fork.get_document(name) is None:
                self._fork.set_document(name, content)


def _ancestors(head: Head, by_id: dict[str, Found]) -> Iterator[Found]:
    seen = {head.id}
    while head.parent in by_id and head.parent not in seen:
        seen.add(head.parent)
        yield by_id[head.parent]
        head = by_id[head.parent].head


def _names_of_values(session: clew.Session, head: Head) -> Iterator[str]:
    for channel, ref in head.refs.items():
        if ref[0] == VALUE:
            yield value_name(ref[1])
        elif ref[0] == LIST:
            yield from log.names_of_chain(session, head.ns, channel, ref[1])


def _is_in_trash(store: clew.Store, id: str) -> bool:
    return any(info.id == id for info in listed(store, {"framework": FRAMEWORK}, deleted=True))
