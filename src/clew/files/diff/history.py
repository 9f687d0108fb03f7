"""Which checkpoints changed a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clew.files import records
from clew.files.objects.format import TreeEntry
from clew.files.restore.plan import find_entry
from clew.files.restore.planning import directories_of
from clew.model.files import FileVersion

if TYPE_CHECKING:
    from clew.core.retention.sweep import Machinery
    from clew.files.objects.store import ObjectReader
    from clew.model import Checkpoint


def history(
    engine: Machinery, objects: ObjectReader, path: str, checkpoints: Sequence[Checkpoint]
) -> list[FileVersion]:
    """The versions of a file, or of a link, along these checkpoints."""
    found: list[FileVersion] = []
    before: TreeEntry | None = None
    for checkpoint in checkpoints:
        assert checkpoint.snapshot is not None
        with engine.read() as reader:
            snapshot = records.find(reader, checkpoint.snapshot)
        if snapshot is None:
            continue
        tree = bytes.fromhex(snapshot.tree)
        now = find_entry(tree, os.fsencode(path.strip("/")), directories_of(objects))
        if now != before:
            found.append(_version(checkpoint, before, now))
        before = now
    return found


def _version(checkpoint: Checkpoint, before: TreeEntry | None, now: TreeEntry | None) -> FileVersion:
    return FileVersion(
        checkpoint=checkpoint.name,
        position=checkpoint.position,
        at=checkpoint.created_at,
        verb="deleted" if now is None else "created" if before is None else "changed",
        size=None if now is None else now.size,
        hash=None if now is None else now.digest.hex(),
    )
