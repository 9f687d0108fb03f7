"""One put: where the thread stands, what is written, pending writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, get_checkpoint_id

import clew
from clew.adapters.common import entry_at, find_own, open_own, session_id
from clew.adapters.langgraph import log
from clew.adapters.langgraph.documents import (
    INLINE,
    LIST,
    LOG,
    VALUE,
    Codec,
    Head,
    Place,
    Ref,
    TaskWrites,
    Write,
    checkpoint_name,
    checkpoints_of,
    digest_of,
    escaped,
    list_prefix,
    merged,
    run_name,
    task_name,
    value_name,
    writes_of,
)
from clew.adapters.langgraph.log import Memory, kept_behind, log_channel, write_path
from clew.adapters.langgraph.messages import Kept, are_messages, kept_from, shared

# ── Which session a thread is, and which checkpoint it stands at ──────────────────────────────────
# A checkpoint belongs to a place in the log: the last message that it has. The head of the session decides
# where a thread stands: at the checkpoint whose place is the furthest on the path to the head, and of several
# at one place at the newest. That is the newest checkpoint of all, unless a rewind, an undo or a clear moved
# the head.

FRAMEWORK: Final = "langgraph"


class Unsettled(Exception):
    """Clew has rewound or forked a thread: it cannot go on before `Moving` has written what it needs."""

    def __init__(self, thread: Thread) -> None:
        super().__init__(thread.id)
        self.thread = thread


class Thread(msgspec.Struct, frozen=True):
    """A thread of LangGraph, and the id of its session."""

    id: str
    session: str

    def find(self, store: clew.Store) -> clew.Session | None:
        """The session, if there is one. SessionTakenError if it belongs to another framework."""
        return find_own(store, self.session, FRAMEWORK)

    def open(self, store: clew.Store) -> clew.Session:
        """The session, created if there is none. SessionTakenError if it belongs to another framework."""
        return open_own(store, self.session, self.metadata())

    @classmethod
    def kept_as(cls, info: clew.SessionInfo) -> Thread:
        """The thread of a session. A fork that Clew made has its own id as its name, not the name of its
        base."""
        name = info.metadata.get("thread_id")
        return cls(name if isinstance(name, str) and session_id(name) == info.id else info.id, info.id)

    def metadata(self) -> dict[str, Any]:
        return {"framework": FRAMEWORK, "thread_id": self.id}


def is_waiting(session: clew.Session) -> bool:
    """Whether Clew made this fork of a thread, and no saver has given it its checkpoints yet."""
    info = session.info
    return info.forked_from is not None and info.metadata.get("thread_id") != Thread.kept_as(info).id


# -- configs


def thread_named(thread_id: Any) -> Thread:
    return Thread(str(thread_id), session_id(str(thread_id)))


def thread_of(config: RunnableConfig) -> Thread:
    return thread_named(config["configurable"]["thread_id"])


def place_of(config: RunnableConfig) -> Place:
    return Place(config["configurable"].get("checkpoint_ns") or "", get_checkpoint_id(config) or "")


def with_id(config: RunnableConfig, id: str) -> RunnableConfig:
    asked = config["configurable"]
    ns = asked.get("checkpoint_ns", "")
    return {"configurable": {"thread_id": asked["thread_id"], "checkpoint_ns": ns, "checkpoint_id": id}}


# -- the checkpoint that a thread stands at

_BEGINNING = -1
_NOWHERE = -2


class HasHead(Protocol):
    @property
    def head(self) -> Head: ...


F = TypeVar("F", bound=HasHead)


class Standing(NamedTuple, Generic[F]):
    """The checkpoint that a thread stands at."""

    found: F
    is_superseded: bool = False
    """There is a later checkpoint that continues this one, on a path that was left."""


class Path:
    """The path to a place in a tree, by its branches: no entry is read for it."""

    def __init__(self, tree: clew.Tree, head: clew.Head) -> None:
        self.end = head.position
        self._last: dict[str, int] = {}
        branches = {branch.id: branch for branch in tree.branches}
        place: clew.Head | None = head
        while place is not None and place.branch:
            self._last[place.branch] = place.position
            branch = branches.get(place.branch)
            place = branch.parent if branch is not None else None

    def depth(self, entry: str) -> int | None:
        """The position of an entry; None: it is not on this path."""
        if not entry:
            return _BEGINNING
        branch, _, position = entry.rpartition(".")
        last = self._last.get(branch)
        return int(position) if last is not None and int(position) <= last else None


def last_entry_of(head: Head) -> str | None:
    """The entry that a checkpoint belongs to; empty: the beginning; None: it is not known."""
    return next((str(ref[1]) for ref in head.refs.values() if ref[0] == LOG), head.at)


def is_at(session: clew.Session, place: str | None) -> bool:
    """Whether the session stands at this place; marks and messages of other programs behind it do not
    count."""
    if place is None or place == entry_at(session.head):
        return True
    for entry in session.entries(newest_first=True):
        if entry.id == place:
            return True
        if entry.kind == "message" and kept_from(entry.raw, entry.id) is not None:
            return False
    return place == ""


def chosen(newest_first: Iterable[F], path: Path, is_input: Callable[[Head], bool]) -> Standing[F] | None:
    """The checkpoint that a thread stands at, if the head of its session is at the end of this path.

    A checkpoint of an input begins a turn whose messages are not in the log yet: it counts only where there
    is no other.
    """
    best: F | None = None
    depth, is_best_input = _NOWHERE, False
    parents: set[str] = set()
    for found in newest_first:
        head = found.head
        if head.parent:
            parents.add(head.parent)
        place = last_entry_of(head)
        at = None if place is None else path.depth(place)
        if at is None or at < depth or (at == depth and not is_best_input):
            continue
        best, depth, is_best_input = found, at, is_input(head)
        if depth == path.end and not is_best_input:
            break
    if best is None or (is_best_input and depth == _BEGINNING):
        return None
    return Standing(best, best.head.id in parents)


# ── One put ───────────────────────────────────────────────────────────────────────────────────────
# One `put`: planned outside, committed in one transaction, then remembered. Also the writes of tasks.

_SMALL: Final = 64
"""The most bytes of a value that is kept inside the document of each checkpoint that has it."""
_PASSING: Final = 64 * 1024
"""The same for the framework's own channels, whose values are gone with the next checkpoint."""
_MOST_BESIDE: Final = 64 * 1024
"""The most bytes of a task's writes that are moved into the document of their checkpoint."""


Outcome = tuple[bytes, Head, list[Kept]]
"""The document of a checkpoint, its content, and its messages."""


class Stale(Exception):
    """The store changed since a put was planned: plan it again."""


class Put:
    """A checkpoint on its way into the store."""

    def __init__(
        self,
        codec: Codec,
        memory: Memory,
        thread: Thread,
        place: Place,
        parent: str | None,
        checkpoint: dict[str, Any],
        metadata: dict[str, Any],
        new_versions: dict[str, Any],
    ) -> None:
        self._codec = codec
        self._memory = memory
        self._thread = thread
        self._place = place
        self._parent_id = parent
        self._checkpoint = checkpoint
        self._values: dict[str, Any] = checkpoint.get("channel_values") or {}
        self._new = new_versions
        self._run = metadata.get("run_id")
        fields, other = codec.fields_of(checkpoint)
        self._head = Head(place.id, place.ns, parent, fields, other, codec.serde.dumps_typed(metadata), {})
        self._parent_name = checkpoint_name(Place(place.ns, parent)) if parent else None
        self._parent: tuple[bytes, Head] | None = None

    # -- before the transaction

    def is_ready(self) -> bool:
        """Plan from memory. False: the memory does not suffice; call `look`."""
        if self._parent_name is not None:
            self._parent = self._memory.head(self._thread.session, self._parent_name)
            if self._parent is None:
                return False
        return self._prepare(None)

    def look(self, store: clew.Store) -> None:
        """Plan from the store."""
        self._memory.is_current(store)
        session = store.find(self._thread.session)
        self._parent = None
        if session is not None and self._parent_name is not None:
            document = session.get_document(self._parent_name)
            if document is not None:
                self._parent = document, self._codec.decode_head(document)
        self._prepare(session)

    def _prepare(self, session: clew.Session | None) -> bool:
        self._refs: dict[str, Ref] = {}
        self._documents: dict[str, bytes] = {}
        self._chains: list[tuple[str, log.Chain]] = []
        self._needs: set[str] = set()
        before = self._parent[1] if self._parent else None
        self._log = log_channel(self._place.ns, before, self._values) if self._codec.is_open else None
        self._common: list[Kept] = []
        self._added: list[Kept] = []
        for channel in {**self._head.fields.get("c", {}), **self._values}:
            carried = self._carried(channel, before)
            if carried is not None:
                self._refs[channel] = carried
            elif channel in self._values and not self._plan(channel, session, before):
                return False
        ref = self._refs.get(self._log) if self._log is not None else None
        if ref is not None and ref[0] == LOG:
            return self._plan_log(session, ref[1], None)
        if ref is not None:
            self._log = None
        return True

    def _carried(self, channel: str, before: Head | None) -> Ref | None:
        """Where the value is, if the parent has the same version of it."""
        if channel in self._new or before is None or channel not in self._head.fields.get("c", {}):
            return None
        if before.version(channel) != self._head.version(channel):
            return None
        return before.refs.get(channel)

    def _plan(self, channel: str, session: clew.Session | None, before: Head | None) -> bool:
        value = self._values[channel]
        ref = before.refs.get(channel) if before else None
        if channel == self._log:
            return self._plan_log(session, ref[1] if ref and ref[0] == LOG else "", value)
        if type(value) is list and len(value) > 1:
            known = self._plan_list(channel, value, session, ref)
            if known is not None:
                return known
        kind, content = self._codec.serde.dumps_typed(value)
        if len(content) <= (_PASSING if channel.startswith("__") else _SMALL):
            self._refs[channel] = [INLINE, kind, content]
        else:
            document = msgspec.msgpack.encode([kind, content])
            digest = digest_of(document)
            if ref != [VALUE, digest]:
                self._documents[value_name(digest)] = document
            self._refs[channel] = [VALUE, digest]
        return True

    def _plan_log(self, session: clew.Session | None, entry: str, value: list[Any] | None) -> bool:
        path = self._path(session, entry)
        if path is None:
            return False
        messages = path if value is None else value
        count = len(path) if value is None else shared(path, messages, self._codec.serde)
        self._common = path[:count]
        self._added = [] if value is None else kept_behind(messages, count, self._codec.serde)
        return True

    def _path(self, session: clew.Session | None, entry: str) -> list[Kept] | None:
        if not entry:
            return []
        if session is not None:
            return self._memory.path(session, entry)
        return self._memory.paths.known(self._thread.session, entry)

    def _plan_list(
        self, channel: str, value: list[Any], session: clew.Session | None, ref: Ref | None
    ) -> bool | None:
        """Whether the list could be planned; None: store it like any other value."""
        ns, prefix = self._place.ns, list_prefix(self._place.ns, channel)
        before, path = None, []
        if ref is not None and ref[0] == LIST:
            before = self._memory.chains.known(self._thread.session, prefix, ref[1])
            if before is None and session is None:
                return False
            before = before or log.known_chain(session, ns, channel, ref[1], self._codec)  # type: ignore[arg-type]
        if before is not None and before.entry:
            found = self._path(session, before.entry)
            if found is None:
                return False
            path = found
        elif before is None and self._codec.is_open and are_messages(value):
            path = self._memory.paths.latest(self._thread.session)
        planned = log.plan(value, self._codec, before, path)
        if planned is None:
            return None
        segment, chain = planned
        document = msgspec.msgpack.encode(segment)
        # A checkpoint that is put again must not change lists that other checkpoints share with it.
        chain = msgspec.structs.replace(
            chain, name=f"{escaped(self._place.id)}.{digest_of(document)[:4].hex()}"
        )
        if segment.entry and not segment.before:
            self._needs.add(segment.entry)
        self._documents[prefix + chain.name] = document
        self._chains.append((prefix, chain))
        self._refs[channel] = [LIST, chain.name]
        return True

    # -- in the transaction

    def commit(self, store: clew.Store) -> Outcome:
        # If there is a parent, which is compared below, the session is one of LangGraph's.
        session = (store.find(self._thread.session) if self._parent else None) or self._thread.open(store)
        if self._parent is None and is_waiting(session):
            raise Unsettled(self._thread)
        if not self._memory.is_current(store):
            raise Stale
        if self._stored_parent(session) != (self._parent[0] if self._parent else None):
            raise Stale
        self._check_entries(session)
        path: list[Kept] = []
        refs = dict(self._refs)
        if self._log is not None:
            path = write_path(session, self._common, self._added)
            refs[self._log] = [LOG, path[-1].entry if path else ""]
        at = None if self._log is not None else entry_at(session.head)
        self._settle(session)
        head = msgspec.structs.replace(self._head, refs=refs, writes=self._keep_writes(session), at=at)
        document = self._codec.encode_head(head)
        for name, content in self._documents.items():
            session.set_document(name, content)
        session.set_document(checkpoint_name(self._place), document)
        self._note_run(session)
        if not self._added:  # an append counts as activity by itself
            session.touch()
        return document, head, path

    def _stored_parent(self, session: clew.Session) -> bytes | None:
        """The document of the parent, which is nearly always the newest checkpoint."""
        self._is_newest = False
        if self._parent_name is None:
            return None
        newest = session.documents(prefix=checkpoints_of(self._place.ns), limit=1, newest_first=True)
        if newest and newest[0][0] == self._parent_name:
            self._is_newest = checkpoint_name(self._place).encode() > self._parent_name.encode()
            return newest[0][1]
        return session.get_document(self._parent_name)

    def _check_entries(self, session: clew.Session) -> None:
        """Check that the log has the messages with which a list begins: they may come from memory."""
        for entry in self._needs:
            try:
                next(iter(session.entries(at=entry, last=1)))
            except (clew.NotFoundError, StopIteration):
                self._memory.paths.forget(self._thread.session)
                raise Stale from None

    def _settle(self, session: clew.Session) -> None:
        """Put the parent and the writes of tasks after it into one compressed document."""
        if self._parent is None or self._parent_id == self._place.id or not self._codec.is_open:
            return
        stored, head = self._parent
        documents = session.documents(prefix=writes_of(Place(head.ns, head.id)))
        documents = [(name, each) for name, each in documents if len(each) <= _MOST_BESIDE]
        writes = [self._codec.decode_writes(each) for _, each in documents]
        settled = msgspec.structs.replace(head, writes=merged([*head.writes, *writes]))
        document = self._codec.pack(self._codec.encode_head(settled))
        if document != stored:
            session.set_document(checkpoint_name(Place(head.ns, head.id)), document)
        for each, _ in documents:
            session.delete_document(each)

    def _keep_writes(self, session: clew.Session) -> list[TaskWrites]:
        """The writes of tasks after this checkpoint, if it was put before."""
        stored = None if self._is_newest else session.get_document(checkpoint_name(self._place))
        return self._codec.decode_head(stored).writes if stored is not None else []

    def _note_run(self, session: clew.Session) -> None:
        if not isinstance(self._run, str) or not self._run:
            return
        name = run_name(self._run)
        if session.get_document(name) is None:
            session.set_document(name, b"")

    # -- after it

    def remember(self, outcome: Outcome) -> None:
        document, head, path = outcome
        session = self._thread.session
        self._memory.remember_head(session, checkpoint_name(self._place), document, head)
        if self._log is not None and path:
            self._memory.paths.remember(session, path)
        for prefix, chain in self._chains:
            self._memory.chains.remember(session, prefix, chain)


# -- the writes of tasks


def writing(
    codec: Codec, thread: Thread, place: Place, writes: Sequence[tuple[str, Any]], task: str, path: str
) -> Callable[[clew.Store], None]:
    """The work of a transaction that keeps these writes."""
    name, checkpoint = task_name(place, task), checkpoint_name(place)
    new = [
        Write(WRITES_IDX_MAP.get(channel, idx), channel, path, *codec.serde.dumps_typed(value))
        for idx, (channel, value) in enumerate(writes)
    ]

    def write(store: clew.Store) -> None:
        found = store.find(thread.session)
        head = found.get_document(checkpoint) if found is not None else None
        session = found if found is not None and head is not None else thread.open(store)
        if head is None and is_waiting(session):
            raise Unsettled(thread)
        stored = session.get_document(name)
        kept = codec.decode_writes(stored)[1] if stored is not None else []
        settled = codec.decode_head(head).writes if head is not None else []
        there = {each.idx for each in kept}.union(
            each.idx for owner, found in settled if owner == task for each in found
        )
        # A repeated write was kept already; of errors and interrupts (below 0) the latest counts.
        added = [each for each in new if each.idx < 0 or each.idx not in there]
        if added:
            document = codec.encode_writes(task, merged([(task, kept), (task, added)])[0][1])
            session.set_document(name, document)

    return write
