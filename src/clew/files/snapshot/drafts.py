"""A directory in the course of a scan: what was seen, decided and read of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import msgspec

from clew.core.log.digest import DIGEST_SIZE
from clew.files.objects.format import FOLDER, LINK, TreeEntry, encode_directory
from clew.files.snapshot.ignore import NORMAL, PROTECTED
from clew.files.snapshot.rows import Row, packed, size_of, times_of, unpacked
from clew.files.snapshot.stamps import Beginning
from clew.files.snapshot.statcache import IGNORED, SKIPPED, Folder
from clew.model.files import SkipReason

REASONS: Final[tuple[SkipReason, ...]] = (
    "fifo", "socket", "device", "unreadable", "too large", "other mount", "nested repository", "changing",
    "store", "name", "read error", "secret",
)  # fmt: skip
"""New ones come last: caches name them by their numbers."""
_PASSING: Final = ("unreadable", "changing", "read error")
_AGAIN: Final = frozenset(SKIPPED + REASONS.index(reason) for reason in _PASSING)


def code_of(reason: SkipReason) -> int:
    return SKIPPED + REASONS.index(reason)


class Draft(msgspec.Struct):
    """A directory that is not known to be as the cache has it."""

    path: bytes
    identity: tuple[int, int]
    above: bytes
    rules: bytes
    names: list[str]
    rows: list[Row]
    codes: bytearray
    digests: list[bytes]
    """One for each name; empty if it is not stored, or not yet."""
    directories: list[str]
    directory_codes: bytearray
    unread: list[int]
    """Files that have to be read."""
    targets: list[bytes]
    """Of links that the cache does not know: to be stored."""
    is_forced: bool = False
    """Something was taken against the rules: it must not be remembered as what they say."""
    looks_like: Folder | None = None
    """What the cache has, if there is no difference but in the content of what is racy."""

    @classmethod
    def of(cls, folder: Folder) -> Draft:
        """What the cache has."""
        digests, at = [], 0
        for code in folder.codes:
            width = DIGEST_SIZE if code < IGNORED else 0
            digests.append(folder.digests[at : at + width])
            at += width
        return cls(
            folder.path, folder.identity, folder.above, folder.rules, split(folder.names),
            unpacked(folder.stats), bytearray(folder.codes), digests, split(folder.directories),
            bytearray(folder.directory_codes), [], [],
        )  # fmt: skip

    def unchanged(self, began: Beginning) -> Folder | None:
        """What the cache has, if its racy entries turned out to be as they were."""
        old = self.looks_like
        if old is None or self.codes != old.codes or self.directory_codes != old.directory_codes:
            return None
        if b"".join(self.digests) != old.digests or packed(self.rows) != old.stats:
            return None
        racy = tuple(index for index in old.racy if self._is_racy(index, began))
        return msgspec.structs.replace(old, identity=self.identity, racy=racy)

    def _is_racy(self, index: int, began: Beginning) -> bool:
        return self.codes[index] in _AGAIN or began.is_racy(*times_of(self.rows[index]))

    def folder(self, find: Callable[[bytes], Folder | None], needed: Callable[[bytes], bool],
               put: Callable[[bytes], bytes], began: Beginning) -> Folder:  # fmt: skip
        """The finished directory, its object stored; `find` knows the directories below."""
        entries: list[TreeEntry] = []
        racy: list[int] = []
        files = links = size_of_files = skipped = directories = 0
        for index, (name, code, row) in enumerate(zip(self.names, self.codes, self.rows, strict=True)):
            if code < IGNORED:
                size = size_of(row)
                entries.append(TreeEntry(os.fsencode(name), code, self.digests[index], size))
                if code == LINK:
                    links += 1
                else:
                    files += 1
                    size_of_files += size
                if began.is_racy(*times_of(row)):
                    racy.append(index)
            elif code >= SKIPPED:
                skipped += 1
                if code in _AGAIN:
                    racy.append(index)
        for name, code in zip(self.directories, self.directory_codes, strict=True):
            skipped += code >= SKIPPED
            path = joined(self.path, name)
            below = find(path) if code < IGNORED else None
            if below is None:
                continue
            skipped += below.total_skipped
            if below.mode in (NORMAL, PROTECTED) or not below.is_empty or needed(path):
                entries.append(TreeEntry(os.fsencode(name), FOLDER, below.tree, below.tree_size))
                files, links = files + below.total_files, links + below.total_links
                directories += 1 + below.total_directories
                size_of_files += below.total_bytes
        content = encode_directory(entries)
        return Folder(
            self.path, self.identity, self.above, self.rules, join(self.names), packed(self.rows),
            bytes(self.codes), b"".join(self.digests), join(self.directories), bytes(self.directory_codes),
            tuple(racy), put(content), len(content), files, links, directories, size_of_files, skipped,
        )  # fmt: skip


def join(names: list[str]) -> bytes:
    return os.fsencode("\0".join(names))


def split(names: bytes) -> list[str]:
    return os.fsdecode(names).split("\0") if names else []


def joined(path: bytes, name: str) -> bytes:
    return path + b"/" + os.fsencode(name) if path else os.fsencode(name)
