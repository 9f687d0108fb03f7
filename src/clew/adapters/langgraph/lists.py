"""Lists that grow: each version keeps only its new elements, so that a list of n elements costs n.

For lists that are not the conversation: of other channels, and of subgraphs. A segment names what it
continues (an older segment, or a place in the log whose messages it begins with), how many elements of that
it keeps, and its own elements. A chain with too many elements that its list has lost is written as a whole
again, so reading never costs more than twice the list.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from secrets import token_bytes
from typing import Any, Final

import msgspec
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import clew
from clew.adapters.langgraph.documents import Codec, digest_of, list_prefix
from clew.adapters.langgraph.messages import Kept, message_of, shared

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
