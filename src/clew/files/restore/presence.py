"""Before a restore changes anything: is all in the store that it needs, and all that an undo would need? And
is there room for what it writes?"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from clew.errors import CorruptError, DiskFullError
from clew.files.objects.format import CHUNKED, FOLDER, TreeEntry, decode_chunks
from clew.files.restore.plan import Step

if TYPE_CHECKING:
    from clew.files.objects.store import ObjectReader

ASKED_AT_ONCE: Final = 500


def check_all_is_there(reader: ObjectReader, steps: Iterable[Step]) -> None:
    """P13: before the first change, all that will be written, and all that will go, is in the store, or
    will be in the transaction that begins the restore."""
    leaves = [entry for step in steps for entry in (step.new, step.old) if entry and entry.kind != FOLDER]
    names = dict.fromkeys(entry.digest for entry in leaves)
    for entry in leaves:
        if entry.kind & CHUNKED:
            names.update(dict.fromkeys(_chunks(reader, entry)))
    asked = list(names)
    for first in range(0, len(asked), ASKED_AT_ONCE):
        reader.check_there(asked[first : first + ASKED_AT_ONCE])


def check_room(root: str, steps: Iterable[Step]) -> None:
    """DiskFullError: what the directories of the snapshot say that files will take is more than is free, even
    when all that goes is gone. So it is said before the first change, and a made-up size costs nothing."""
    needed = sum(_size(step.new) - _size(step.old) for step in steps)
    stat = os.statvfs(root)
    free = stat.f_bavail * stat.f_frsize
    if needed > free:
        raise DiskFullError(
            f"{free:,} bytes are free in {root}; the restore needs {needed:,} more than it frees"
        )


def _size(entry: TreeEntry | None) -> int:
    return entry.size if entry is not None and entry.is_file else 0


def _chunks(reader: ObjectReader, entry: TreeEntry) -> list[bytes]:
    try:
        return [chunk.digest for chunk in decode_chunks(reader.get(entry.digest))]
    except ValueError as exc:
        raise CorruptError(f"the content of {entry.name!r} is damaged: {exc}") from exc
