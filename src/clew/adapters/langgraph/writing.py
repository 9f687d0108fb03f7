"""What tasks wrote after a checkpoint, before there is a next one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP

import clew
from clew.adapters.langgraph.documents import Codec, Place, Write, checkpoint_name, merged, task_name
from clew.adapters.langgraph.memory import Thread, Unsettled, is_waiting


def writing(
    codec: Codec, thread: Thread, place: Place, writes: Sequence[tuple[str, Any]], task: str, path: str
) -> Callable[[clew.Store], None]:
    """What to do in a transaction, so that these writes are kept."""
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
        # A write that is repeated was done already; what tells of errors and interrupts is the latest.
        added = [each for each in new if each.idx < 0 or each.idx not in there]
        if added:
            document = codec.encode_writes(task, merged([(task, kept), (task, added)])[0][1])
            session.set_document(name, document)

    return write
