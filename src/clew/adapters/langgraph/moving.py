"""What a saver writes before a thread goes on that Clew has moved: rewound or forked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import msgspec
from langgraph.checkpoint.base import empty_checkpoint

import clew
from clew.adapters.langgraph import lists
from clew.adapters.langgraph.documents import (
    LIST,
    LOG,
    VALUE,
    Codec,
    Head,
    Place,
    checkpoint_name,
    run_name,
    value_name,
    writes_of,
)
from clew.adapters.langgraph.log import FIRST_CHOICE
from clew.adapters.langgraph.memory import FRAMEWORK, Thread, is_waiting
from clew.adapters.langgraph.messages import kept_from
from clew.adapters.langgraph.reading import Found, Reader
from clew.adapters.langgraph.standing import Path, Standing, chosen


class Moving:
    """Lets threads go on from where Clew has put them. Every method is a part of a transaction."""

    def __init__(self, codec: Codec, reader: Reader) -> None:
        self._codec = codec
        self._reader = reader

    def settle(self, store: clew.Store, thread: Thread) -> None:
        """Write what this thread needs to go on."""
        session = thread.find(store)
        if session is None:
            return
        if is_waiting(session):
            self._adopt(store, session)
        standing = self._reader.standing(session)
        if standing is not None and self._reader.needs_restart(session, standing):
            self._write(session, self._again(standing.found.head))

    def settle_forks(self, store: clew.Store, thread: Thread) -> None:
        """Let the forks of a thread do without it."""
        base = thread.find(store)
        forks = base.tree().forks.items() if base is not None else ()
        for id, point in forks:
            fork = store.find(id)
            if base is not None and point.session == base.id and fork is not None and is_waiting(fork):
                self._adopt(store, fork)

    def _again(self, head: Head) -> Head:
        """The same checkpoint once more, as another child of the one before it, after which nothing was done.
        It has another id, so its tasks are others, and so are the namespaces of its subgraphs."""
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
                        f"thread {info.id!r} is a fork of {id!r}, which is in the trash, and its state with "
                        f"it: bring it back with store.restore_deleted({id!r}), then read the fork"
                    )
                return None
            if not is_waiting(base) or base.documents(prefix="c/", limit=1):
                return base
            info = base.info
        return None

    def _begin_with_messages(self, fork: clew.Session, info: clew.SessionInfo) -> None:
        """The base is purged, and its documents with it. What was said is shared, so it is still there."""
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
        """The checkpoint at which the fork begins, those that it was made of, and what they need."""
        everything = self._reader.all_of(self._base)
        roots = [found for found in everything if not found.head.ns]
        before = [found for found in roots if self._is_before(found.head)] or roots
        standing = chosen(before, self._path, self._reader.is_input)
        if standing is None:
            return
        tip = standing.found.head
        # The base may have gone on from it since, and what its tasks wrote is not the fork's.
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
        """Whether a checkpoint of a subgraph is one of those that the fork has."""
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
            yield from lists.names_of_chain(session, head.ns, channel, ref[1])


def _is_in_trash(store: clew.Store, id: str) -> bool:
    cursor: str | None = None
    while True:
        page = store.list(deleted=True, where={"framework": FRAMEWORK}, limit=500, cursor=cursor)
        if any(info.id == id for info in page):
            return True
        cursor = page.cursor
        if cursor is None:
            return False
