"""How two snapshots differ: per file, with renames, and as text on demand; and the versions of a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from clew.files import records
from clew.files.diff.recorded import Recorded, Recording
from clew.files.diff.text import unified
from clew.files.diff.trees import (
    MOST_CANDIDATES,
    MOST_TEXT,
    Difference,
    differences,
    exact_renames,
    is_text,
    similar_renames,
)
from clew.files.objects.format import FOLDER, TreeEntry, find_entry
from clew.files.objects.store import ObjectReader, directories_of
from clew.model.files import FileDiff, FileVersion

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike
    from clew.model import Checkpoint

# -- which checkpoints changed a file


def history(
    engine: EngineLike, objects: ObjectReader, path: str, checkpoints: Sequence[Checkpoint]
) -> list[FileVersion]:
    """The versions of a file, or of a link, along these checkpoints. Those that do not record it are passed
    over: they do not say that it was gone."""
    found: list[FileVersion] = []
    before: TreeEntry | None = None
    for checkpoint in checkpoints:
        assert checkpoint.snapshot is not None
        with engine.read() as reader:
            snapshot = records.find(reader, checkpoint.snapshot)
        if snapshot is None:
            continue
        tree = bytes.fromhex(snapshot.tree)
        name = os.fsencode(path.strip("/"))
        now = find_entry(tree, name, directories_of(objects))
        if now is None and name not in Recorded(snapshot):
            continue
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


# -- what differs between two trees

MOST_COMPARED: Final = 16 * 1024 * 1024
"""So much is read on either side to find out what was renamed and changed."""


def diff(
    objects: ObjectReader,
    old: bytes | None,
    new: bytes | None,
    *,
    recorded: tuple[Recording, Recording] = (None, None),
    text: bool = False,
    renames: bool = True,
    after: bytes | None = None,
    limit: int | None = None,
) -> list[FileDiff]:
    """What differs between two trees, by path; None: an empty one.

    `recorded`: what the old and the new side say something of. A file that is missing
    from a side which does not record it is neither added nor removed.

    `text` fills in unified diffs of files up to 1 MiB. A file that came is told as renamed if one of the
    same content went; or, of up to 500 on either side, a text of which half is the same. `after` and `limit`
    choose a page: only its texts are compared.
    """
    found = list(differences(old, new, objects.directory))
    unrecorded = {one.path for one in found if not _is_on_record(one, *recorded)}
    known = [one for one in found if one.path not in unrecorded]
    origins = _origins(objects, known) if renames else {}
    moved = {origin.path for origin in origins.values()}
    told = [
        one
        for one in found
        if (one.status != "removed" or one.path not in moved) and (after is None or one.path > after)
    ]
    told.sort(key=lambda one: one.path)
    return [
        _unrecorded(one) if one.path in unrecorded else _told(objects, one, origins.get(one.path), text)
        for one in told[:limit]
    ]


def _is_on_record(one: Difference, old: Recording, new: Recording) -> bool:
    """Whether a side on which there is nothing says that there was nothing."""
    silent = old if one.old is None else new if one.new is None else None
    return silent is None or one.path in silent


def _unrecorded(one: Difference) -> FileDiff:
    return FileDiff(
        path=os.fsdecode(one.path), status="unrecorded", old_size=_size(one.old), size=_size(one.new)
    )


def _told(objects: ObjectReader, one: Difference, origin: Difference | None, text: bool) -> FileDiff:
    old = one.old if origin is None else origin.old
    path = os.fsdecode(one.path)
    old_path = None if origin is None else os.fsdecode(origin.path)
    return FileDiff(
        path=path,
        status=one.status if origin is None else "renamed",
        old_path=old_path,
        old_size=_size(old),
        size=_size(one.new),
        text=_text_diff(objects, old, one.new, old_path or path, path) if text else None,
    )


def _size(entry: TreeEntry | None) -> int | None:
    return None if entry is None or entry.kind == FOLDER else entry.size


def _text_diff(
    objects: ObjectReader, old: TreeEntry | None, new: TreeEntry | None, old_path: str, path: str
) -> str | None:
    """None: a side is no text, or too long. Empty: the content is the same."""
    if any(side is not None and not (side.is_file and side.size <= MOST_TEXT) for side in (old, new)):
        return None
    if old is not None and new is not None and old.digest == new.digest:
        return ""
    before = _content(objects, old)
    after = _content(objects, new)
    if not is_text(before) or not is_text(after):
        return None
    names = None if old is None else old_path, None if new is None else path
    return unified(before.decode(), after.decode(), *names)


def _content(objects: ObjectReader, entry: TreeEntry | None) -> bytes:
    return b"" if entry is None else b"".join(objects.pieces(entry))


# -- renames


def _origins(objects: ObjectReader, found: Iterable[Difference]) -> dict[bytes, Difference]:
    """For the path of each file that came under another name: what went."""
    removed = [one for one in found if one.status == "removed"]
    added = [one for one in found if one.status == "added"]
    origins = exact_renames(removed, added)
    used = {origin.path for origin in origins.values()}
    went = {one.path: one for one in removed if one.path not in used and _may_be_text(one.old)}
    came = {one.path: one for one in added if one.path not in origins and _may_be_text(one.new)}
    if max(len(went), len(came)) <= MOST_CANDIDATES:
        pairs = similar_renames(
            _texts(objects, {path: one.old for path, one in went.items()}),
            _texts(objects, {path: one.new for path, one in came.items()} if went else {}),
        )
        origins.update({path: went[old] for path, old in pairs.items()})
    return origins


def _may_be_text(entry: TreeEntry | None) -> bool:
    return entry is not None and entry.is_file and 0 < entry.size < MOST_TEXT


def _texts(objects: ObjectReader, entries: dict[bytes, TreeEntry | None]) -> dict[bytes, bytes]:
    """Contents by path, the smallest first, up to what may be compared."""
    texts: dict[bytes, bytes] = {}
    size = 0
    there = [(path, entry) for path, entry in entries.items() if entry is not None]
    for path, entry in sorted(there, key=lambda pair: pair[1].size):
        size += entry.size
        if size > MOST_COMPARED:
            break
        content = _content(objects, entry)
        if is_text(content):
            texts[path] = content
    return texts
