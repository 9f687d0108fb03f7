"""What a snapshot left out, and a restore therefore does not delete.

A snapshot leaves out what was ignored, and lists what it had to skip. A file of that kind may be older than
the snapshot: a `.env` that the `.gitignore` of then ignored, and that of now does not. So the rules of the
snapshot are asked, not only those of the present. A repository that came since stays whole, because its
`.git` cannot be kept.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from clew.files.objects.format import CHUNKED, EMPTY, EMPTY_TREE, FOLDER, find_entry
from clew.files.objects.store import directories_of
from clew.files.restore.plan import Step, parents
from clew.files.snapshot.ignore import NORMAL, RULE_FILES, Ignore, Rules

if TYPE_CHECKING:
    from clew.files.objects.format import Directory
    from clew.files.objects.store import ObjectReader
    from clew.model.files import KeptReason, Snapshot


class SnapshotOmissions:
    """What one snapshot left out, or would have left out."""

    def __init__(self, snapshot: Snapshot, objects: ObjectReader) -> None:
        self._tree = bytes.fromhex(snapshot.tree)
        self._objects = objects
        self._directories = directories_of(objects)
        self._left_out: Collection[bytes] = ()
        self._ignore = Ignore(snapshot.include, snapshot.exclude)
        self._skipped = {os.fsencode(one.path): one.reason for one in snapshot.skipped}
        self._seen: dict[bytes, tuple[Rules, int] | None] = {}
        """By directory: the rules in it, and how it was looked at; None: not at all."""

    def among(self, deletions: Iterable[Step], left_out: Collection[bytes]) -> dict[bytes, KeptReason]:
        """Of the deletions of a plan: the paths that stay, or directories that stay with all that is in them,
        and why. `left_out`: what the safety snapshot does not hold."""
        self._left_out = left_out
        found: dict[bytes, KeptReason] = {}
        free = {b""}
        for step in deletions:
            is_folder = step.old is not None and step.old.kind == FOLDER
            way = [path for path in parents(step.path) if path not in free]
            for path in (*reversed(way), step.path):
                reason = self._reason(path, is_folder=is_folder or path != step.path)
                if reason is not None:
                    found[path] = reason
                    break
                free.add(path)
        return found

    def _reason(self, path: bytes, *, is_folder: bool) -> KeptReason | None:
        if path in self._skipped:
            return self._skipped[path]
        if is_folder:
            is_repository = path + b"/.git" in self._left_out
            if is_repository and find_entry(self._tree, path, self._directories) is None:
                return "nested repository"
            return "ignored" if self._inside(path) is None else None
        above, _, name = path.rpartition(b"/")
        place = self._inside(above)
        if place is None:
            return "ignored"
        takes = self._ignore.takes_file(*place, os.fsdecode(path), os.fsdecode(name))
        return None if takes else "ignored"

    def _inside(self, path: bytes) -> tuple[Rules, int] | None:
        """How the snapshot was taken in a directory, had it been there."""
        if path not in self._seen:
            self._seen[path] = self._look(path)
        return self._seen[path]

    def _look(self, path: bytes) -> tuple[Rules, int] | None:
        rules, mode = self._ignore.root, NORMAL
        if path:
            above, _, name = path.rpartition(b"/")
            place = self._inside(above)
            if place is None:
                return None
            rules = place[0]
            below = self._ignore.mode_below(*place, f"{os.fsdecode(path)}/", os.fsdecode(name))
            if below is None:
                return None
            mode = below
        prefix = f"{os.fsdecode(path)}/" if path else ""
        return rules.below(prefix, [*self._rule_files(path)]), mode

    def _rule_files(self, path: bytes) -> Iterator[tuple[str, bytes]]:
        found = find_entry(self._tree, path, self._directories)
        if found is None or found.kind != FOLDER:
            return
        folder = self._folder(found.digest)
        for name in RULE_FILES:
            entry = folder.get(name.encode())
            if entry is not None and entry.is_file and not entry.kind & CHUNKED:
                yield name, self._objects.get(entry.digest)

    def _folder(self, digest: bytes) -> Directory:
        return EMPTY if digest == EMPTY_TREE else self._directories([digest])[digest]
