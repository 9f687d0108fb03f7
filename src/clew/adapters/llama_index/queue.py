"""The queue that LlamaIndex's `Memory` keeps: of the path, what is old is archived, and the rest is active.

Where the archive ends is a label on its last entry: it goes back with the conversation when that is rewound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

import clew
from clew.adapters.common.tail import rewind_before
from clew.adapters.llama_index.log import Said, found, is_same, made

Status: TypeAlias = Literal["active", "archived"]
T = TypeVar("T")

ARCHIVED: Final = "archived"


class Queue(NamedTuple):
    archived: list[clew.Entry]
    active: list[clew.Entry]

    def of(self, status: Status | None) -> list[clew.Entry]:
        if status is None:
            return [*self.archived, *self.active]
        return self.archived if status == ARCHIVED else self.active


def queue_of(session: clew.Session) -> Queue:
    path = [entry for entry in session.entries() if entry.kind == "message"]
    ends = [index for index, entry in enumerate(path) if entry.annotations.get("label") == ARCHIVED]
    end = ends[-1] + 1 if ends else 0
    return Queue(path[:end], path[end:])


def active_in(store: clew.Store, key: str) -> list[Said]:
    """The messages behind the archive, without reading that."""
    session = found(store, key)
    if session is None:
        return []
    return session.messages(after=next(session.entries(label=ARCHIVED, newest_first=True), None))


def looking(key: str, look: Callable[[Queue], T], default: T) -> Callable[[clew.Store], T]:
    def work(store: clew.Store) -> T:
        session = found(store, key)
        return default if session is None else look(queue_of(session))

    return work


def adding(key: str, said: Sequence[Said], status: Status) -> Callable[[clew.Store], None]:
    """What is added as archived goes to the end of the archive."""

    def work(store: clew.Store) -> None:
        if not said:
            return
        session = made(store, key)
        if status == ARCHIVED:
            _rewrite(session, said, ARCHIVED, queue_of(session).active)
        else:
            session.append(*said)

    return work


def setting(key: str, said: Sequence[Said], status: Status) -> Callable[[clew.Store], None]:
    def work(store: clew.Store) -> None:
        session = made(store, key) if said else found(store, key)
        if session is None:
            return
        path, same = queue_of(session), 0
        if status != ARCHIVED and not path.archived:
            while same < min(len(path.active), len(said)) and is_same(path.active[same], said[same]):
                same += 1
        everything = path.of(None)
        if same < len(everything):
            rewind_before(session, everything[same])
        _rewrite(session, said[same:], status, [])

    return work


def archiving(key: str, count: int) -> Callable[[clew.Store], list[Said]]:
    """The oldest that are active are not any more."""

    def work(store: clew.Store) -> list[Said]:
        session = found(store, key)
        oldest = [] if session is None else queue_of(session).active[: max(count, 0)]
        if session is not None and oldest:
            session.annotate(oldest[-1], label=ARCHIVED)
        return [entry.message for entry in oldest]

    return work


def taking(key: str, choose: Callable[[Queue], list[clew.Entry]]) -> Callable[[clew.Store], list[Said]]:
    """Take entries of the path away, which stay on a branch; the others are what they were."""

    def work(store: clew.Store) -> list[Said]:
        session = found(store, key)
        if session is None:
            return []
        queue = queue_of(session)
        taken = choose(queue)
        if taken:
            _leave_out(session, queue, {entry.id for entry in taken})
        return [entry.message for entry in taken]

    return work


def _leave_out(session: clew.Session, queue: Queue, gone: set[str]) -> None:
    first = next(entry for entry in queue.of(None) if entry.id in gone)
    rewind_before(session, first)
    earlier = [entry for entry in queue.archived if entry.position < first.position]
    if earlier:  # the label may be on one that goes
        session.annotate(earlier[-1], label=ARCHIVED)
    later = [
        [entry for entry in part if entry.position > first.position and entry.id not in gone]
        for part in queue
    ]
    _rewrite(session, [entry.message for entry in later[0]], ARCHIVED, [])
    session.append(*(entry.raw for entry in later[1]))


def _rewrite(
    session: clew.Session, said: Sequence[Said], status: Status, behind: Sequence[clew.Entry]
) -> None:
    """Append messages of a status, before others that are on the path."""
    if behind:
        rewind_before(session, behind[0])
    written = session.append(*said)
    if status == ARCHIVED and written:
        session.annotate(written[-1], label=ARCHIVED)
    session.append(*(entry.raw for entry in behind))
