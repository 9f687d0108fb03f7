"""Which paths of which snapshots need an object: asked when one is missing or damaged."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Final

from clew.errors import ClewError
from clew.files.objects.format import CHUNKED, FOLDER, TreeEntry, decode_chunks
from clew.files.objects.store import ObjectReader

MOST_PATHS: Final = 3
LONGEST: Final = 64 * 1024
"""Longer paths are not told: no program could open them."""


def paths_to(wrong: Collection[bytes], trees: Mapping[str, bytes], objects: ObjectReader) -> dict[bytes, str]:
    """For each of these objects that a snapshot needs: a few words on the paths that need it.

    `trees`: the roots of the snapshots, by id. What can not be read is passed over.
    """
    leading = _Leading(wrong, objects)
    for tree in trees.values():
        leading.look(tree)
    leading.spread()
    for id, tree in trees.items():
        leading.walk(id, tree)
    return {name: _told(places) for name, places in leading.places.items()}


class _Leading:
    """The folders that lead to something that is wrong: only those are walked through once for every
    path; all others are looked at once, however many snapshots have them in common."""

    def __init__(self, wrong: Collection[bytes], objects: ObjectReader) -> None:
        self._wrong = wrong
        self._objects = objects
        self._parents: dict[bytes, set[bytes]] = defaultdict(set)
        self._seen: set[bytes] = set()
        self._lists: dict[bytes, set[bytes]] = {}
        """Of each list of chunks those that are wrong."""
        self._folders: set[bytes] = set()
        self._entered: Counter[bytes] = Counter()
        self.places: dict[bytes, list[tuple[str, bytes]]] = defaultdict(list)
        """Snapshots and paths, at most one more than are told."""

    def look(self, tree: bytes) -> None:
        todo = [tree]
        while todo:
            folder = todo.pop()
            if folder in self._seen:
                continue
            self._seen.add(folder)
            if folder in self._wrong:
                self._folders.add(folder)
            for entry in self._entries(folder):
                if entry.kind == FOLDER:
                    self._parents[entry.digest].add(folder)
                    todo.append(entry.digest)
                elif self._faults(entry):
                    self._folders.add(folder)

    def spread(self) -> None:
        """What leads to a folder that leads to something wrong does so, too."""
        todo = list(self._folders)
        while todo:
            new = self._parents[todo.pop()] - self._folders
            self._folders |= new
            todo += new

    def walk(self, id: str, tree: bytes) -> None:
        todo = [(tree, b"")]
        while todo:
            folder, path = todo.pop()
            # Each time it is entered, what is wrong below it gets one more path; more are not told.
            if folder not in self._folders or self._entered[folder] > MOST_PATHS:
                continue
            self._entered[folder] += 1
            if len(path) > LONGEST:
                continue
            if folder in self._wrong:
                self._note(folder, id, path or b".")
            for entry in self._entries(folder):
                where = path + b"/" + entry.name if path else entry.name
                if entry.kind == FOLDER:
                    todo.append((entry.digest, where))
                else:
                    for name in self._faults(entry):
                        self._note(name, id, where)

    def _note(self, name: bytes, id: str, path: bytes) -> None:
        if len(self.places[name]) <= MOST_PATHS:
            self.places[name].append((id, path))

    def _entries(self, folder: bytes) -> list[TreeEntry]:
        try:
            return self._objects.directory(folder)
        except ClewError:
            return []

    def _faults(self, entry: TreeEntry) -> set[bytes]:
        """What is wrong with a file or a link."""
        own = {entry.digest} if entry.digest in self._wrong else set[bytes]()
        if not entry.kind & CHUNKED:
            return own
        if entry.digest not in self._lists:
            try:
                chunks = decode_chunks(self._objects.get(entry.digest))
            except (ClewError, ValueError):
                chunks = []
            self._lists[entry.digest] = {chunk.digest for chunk in chunks if chunk.digest in self._wrong}
        return own | self._lists[entry.digest]


def _told(places: list[tuple[str, bytes]]) -> str:
    told = [f"{os.fsdecode(path)!r} of the snapshot {id}" for id, path in places[:MOST_PATHS]]
    return "needed by " + ", ".join(told) + (", and more" if len(places) > MOST_PATHS else "")
