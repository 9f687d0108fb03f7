"""A `Storage` of Strands on a store: bytes under keys.

    from clew.adapters.strands import ClewStorage                      # pip install '.[strands]'

    storage = ClewStorage(clew.open("agents.db"))
    agent = Agent(session_manager=SnapshotSessionManager("chat-1", storage=storage))

Keys are documents. A snapshot of an agent is JSON text that contains the whole conversation, and Strands
writes it again at each save. It is kept as a session: its messages are entries of the log, each written once,
and a read gives exactly the bytes that were written. For that the bytes are cut, never parsed and encoded
again.
"""

from __future__ import annotations

import asyncio
import builtins
import copy
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec
from blake3 import blake3
from strands.storage.search import KeywordSearchStrategy

# _NAMESPACED marks a storage that has its prefix already, _EPHEMERAL one that keeps nothing on a disk.
from strands.storage.storage import _EPHEMERAL, _NAMESPACED, _normalize_key, _normalize_prefix
from strands.types.exceptions import StorageError

import clew
from clew.adapters.common import BEGINNING, faces
from clew.adapters.strands.log import LATEST, Layout, Spot, fit_snapshot, go_back, note_usage

if TYPE_CHECKING:
    from strands.storage.search import SearchStrategy, StorageSearchResult

# -- snapshots, cut into messages and the rest

_COMMA: Final = b", "
_BEGIN: Final = re.compile(
    rb'\{"scope": "agent", "schema_version": "[^"\\\n]*", "created_at": "[^"\\\n]*", "data": \{"messages": \['
)
_scan: Final = json.JSONDecoder().raw_decode


class Place(msgspec.Struct, frozen=True, array_like=True):
    """The messages of a snapshot: those behind `after` on the path to (branch, position)."""

    branch: str
    position: int
    after: int
    """-1: from the first on."""

    @property
    def head(self) -> clew.Head:
        return clew.Head(self.branch, self.position)


class Text(msgspec.Struct, frozen=True, array_like=True):
    """The part of the log that the last snapshot had: enough to see whether the next one continues it."""

    place: Place
    length: int
    digest: str
    """The digest of the messages as they are in the snapshot."""


class Plan(NamedTuple):
    """How to write a snapshot to the log."""

    rewind: clew.Head | int | None
    """Where to go before anything is appended; None: stay."""
    new: list[bytes]
    after: int
    end: int
    """Where the messages end in the snapshot."""
    digest: str
    """Of all messages in it."""


class Step(NamedTuple):
    """A message of the log."""

    position: int
    raw: bytes


def begin_of(data: bytes) -> int | None:
    """Where the messages begin in a snapshot of an agent; None: it is something else."""
    found = _BEGIN.match(data)
    return None if found is None else found.end()


def going_on(data: bytes, begin: int, text: Text) -> Plan | None:
    """The plan for a snapshot that has all messages of the last one, and perhaps some more."""
    old = begin + text.length
    hasher = blake3(memoryview(data)[begin:old])
    if len(data) < old or hasher.hexdigest() != text.digest:
        return None
    found = _messages(data, old, is_first=not text.length)
    if found is None:
        return None
    messages, end = found
    return Plan(None, messages, text.place.after, end, hasher.update(memoryview(data)[old:end]).hexdigest())


def starting_anew(data: bytes, begin: int, log: Sequence[Step]) -> Plan | None:
    """The plan for any other snapshot. It shares the longest run of messages that begins as it does: where
    a window slides, the log keeps what left it; where something was changed, a branch begins."""
    found = _messages(data, begin, is_first=True)
    if found is None:
        return None
    messages, end = found
    digest = blake3(memoryview(data)[begin:end]).hexdigest()
    start, shared = _aligned(messages, log)
    if not shared:
        return Plan(BEGINNING if log else None, messages, -1, end, digest)
    after = log[start].position - 1
    is_tip = start + shared == len(log)
    back_to = None if is_tip else log[start + shared - 1].position
    return Plan(back_to, messages[shared:], after, end, digest)


def _aligned(messages: Sequence[bytes], log: Sequence[Step]) -> tuple[int, int]:
    """Where in the log the messages begin, and how many of them are there."""
    best = (0, 0)
    for start, step in enumerate(log):
        if not messages or step.raw != messages[0]:
            continue
        shared = 0
        for given, kept in zip(messages, log[start:], strict=False):
            if given != kept.raw:
                break
            shared += 1
        if shared > best[1]:
            best = (start, shared)
    return best


def _messages(data: bytes, begin: int, *, is_first: bool) -> tuple[list[bytes], int] | None:
    """The messages from here on, and where their list ends; None: this is no such list."""
    try:
        text = data[begin:].decode()
        found: list[bytes] = []
        at, end = 0, begin
        while not text.startswith("]", at):
            if found or not is_first:
                if not text.startswith(", ", at):
                    return None
                at += 2
            value, until = _scan(text, at)
            if not isinstance(value, dict):
                return None
            found.append(text[at:until].encode())
            at = until
    except (ValueError, RecursionError):
        return None
    end += sum(map(len, found)) + len(_COMMA) * (len(found) - is_first if found else 0)
    return found, end


def is_another(one: bytes, other: bytes) -> bool:
    """Whether these are two messages, not one with changed text: Strands gives each message an id that
    stays."""
    ids = [json.loads(raw).get("tracking_id") for raw in (one, other)]
    return None not in ids and ids[0] != ids[1]


def joined(raws: Sequence[bytes]) -> bytes:
    return _COMMA.join(raws)


# -- the storage

T = TypeVar("T")

_TEXT: Final = "text"
"""The document of an agent's session with the `Text` of its last snapshot."""
_ATTEMPTS: Final = 100
_SESSIONS: Final = "session"
"""The prefix that a `SnapshotSessionManager` gives its keys."""

_as_place = msgspec.json.Decoder(Place).decode
_as_text = msgspec.json.Decoder(Text).decode


class _Inexact(Exception):
    """The log cannot give back exactly these bytes."""


class _Seen(NamedTuple):
    """The head and the `Text` of an agent's session when it was read."""

    head: clew.Head
    text: bytes | None


class ClewStorage:
    """A `Storage` of Strands.

    Args:
        store: An open store, sync or async. The storage does not close it.
        name: Storages with different names in one store share nothing.
        search_strategy: As for Strands' own storages; by default all keys are searched for keywords.
        run: Write under the lease of this run (`with storage.session("chat-1").run() as run:`).
    """

    def __init__(
        self,
        store: clew.Store | clew.AsyncStore,
        name: str = "strands",
        *,
        search_strategy: SearchStrategy[Any] | None = None,
        run: clew.Run | clew.AsyncRun | None = None,
    ) -> None:
        self._blocking, self._tasks = faces(store)
        self._layout = Layout(name)
        self._prefix = ""
        self._search_strategy = search_strategy
        self._run = run
        if self._blocking.location == "memory:":
            self._ephemeral = _EPHEMERAL

    # -- the protocol of Strands

    async def write(self, key: str, data: bytes) -> None:
        """Store bytes under a key; they replace the old ones."""
        normalized = _normalize_key(key)
        content = bytes(data)
        spot = Spot.of(self._prefix + normalized)
        await _told(f"write '{key}'", self._write(spot, content))
        if self._search_strategy is not None:
            try:
                await self._search_strategy.index(self, normalized, content)
            except Exception as error:
                raise StorageError(f"Wrote '{key}' but indexing failed") from error

    async def read(self, key: str) -> bytes | None:
        """The bytes under a key; None: there is no such key."""
        spot = Spot.of(self._prefix + _normalize_key(key))
        return await _told(f"read '{key}'", self._tasks.read(lambda store: self._read(store, spot)))

    async def delete(self, key: str) -> None:
        """Delete a key, if there is one."""
        spot = Spot.of(self._prefix + _normalize_key(key))
        await _told(f"delete '{key}'", self._change(lambda store: self._layout.drop(store, spot)))

    async def list(self, query: str = "") -> builtins.list[str]:
        """The keys that begin with `query`, sorted."""
        prefix = self._prefix + _normalize_prefix(query)

        def look(store: clew.Store) -> builtins.list[str]:
            return sorted(self._layout.keys(store, prefix))

        keys = await _told(f"list keys with prefix '{query}'", self._tasks.read(look))
        return [key[len(self._prefix) :] for key in keys]

    async def search(self, query: str) -> builtins.list[StorageSearchResult]:
        """The best matches first. For conversations, `store.search()` is faster and knows roles."""
        strategy: SearchStrategy[Any] = self._search_strategy or KeywordSearchStrategy()
        return await strategy.search(self, query)

    def namespace(self, prefix: str) -> ClewStorage:
        """The same storage with a prefix before all keys."""
        normalized = _normalize_prefix(prefix).rstrip("/")
        scoped = copy.copy(self)
        scoped._prefix = f"{self._prefix}{normalized}/" if normalized else self._prefix
        scoped._namespaced = _NAMESPACED  # type: ignore[attr-defined]
        return scoped

    # -- beyond Strands

    def session(self, session_id: str, agent_id: str = "default") -> clew.Session:
        """The Clew session in which a `SnapshotSessionManager` keeps an agent: for `checkpoint(name,
        files=…)`, `rewind`, `undo`, `usage()` and so on.

        The next agent goes on where this session stands. Snapshots with an id do not change.
        """
        return self._blocking.get(self._layout.session_id(self._place(session_id, agent_id)))

    def fork_session(self, session_id: str, new_session_id: str, agent_id: str = "default") -> clew.Session:
        """A new session whose agent shares all messages so far, with its snapshots."""
        source = Spot(self._place(session_id, agent_id), LATEST)
        target = Spot(self._place(new_session_id, agent_id), LATEST)

        def work(store: clew.Store) -> None:
            base = store.get(self._layout.session_id(source.place))
            self._layout.fork(store, base, target)

        self._blocking.transact(work)
        return self.session(new_session_id, agent_id)

    def _place(self, session_id: str, agent_id: str) -> str:
        begin = self._prefix or f"{_SESSIONS}/"
        return f"{begin}{session_id}/scopes/agent/{agent_id}"

    # -- reading

    def _read(self, store: clew.Store, spot: Spot) -> bytes | None:
        session = self._layout.found(store, spot)
        marked = None if session is None else session.get_document(f"k/{spot.name}")
        if session is None or marked is None:
            return None
        content = session.get_document(f"d/{spot.name}") or b""
        if not marked:
            return content
        place = _as_place(marked)
        if spot.name == LATEST and _is_moved(session):
            after = place.after if place.after < session.head.position else -1
            return fit_snapshot(content, _entries(session, session.head, after))
        begin = begin_of(content)
        entries = _entries(session, place.head, place.after)
        return content[:begin] + joined([entry.raw for entry in entries]) + content[begin:]

    # -- writing

    async def _write(self, spot: Spot, data: bytes) -> None:
        begin = None if spot.place is None else begin_of(data)
        try:
            if begin is not None:
                await self._write_snapshot(spot, data, begin)
                return
        except (clew.errors.InvalidEntryError, _Inexact):
            pass  # the log cannot hold these bytes, with NaN for example: keep the snapshot as a whole
        await self._change(lambda store: self._put_whole(store, spot, data))

    def _put_whole(self, store: clew.Store, spot: Spot, data: bytes) -> None:
        session = self._layout.made(store, spot)
        session.set_document(f"k/{spot.name}", b"")
        session.set_document(f"d/{spot.name}", data)

    async def _write_snapshot(self, spot: Spot, data: bytes, begin: int) -> None:
        for _ in range(_ATTEMPTS):
            seen, plan = await self._tasks.read(lambda store: self._planned(store, spot, data, begin))
            if plan is None:
                raise _Inexact
            rest = data[:begin] + data[plan.end :]
            put = partial(self._put, spot=spot, seen=seen, plan=plan, begin=begin, rest=rest)
            if await self._change(put):
                return
        raise clew.ConflictError(
            f"other writers changed {spot.key!r} {_ATTEMPTS} times in a row: write it again"
        )

    def _planned(self, store: clew.Store, spot: Spot, data: bytes, begin: int) -> tuple[_Seen, Plan | None]:
        session = self._layout.found(store, spot)
        if session is None:
            return _Seen(BEGINNING, None), starting_anew(data, begin, [])
        seen = _Seen(session.head, session.get_document(_TEXT))
        text = None if seen.text is None else _as_text(seen.text)
        if text is not None and text.place.head == seen.head:
            plan = going_on(data, begin, text)
            if plan is not None:
                return seen, plan
        # A sliding window begins near where the last one began: search there first.
        after = -1 if text is None or text.place.after >= seen.head.position else text.place.after
        plan = starting_anew(data, begin, _steps(session, seen.head, after))
        if plan is not None and plan.rewind == BEGINNING and after >= 0:
            plan = starting_anew(data, begin, _steps(session, seen.head, -1))
        return seen, plan

    def _put(
        self, store: clew.Store, *, spot: Spot, seen: _Seen, plan: Plan, begin: int, rest: bytes
    ) -> bool:
        """False: another writer changed the session since it was read."""
        session = self._layout.made(store, spot)
        if seen != _Seen(session.head, session.get_document(_TEXT)):
            return False
        if plan.rewind is not None:
            self._go_back(session, plan.rewind, plan.new)
        if plan.new:
            entries = session.append(*plan.new)
            if [entry.raw for entry in entries] != plan.new:
                raise _Inexact
            for entry in entries:
                note_usage(session, entry.message, entry)
        place = Place(session.head.branch, session.head.position, plan.after)
        session.set_document(_TEXT, msgspec.json.encode(Text(place, plan.end - begin, plan.digest)))
        session.set_document(f"k/{spot.name}", msgspec.json.encode(place))
        session.set_document(f"d/{spot.name}", rest)
        return True

    def _go_back(self, session: clew.Session, to: clew.Head | int, new: builtins.list[bytes]) -> None:
        left = next((entry for entry in session.entries() if entry.kind == "message"), None)
        if to == BEGINNING and new and left is not None and is_another(left.raw, new[0]):
            session.rewind(to)  # a summary replaces the first message, whose words may stay the title
        else:
            go_back(session, to)

    async def _change(self, work: Callable[[clew.Store], T]) -> T:
        if isinstance(self._run, clew.Run):
            return await asyncio.to_thread(self._blocking.transact, work, run=self._run)
        return await self._tasks.transact(work, run=self._run)


def _is_moved(session: clew.Session) -> bool:
    """Whether the head was moved without the storage, by a rewind or an append."""
    text = session.get_document(_TEXT)
    return text is not None and _as_text(text).place.head != session.head


def _entries(session: clew.Session, head: clew.Head, after: int) -> builtins.list[clew.Entry]:
    """The messages on the path to `head`, behind a position."""
    if head.position < 0:
        return []
    path = session.entries(at=head) if after < 0 else session.entries(at=head, after=after)
    return [entry for entry in path if entry.kind == "message"]


def _steps(session: clew.Session, head: clew.Head, after: int) -> builtins.list[Step]:
    return [Step(entry.position, entry.raw) for entry in _entries(session, head, after)]


async def _told(what: str, work: Awaitable[T]) -> T:
    """The outcome of some work; errors become those of Strands."""
    try:
        return await work
    except StorageError:
        raise
    except Exception as error:
        raise StorageError(f"Failed to {what}: {error}") from error
