"""Reading checkpoints: one, the newest, a page of them, listings, and the history of a delta channel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush, heapreplace
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    writes_sort_key,
)

import clew
from clew.adapters.langgraph import log
from clew.adapters.langgraph.documents import (
    INLINE,
    LIST,
    LOG,
    Codec,
    Head,
    Place,
    Ref,
    all_writes_of,
    checkpoint_name,
    checkpoints_of,
    escaped,
    merged,
    value_name,
    writes_of,
)
from clew.adapters.langgraph.log import Memory, Purged
from clew.adapters.langgraph.messages import message_of
from clew.adapters.langgraph.put import Path, Standing, Thread, Unsettled, chosen, is_at, is_waiting
from clew.adapters.langgraph.put import last_entry_of as place_of_head

COUNTERS: Final = "counters_since_delta_snapshot"
"""In the metadata of a checkpoint: the channels whose value is made of the writes of its ancestors."""

PAGE: Final = 50
"""How many checkpoints are read at once."""
_MOST_NAMESPACES: Final = 16
"""A listing of all namespaces reads a thread with more of them as a whole."""


class Found(NamedTuple):
    """A checkpoint whose values are not loaded yet."""

    head: Head
    name: str

    @property
    def id(self) -> str:
        return self.head.id


class Reader:
    """Reads the threads of a store. Call each method inside `store.read`."""

    def __init__(self, codec: Codec, memory: Memory) -> None:
        self._codec = codec
        self._memory = memory

    # -- one checkpoint

    def get(
        self,
        store: clew.Store,
        thread: Thread,
        place: Place,
        config: RunnableConfig,
        *,
        is_settled: bool = False,
    ) -> CheckpointTuple | None:
        """The checkpoint of this id; without an id, the one that the thread stands at.

        Unsettled if something has to be written first; with `is_settled` it is given as it is.
        """
        session = self._session(store, thread)
        if session is None:
            return None
        standing = self._standing(session, place)
        if standing is None:
            self._check_nothing(store, thread)
            return None
        needs_restart = not place.id and self.needs_restart(session, standing)
        if needs_restart and not is_settled:
            raise Unsettled(thread)
        try:
            found = self._load(session, thread, standing.found, config if place.id else None)
        except Purged:
            if not place.id:
                raise
            return None
        return found._replace(pending_writes=[]) if needs_restart else found

    def _check_nothing(self, store: clew.Store, thread: Thread) -> None:
        """Called if there is no checkpoint. SessionTakenError for the session of another framework; Unsettled
        for a fork that has no checkpoints yet."""
        session = thread.find(store)
        if session is not None and is_waiting(session):
            raise Unsettled(thread)

    def standing(self, session: clew.Session) -> Standing[Found] | None:
        """The checkpoint that the thread stands at."""
        prefix = checkpoints_of("")
        rows = session.documents(prefix=prefix, limit=1, newest_first=True)
        if not rows:
            return None
        newest = self._found(session, *rows[0])
        self._memory.remember_head(session.id, newest.name, rows[0][1], newest.head)
        if is_at(session, place_of_head(newest.head)):
            return Standing(newest)
        path = Path(session.tree(), session.head)
        return chosen(self._newest_first(session, prefix), path, self.is_input)

    def needs_restart(self, session: clew.Session, standing: Standing[Found]) -> bool:
        """Whether a thread cannot go on from this checkpoint itself: tasks ran after it, on a path that was
        left, and LangGraph would take their writes for finished work."""
        if not standing.is_superseded:
            return False
        head = standing.found.head
        if head.writes or session.documents(prefix=writes_of(Place(head.ns, head.id)), limit=1):
            return True
        return bool(self.metadata_of(head).get(COUNTERS))

    def metadata_of(self, head: Head) -> dict[str, Any]:
        found: dict[str, Any] = self._codec.serde.loads_typed(head.metadata)
        return found

    def _newest_first(self, session: clew.Session, prefix: str) -> Iterator[Found]:
        """The checkpoints of a namespace, newest first."""
        after: str | None = None
        while True:
            rows = session.documents(prefix=prefix, after=after, limit=PAGE, newest_first=True)
            yield from self._all_found(session, rows)
            if len(rows) < PAGE:
                return
            after = rows[-1][0]

    def _of_subgraph(self, session: clew.Session, ns: str) -> Found | None:
        """The newest checkpoint of a subgraph that was made on the present path of the thread."""
        root: Standing[Found] | None = None
        for count, found in enumerate(self._newest_first(session, checkpoints_of(ns))):
            parent = self.root_of(found.head)
            if parent is None:
                return found
            root = root if count else self.standing(session)
            if self._is_ancestor(session, parent, root.found if root else None):
                return found
        return None

    def root_of(self, head: Head) -> str | None:
        """The checkpoint of the root during which a checkpoint of a subgraph was made, if it says so."""
        parents = self.metadata_of(head).get("parents")
        found = parents.get("") if isinstance(parents, dict) else None
        return found if isinstance(found, str) and found else None

    def is_input(self, head: Head) -> bool:
        return self.metadata_of(head).get("source") == "input"

    def _is_ancestor(self, session: clew.Session, id: str, root: Found | None) -> bool:
        """Whether this id is `root` or an ancestor of it. True for a checkpoint that is not stored."""
        if root is not None and id in (root.id, root.head.parent):
            return True
        if session.get_document(checkpoint_name(Place("", id))) is None:
            return True
        last = None
        for last in self._ancestors(session, root) if root is not None else ():
            if last.id <= id:
                return last.id == id
        oldest = last or root
        return oldest is not None and oldest.head.parent is not None  # its ancestors were pruned

    def _session(self, store: clew.Store, thread: Thread) -> clew.Session | None:
        self._memory.is_current(store)
        return store.find(thread.session)

    def _standing(self, session: clew.Session, place: Place) -> Standing[Found] | None:
        """The checkpoint of this id; without an id, the one that the thread stands at."""
        if not place.ns and not place.id:
            return self.standing(session)
        found = self._named(session, place) if place.id else self._of_subgraph(session, place.ns)
        return None if found is None else Standing(found)

    def _named(self, session: clew.Session, place: Place) -> Found | None:
        name = checkpoint_name(place)
        document = session.get_document(name)
        if document is None:
            return None
        found = self._found(session, name, document)
        # A checkpoint that is asked for by its name is often the parent of the one that is put next.
        self._memory.remember_head(session.id, name, document, found.head)
        return found

    def _found(self, session: clew.Session, name: str, document: bytes) -> Found:
        known = self._memory.head(session.id, name)
        if known is not None and known[0] == document:
            return Found(known[1], name)
        return Found(self._codec.decode_head(document), name)

    def _all_found(self, session: clew.Session, rows: Sequence[tuple[str, bytes]]) -> list[Found]:
        return [self._found(session, *row) for row in rows]

    def load(self, store: clew.Store, thread: Thread, found: Found) -> CheckpointTuple | None:
        """A checkpoint with its values; None: it is gone by now."""
        session = self._session(store, thread)
        try:
            return None if session is None else self._load(session, thread, found, None)
        except Purged:
            return None

    def _load(
        self, session: clew.Session, thread: Thread, found: Found, config: RunnableConfig | None
    ) -> CheckpointTuple:
        head = found.head
        values = {channel: self._value(session, head.ns, channel, ref) for channel, ref in head.refs.items()}
        writes = session.documents(prefix=writes_of(Place(head.ns, found.id)))
        return CheckpointTuple(
            config=config or _config(thread, head.ns, found.id),
            checkpoint=self._codec.checkpoint_of(head, values),  # type: ignore[arg-type]
            metadata=self._codec.serde.loads_typed(head.metadata),
            parent_config=_config(thread, head.ns, head.parent) if head.parent else None,
            pending_writes=self._writes(head, writes),
        )

    def _value(self, session: clew.Session, ns: str, channel: str, ref: Ref) -> Any:
        serde = self._codec.serde
        match ref[0]:
            case kind if kind == INLINE:
                return serde.loads_typed((ref[1], ref[2]))
            case kind if kind == LOG:
                return [message_of(kept, serde) for kept in self._memory.path(session, ref[1])]
            case kind if kind == LIST:
                known = lambda entry: self._memory.path(session, entry)  # noqa: E731
                return log.load(session, ns, channel, ref[1], self._codec, known)
            case _:
                document = session.get_document(value_name(ref[1]))
                if document is None:
                    raise clew.CorruptError(
                        f"the document with the value of channel {channel!r} of thread {session.id!r} "
                        "is missing: run store.verify()"
                    )
                return serde.loads_typed(msgspec.msgpack.decode(document, type=tuple[str, bytes]))

    def _writes(
        self,
        head: Head,
        documents: Sequence[tuple[str, bytes]],
        channel: str | None = None,
    ) -> list[PendingWrite]:
        """The writes of tasks, in the order in which LangGraph applies them."""
        later = [self._codec.decode_writes(each) for _, each in documents]
        found = [(task, write) for task, writes in merged([*head.writes, *later]) for write in writes]
        found.sort(key=lambda each: writes_sort_key(each[1].path, each[0], each[1].idx))
        load = self._codec.serde.loads_typed
        return [
            (task, write.channel, load((write.type, write.content)))
            for task, write in found
            if channel is None or write.channel == channel
        ]

    # -- many of them

    def prefixes(self, store: clew.Store, thread: Thread) -> list[str] | None:
        """The prefixes of the names of checkpoints, one for each namespace; None: there are too many."""
        session = self._session(store, thread)
        found: list[str] = []
        while session is not None:
            before = found[-1] if found else None
            rows = session.documents(prefix="c/", after=before, limit=1, newest_first=True)
            if not rows:
                break
            found.append(rows[0][0][: rows[0][0].rindex("/") + 1])
            if len(found) > _MOST_NAMESPACES:
                return None
        if not found:
            self._check_nothing(store, thread)
        return found

    def page(
        self, store: clew.Store, thread: Thread, prefix: str, after: str | None, count: int
    ) -> tuple[list[Found], str | None]:
        """The next checkpoints of a namespace, newest first, and where to go on."""
        session = self._session(store, thread)
        if session is None:
            return [], None
        rows = session.documents(prefix=prefix, after=after, limit=count, newest_first=True)
        if not rows and after is None:
            self._check_nothing(store, thread)
        return self._all_found(session, rows), rows[-1][0] if len(rows) == count else None

    def everything(self, store: clew.Store, thread: Thread) -> list[Found]:
        """All checkpoints of a thread, whatever their namespace, newest first."""
        session = self._session(store, thread)
        if session is None:
            return []
        found = self.all_of(session)
        if not found:
            self._check_nothing(store, thread)
        return found

    def all_of(self, session: clew.Session) -> list[Found]:
        """All checkpoints of a session, whatever their namespace, newest first."""
        found = self._all_found(session, session.documents(prefix="c/"))
        return sorted(found, key=lambda each: each.id, reverse=True)

    def matches(self, head: Head, filter: Mapping[str, Any] | None) -> bool:
        if not filter:
            return True
        metadata = self._codec.serde.loads_typed(head.metadata)
        return all(_looked_up(metadata, key) == wanted for key, wanted in filter.items())

    # -- delta channels

    def delta_history(
        self, store: clew.Store, thread: Thread, place: Place, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        session = self._session(store, thread)
        standing = self._standing(session, place) if session is not None else None
        history: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        if session is None or standing is None:
            self._check_nothing(store, thread)
            return history
        chains: dict[str, list[Found]] = {channel: [] for channel in channels}
        seeking = dict.fromkeys(channels)
        for ancestor in self._ancestors(session, standing.found):
            for channel in list(seeking):
                chains[channel].append(ancestor)
                ref = ancestor.head.refs.get(channel)
                if ref is not None:
                    history[channel]["seed"] = self._value(session, ancestor.head.ns, channel, ref)
                    del seeking[channel]
            if not seeking:
                break
        ids = {found.id for chain in chains.values() for found in chain}
        documents = self._late_writes(session, place.ns, ids)
        for channel, chain in chains.items():
            for ancestor in reversed(chain):
                writes = documents.get(ancestor.id, [])
                history[channel]["writes"] += self._writes(ancestor.head, writes, channel)
        return history

    def _ancestors(self, session: clew.Session, target: Found) -> Iterator[Found]:
        """From the parent on. Names of parents sort before their children, so a page has many of them."""
        known: dict[str, Found] = {}
        seen, current = {target.id}, target
        while (wanted := current.head.parent) and wanted not in seen:
            seen.add(wanted)
            if wanted not in known:
                place = Place(target.head.ns, wanted)
                known = {}
                if (parent := self._named(session, place)) is None:
                    return
                prefix = checkpoints_of(place.ns)
                rows = session.documents(prefix=prefix, after=parent.name, limit=PAGE, newest_first=True)
                page = [parent, *self._all_found(session, rows)]
                known = {found.id: found for found in page}
            current = known[wanted]
            yield current

    def _late_writes(
        self, session: clew.Session, ns: str, ids: set[str]
    ) -> dict[str, list[tuple[str, bytes]]]:
        """The documents with the writes of these checkpoints, read from the last one to the first."""
        found: dict[str, list[tuple[str, bytes]]] = {id: [] for id in ids}
        names = {writes_of(Place(ns, id)): id for id in ids}
        ordered = sorted(names, key=str.encode)
        if not ordered:
            return found
        at: str | None = ordered[-1] + "\U0010ffff" * 8
        while at is not None:
            rows = session.documents(prefix=all_writes_of(ns), after=at, limit=4 * PAGE, newest_first=True)
            at = rows[-1][0] if len(rows) == 4 * PAGE else None
            for name, document in rows:
                id = names.get(name[: name.rindex("/") + 1])
                if id is not None:
                    found[id].append((name, document))
            if rows and rows[-1][0] < ordered[0]:
                break
        return found


def _config(thread: Thread, ns: str, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread.id, "checkpoint_ns": ns, "checkpoint_id": id}}


def _looked_up(metadata: Mapping[str, Any], key: str) -> Any:
    """The value of a key; "a.b" is the key b of the value of a, unless there is a key "a.b"."""
    if key in metadata or "." not in key:
        return metadata.get(key)
    value: Any = metadata
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


# -- listings

_TICKS_TO_1970 = 0x01B21DD213814000
"""Ids count tenths of microseconds, from the year 1582 on."""


class Listing:
    """The arguments of `list`, and how many checkpoints were given so far."""

    def __init__(
        self,
        config: RunnableConfig | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        asked = config["configurable"] if config is not None else {}
        self.ns: str | None = asked.get("checkpoint_ns")
        self._id: str | None = asked.get("checkpoint_id")
        self._before = get_checkpoint_id(before) if before else None
        self._limit = limit
        self.count = 0
        self.page = PAGE if limit is None else max(1, min(limit, PAGE))
        """How many checkpoints of a thread to read first."""

    @property
    def is_full(self) -> bool:
        return self._limit is not None and self.count >= self._limit

    def has(self, found: Found) -> bool:
        if self._id and found.id != self._id:
            return False
        return not self._before or found.id < self._before

    def begin(self, prefix: str) -> str | None:
        """The name after which the listing begins; it goes from the newest name to the oldest."""
        if self._id:
            return prefix + escaped(self._id) + "\U0010ffff"
        return prefix + escaped(self._before) if self._before else None


class Active(NamedTuple):
    """A thread, and when it was active last, in microseconds since 1970."""

    thread: Thread
    at: int


class _Open(NamedTuple):
    """A thread whose listing has begun; the thread with the newest checkpoint sorts first."""

    found: Found
    number: int
    thread: Thread
    rest: Iterator[Found]

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return (other[0].id, self.number) < (self.found.id, other[1])


def newest_of_all(
    threads: Iterable[Active], checkpoints_of: Callable[[Thread], Iterator[Found]]
) -> Iterator[tuple[Thread, Found]]:
    """The checkpoints of all threads, newest first.

    `threads` come with the newest activity first. A thread is active after its newest checkpoint was made. So
    a thread whose last activity is older than the newest checkpoint so far has no newer one, and is not read
    yet. If ids or clocks contradict this, all threads are read.
    """
    upcoming = enumerate(threads)
    following = next(upcoming, None)
    is_in_order = True
    opened: list[_Open] = []
    while True:
        while following is not None:
            number, active = following
            if opened and is_in_order and active.at < _made_at(opened[0].found.id, active.at + 1):
                break
            rest = checkpoints_of(active.thread)
            first = next(rest, None)
            if first is not None:
                is_in_order = is_in_order and _made_at(first.id, active.at + 1) <= active.at
                heappush(opened, _Open(first, number, active.thread, rest))
            following = next(upcoming, None)
        if not opened:
            return
        newest = opened[0]
        yield newest.thread, newest.found
        older = next(newest.rest, None)
        if older is None:
            heappop(opened)
        else:
            heapreplace(opened, newest._replace(found=older))


def _made_at(id: str, otherwise: int) -> int:
    """When a checkpoint was made, by its id, in microseconds since 1970; `otherwise` if the id says no
    time."""
    try:
        uuid = UUID(id)
    except ValueError:
        return otherwise
    if uuid.version != 6:
        return otherwise
    number = uuid.int
    ticks = number >> 96 << 28 | (number >> 80 & 0xFFFF) << 12 | number >> 64 & 0xFFF
    return (ticks - _TICKS_TO_1970) // 10
