"""A look into a snapshot: what it holds, page by page, and parts of a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

from clew.files.objects.format import EMPTY_TREE, EXECUTABLE, FOLDER, LINK, TreeBudget, TreeEntry, find_entry
from clew.files.objects.store import ObjectReader, directories_of
from clew.model.files import SnapshotFile


def files_at(
    objects: ObjectReader, tree: bytes, path: bytes, after: bytes | None, limit: int, *, deep: bool = True
) -> list[SnapshotFile] | None:
    """The file, or the link, at a path; of a directory what is in it, however deep: files, links and
    directories that are empty. Not `deep`: only what is directly in it, with all directories. In the order of
    a walk: names by their bytes. None: there is nothing."""
    entry = find_entry(tree, path, directories_of(objects))
    if entry is None:
        return None
    if entry.kind != FOLDER:
        return [_told(path, entry)] if after is None or _parts(path) > _parts(after) else []
    return [_told(*found) for found in islice(_walk(objects, entry.digest, path, after, deep), limit)]


def _walk(
    objects: ObjectReader, tree: bytes, path: bytes, after: bytes | None, deep: bool
) -> Iterator[tuple[bytes, TreeEntry]]:
    """What comes after a path. What comes before it is not entered, so that a page costs what is on it."""
    budget = TreeBudget()
    start = None if after is None else _parts(after)
    below: list[tuple[list[bytes], Iterator[TreeEntry]]] = [(_parts(path), iter(_directory(objects, tree)))]
    while below:
        parts, entries = below[-1]
        entry = next(entries, None)
        if entry is None:
            below.pop()
            continue
        here = [*parts, entry.name]
        if start is not None and here < start[: len(here)]:
            continue
        budget.spend(b"/".join(here))
        inside = _directory(objects, entry.digest) if deep and entry.kind == FOLDER else []
        if inside:
            below.append((here, iter(inside)))
        elif start is None or here > start:
            yield b"/".join(here), entry


def _directory(objects: ObjectReader, tree: bytes) -> list[TreeEntry]:
    return [] if tree == EMPTY_TREE else objects.directory(tree)


def _parts(path: bytes) -> list[bytes]:
    return path.split(b"/") if path else []


def _told(path: bytes, entry: TreeEntry) -> SnapshotFile:
    is_folder = entry.kind == FOLDER
    return SnapshotFile(
        path=os.fsdecode(path),
        kind="directory" if is_folder else "link" if entry.kind == LINK else "file",
        size=0 if is_folder else entry.size,
        executable=entry.is_file and bool(entry.kind & EXECUTABLE),
        hash=entry.digest.hex(),
    )
