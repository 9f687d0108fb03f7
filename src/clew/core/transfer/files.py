"""The names of snapshots in a session that comes without its files."""

from __future__ import annotations

import msgspec

from clew.backends.contract import Reader, RecordKind
from clew.core.conversation.checkpoints import Record
from clew.core.conversation.moves import Move
from clew.core.transfer.image import Records, SessionImage, TreeImage
from clew.files.records import find_kept

_encode = msgspec.json.Encoder().encode


def without_files(reader: Reader, image: TreeImage) -> TreeImage:
    """The tree with the names of those snapshots only that the target keeps for this very tree. Any other
    would lead nowhere, or to files of somebody else."""
    branches = (reader.find_branch(branch.uid) for branch in image.branches)
    tree = next((branch.tree for branch in branches if branch is not None), 0)

    def is_there(id: str) -> bool:
        kept = find_kept(reader, id)
        return kept is not None and tree != 0 and kept.sessions == tree

    def bare(kind: RecordKind, value: bytes) -> bytes:
        if kind == "checkpoint":
            record = msgspec.json.decode(value, type=Record)
            if record.snapshot is not None and not is_there(record.snapshot):
                return _encode(msgspec.structs.replace(record, snapshot=None))
        elif kind == "move":
            move = msgspec.json.decode(value, type=Move)
            if move.files is not None and not (is_there(move.files.safety) and is_there(move.files.target)):
                return _encode(msgspec.structs.replace(move, files=None))
        return value

    def of_session(session: SessionImage) -> SessionImage:
        records: Records = {
            (kind, name): bare(kind, value) for (kind, name), value in session.records.items()
        }
        return msgspec.structs.replace(session, records=records)

    return msgspec.structs.replace(image, sessions=tuple(map(of_session, image.sessions)))
