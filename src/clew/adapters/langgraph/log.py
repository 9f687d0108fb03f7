"""Lists of a thread that grow, messages first: each is a path of the session's log."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from secrets import token_bytes
from typing import Any, Final

import msgspec
from langchain_core.messages import AIMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import clew
from clew.adapters.common import count_of, entry_at
from clew.adapters.langgraph.documents import LOG, Codec, Head, digest_of, list_prefix
from clew.adapters.langgraph.messages import Kept, are_messages, keep, kept_from, message_of, shared

# ── Lists that grow: each version keeps only its new elements, so that a list of n elements costs n ───
# For lists that are not the conversation: of other channels, and of subgraphs. A segment names what it
# continues (an older segment, or a place in the log whose messages it begins with), how many elements of that
# it keeps, and its own elements. A chain with too many elements that its list has lost is written as a whole
# again, so reading never costs more than twice the list.

SMALLEST: Final = 1024
"""The fewest bytes of a list that is kept in segments."""

_MOST_CHAINS: Final = 256
_PLAIN: Final = JsonPlusSerializer(allowed_msgpack_modules=None)

Element = tuple[str, bytes]


class Segment(msgspec.Struct, array_like=True, frozen=True):
    before: str
    """The segment that it continues; empty: none."""
    first: str
    """The oldest segment of its chain; empty: itself."""
    entry: str
    """The entry in the log whose path the chain begins with; empty: none."""
    kept: int
    """How many elements of the list before it keeps."""
    elements: list[Element]
    weight: int
    """The bytes of all elements in the chain."""


class Chain(msgspec.Struct, frozen=True):
    """A stored list, by digests: enough to find the elements that another list has more."""

    name: str
    first: str
    entry: str
    from_log: int
    """How many of its elements are messages of the log."""
    digests: list[bytes]
    """The digests of its other elements."""
    weight: int


class Chains:
    """The chains that were written or read last."""

    def __init__(self) -> None:
        self._chains: OrderedDict[tuple[str, str, str], Chain] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, session: str, prefix: str, name: str) -> Chain | None:
        with self._lock:
            return self._chains.get((session, prefix, name))

    def clear(self) -> None:
        with self._lock:
            self._chains.clear()

    def remember(self, session: str, prefix: str, chain: Chain) -> None:
        with self._lock:
            self._chains[session, prefix, chain.name] = chain
            while len(self._chains) > _MOST_CHAINS:
                self._chains.popitem(last=False)


def plan(
    value: Sequence[Any], codec: Codec, before: Chain | None, path: list[Kept]
) -> tuple[Segment, Chain] | None:
    """How to store a list, and its chain without a name; None: the list is too small for it.

    `path`: the messages with which `before` begins, or others that this list may begin with.
    """
    log = shared(path, value, codec.serde)
    if before is not None and log < before.from_log:
        before = None
    log = log if before is None else before.from_log
    marked = [_marked(each, codec) for each in value[log:]]
    digests = [digest for digest, _ in marked]
    size = sum(length for _, length in marked)
    if size < SMALLEST and log == 0 and before is None:
        return None
    entry = path[log - 1].entry if log else ""
    if before is not None:
        same = _common(before.digests, digests)
        weight = before.weight + sum(length for _, length in marked[same:])
        if (same or log) and weight <= 2 * size + SMALLEST:
            first = before.first or before.name
            added = [codec.serde.dumps_typed(each) for each in value[log + same :]]
            segment = Segment(before.name, first, entry, log + same, added, weight)
            return segment, Chain("", first, entry, log, digests, weight)
    elements = [codec.serde.dumps_typed(each) for each in value[log:]]
    return Segment("", "", entry, log, elements, size), Chain("", "", entry, log, digests, size)


def _marked(element: Any, codec: Codec) -> tuple[bytes, int]:
    """The digest of an element, and its size. Encryption never gives the same bytes twice, so the digest is
    of the plain form, which is not stored."""
    try:
        _, content = (codec.serde if codec.is_open else _PLAIN).dumps_typed(element)
    except Exception:  # noqa: BLE001 (what only the user's own serializer can write is never the same)
        return token_bytes(16), 256
    return digest_of(content), len(content)


def known_chain(session: clew.Session, ns: str, channel: str, name: str, codec: Codec) -> Chain:
    """The chain of a list that is stored."""
    last, entry, log, elements = _read(session, ns, channel, name)
    digests = [_marked(codec.serde.loads_typed(each), codec)[0] for each in elements]
    return Chain(name, last.first, entry, log, digests, last.weight)


def load(
    session: clew.Session, ns: str, channel: str, name: str, codec: Codec, known: Callable[[str], list[Kept]]
) -> list[Any]:
    """The list. `known` gives the path to an entry of the log."""
    _, entry, log, elements = _read(session, ns, channel, name)
    begin = [message_of(kept, codec.serde) for kept in known(entry)] if log else []
    return begin + [codec.serde.loads_typed(element) for element in elements]


def _read(session: clew.Session, ns: str, channel: str, name: str) -> tuple[Segment, str, int, list[Element]]:
    """The last segment; the entry and the number of messages that the list begins with; the rest of it."""
    prefix = list_prefix(ns, channel)
    last = _segment(session.get_document(prefix + name), prefix + name)
    found = {name: last}
    if last.before:
        # One read of all segments in between, instead of one read for each.
        rows = session.documents(prefix=prefix, after=prefix + last.first)
        found |= {row[len(prefix) :]: _segment(content, row) for row, content in rows}
    chain = [last]
    while chain[-1].before:
        older = chain[-1].before
        if older not in found:
            found[older] = _segment(session.get_document(prefix + older), prefix + older)
        chain.append(found[older])
    log = chain[-1].kept if chain[-1].entry else 0
    elements: list[Element] = []
    for segment in reversed(chain):
        del elements[segment.kept - log :]
        elements += segment.elements
    return last, chain[-1].entry, log, elements


def names_of_chain(session: clew.Session, ns: str, channel: str, name: str) -> list[str]:
    """The documents that a list needs."""
    prefix, names = list_prefix(ns, channel), []
    while name:
        names.append(prefix + name)
        name = _segment(session.get_document(prefix + name), prefix + name).before
    return names


def _segment(document: bytes | None, name: str) -> Segment:
    if document is None:
        raise clew.CorruptError(
            f"a list of a LangGraph thread lacks its document {name!r}: run store.verify()"
        )
    return msgspec.msgpack.decode(document, type=Segment)


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    count = min(len(one), len(other))
    return next((at for at in range(count) if one[at] != other[at]), count)


# ── The messages of a thread in the log of its session, and a saver's memory of them ──────────────
# Each message is appended once, however many checkpoints have it. A checkpoint keeps the entry of its last
# message, and its list is the path to that entry. A list that continues another one is an append; a list
# that differs further up is a branch from the last message that both have. So the log is the conversation,
# and every old checkpoint still reads its own list.

FIRST_CHOICE: Final = "messages"
_MOST_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of messages in memory; with them a list is not read or written as a whole each time."""


class Purged(clew.NotFoundError):
    """The messages of a checkpoint were on a branch of another session, and were purged with it."""


class Paths:
    """The last path of each session that was read or written, as long as there is room."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._paths: OrderedDict[str, tuple[list[Kept], int]] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, session: str, entry: str) -> list[Kept] | None:
        """The path to an entry, if it is a part of the path in memory."""
        with self._lock:
            found = self._paths.get(session)
            if found is None:
                return None
            self._paths.move_to_end(session)
        path = found[0]
        for at in range(len(path) - 1, -1, -1):
            if path[at].entry == entry:
                return path[: at + 1]
        return None

    def clear(self) -> None:
        with self._lock:
            self._paths.clear()
            self._bytes = 0

    def latest(self, session: str) -> list[Kept]:
        with self._lock:
            return self._paths[session][0] if session in self._paths else []

    def remember(self, session: str, path: list[Kept]) -> None:
        with self._lock:
            size = self._size(path, *self._paths.get(session, ([], 0)))
            self._drop(session)
            if size > self._most:
                return
            self._paths[session] = path, size
            self._bytes += size
            while self._bytes > self._most:
                self._drop(next(iter(self._paths)))

    def _size(self, path: list[Kept], known: list[Kept], known_size: int) -> int:
        # Nearly always this is the path in memory and a few more messages.
        goes_on = 0 < len(known) <= len(path) and path[len(known) - 1] is known[-1]
        start = len(known) if goes_on else 0
        return (known_size if goes_on else 0) + sum(len(kept.raw) for kept in path[start:])

    def forget(self, session: str) -> None:
        with self._lock:
            self._drop(session)

    def _drop(self, session: str) -> None:
        _, size = self._paths.pop(session, (None, 0))
        self._bytes -= size


def log_channel(ns: str, parent: Head | None, values: dict[str, Any]) -> str | None:
    """The channel whose list is the conversation: the one of the parent, else the first list of messages."""
    if ns:
        return None
    for channel, ref in parent.refs.items() if parent else ():
        if ref[0] == LOG:
            value = values.get(channel)
            return channel if value == [] or are_messages(value) else None
    if are_messages(values.get(FIRST_CHOICE)):
        return FIRST_CHOICE
    return next((channel for channel, value in values.items() if are_messages(value)), None)


def read_path(session: clew.Session, entry: str) -> list[Kept]:
    """The list that ends with an entry, without messages that a retention rule removed. Raises Purged."""
    if not entry:
        return []
    try:
        entries = list(session.entries(at=entry))
    except clew.NotFoundError as error:
        raise Purged(
            f"the messages of thread {session.id!r} up to {entry} were purged, with the session that had them"
        ) from error
    found = (kept_from(each.raw, each.id) for each in entries if each.kind == "message")
    return [kept for kept in found if kept is not None]


def kept_behind(messages: Sequence[Any], start: int, serde: SerializerProtocol) -> list[Kept]:
    return [keep(message, serde) for message in messages[start:]]


def write_path(session: clew.Session, common: list[Kept], new: list[Kept]) -> list[Kept]:
    """Move the session to the end of this list. The messages in `common` are in the log already."""
    _go_to(session, common[-1].entry if common else "")
    if not new:
        return common
    entries = session.append(*(kept.raw for kept in new))
    added = [Kept(entry.raw, kept.message, entry.id) for kept, entry in zip(new, entries, strict=True)]
    for kept in added:
        _count_usage(session, kept)
    return common + added


def _go_to(session: clew.Session, entry: str) -> None:
    if entry and entry == entry_at(session.head):  # nearly always, and no entry has to be read for it
        return
    # Summaries and compactions behind the entry stay on the path; messages of other programs do not.
    for each in session.entries(newest_first=True):
        if each.id == entry:
            return
        if each.kind == "message":
            break
    else:
        if not entry:
            return
    if entry:
        session.rewind(entry)
    else:
        session.clear()


def _count_usage(session: clew.Session, kept: Kept) -> None:
    message = kept.message
    if not isinstance(message, AIMessage) or not message.usage_metadata:
        return
    usage = message.usage_metadata
    prompt, answer = usage.get("input_token_details") or {}, usage.get("output_token_details") or {}
    # A message on two branches was paid for once; numbers that make no sense must not stop it from being
    # stored.
    with suppress(clew.KeyReusedError, clew.InvalidError):
        session.add_usage(
            model=_text(
                message.response_metadata.get("model_name") or message.response_metadata.get("model")
            ),
            vendor=_text(message.response_metadata.get("model_provider")),
            source=message.name,
            input_tokens=count_of(usage.get("input_tokens")),
            output_tokens=count_of(usage.get("output_tokens")),
            cache_read_tokens=count_of(prompt.get("cache_read")),
            cache_write_tokens=count_of(prompt.get("cache_creation")),
            reasoning_tokens=count_of(answer.get("reasoning")),
            entry=kept.entry,
            id=message.id or kept.entry,
        )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


# -- memory

_MOST_HEADS: Final = 512
_MOST_SWEPT: Final = 10_000


class Memory:
    """What a saver has read or written before. Each use is checked against the store, or cannot be
    outdated."""

    def __init__(self) -> None:
        self.paths = Paths()
        self.chains = Chains()
        self._heads: OrderedDict[tuple[str, str], tuple[bytes, Head]] = OrderedDict()
        self._removals: list[clew.model.Removal] | None = None
        self._swept: set[str] = set()
        self._lock = threading.Lock()

    def is_current(self, store: clew.Store) -> bool:
        """Whether no retention rule removed anything since the last call. If one did, the memory is emptied:
        removed messages must not stay in it."""
        removals = store.removals(limit=1)
        with self._lock:
            if self._removals == removals:
                return True
            is_first, self._removals = self._removals is None, removals
            self._swept.clear()
            if is_first:
                return True
            self._heads.clear()
        self.paths.clear()
        self.chains.clear()
        return False

    def claim_sweep(self, session: str) -> bool:
        """Whether to look for checkpoints of a thread with copies of messages that a rule removed.

        True once for each thread, and again after each time that a rule of the store removed something.
        """
        with self._lock:
            if not self._removals or session in self._swept:
                return False
            if len(self._swept) >= _MOST_SWEPT:
                self._swept.clear()
            self._swept.add(session)
            return True

    def head(self, session: str, name: str) -> tuple[bytes, Head] | None:
        with self._lock:
            return self._heads.get((session, name))

    def remember_head(self, session: str, name: str, document: bytes, head: Head) -> None:
        with self._lock:
            self._heads[session, name] = document, head
            self._heads.move_to_end((session, name))
            while len(self._heads) > _MOST_HEADS:
                self._heads.popitem(last=False)

    def path(self, session: clew.Session, entry: str) -> list[Kept]:
        """The path to an entry, from memory or from the store."""
        if not entry:
            return []
        path = self.paths.known(session.id, entry)
        if path is None:
            path = read_path(session, entry)
            self.paths.remember(session.id, path)
        return path
