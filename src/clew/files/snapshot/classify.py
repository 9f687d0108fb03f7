"""What becomes of every entry of a directory: taken as the cache has it, read, ignored or skipped."""

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Callable
from typing import Final

import msgspec

from clew.core.log.digest import DIGEST_SIZE
from clew.errors import InvalidError, QuotaExceededError
from clew.files.journal import TEMPORARY
from clew.files.objects.format import FOLDER, LINK, MAX_NAME, TreeEntry, encode_directory, object_name
from clew.files.snapshot.ignore import EXCLUDED, GIT, NORMAL, PROTECTED, Ignore, Rules
from clew.files.snapshot.listing import (
    Beginning,
    Listing,
    Row,
    join,
    mode_of,
    packed,
    size_of,
    special,
    split,
    times_of,
    unpacked,
    with_size,
)
from clew.files.snapshot.read import reason_of
from clew.files.snapshot.statcache import GONE, IGNORED, SKIPPED, Folder
from clew.model.files import SkipReason

# -- how much a snapshot may take

MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """A larger file is skipped and listed; more files, or more bytes, and there is no snapshot."""

    max_file_bytes: int = 100 * MIB
    max_files: int = 1_000_000
    max_bytes: int = 50 * GIB

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value < 0:
                raise InvalidError(f"{name} must not be negative, as {value} is")

    def check(self, root: str, files: int, size: int) -> None:
        if files > self.max_files:
            raise QuotaExceededError(f"{root!r} holds more than {self.max_files} files; nothing was stored")
        if size > self.max_bytes:
            raise QuotaExceededError(f"{root!r} holds more than {self.max_bytes} bytes; nothing was stored")


# -- a directory in the course of a scan: what was seen, decided and read of it

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


def joined(path: bytes, name: str) -> bytes:
    return path + b"/" + os.fsencode(name) if path else os.fsencode(name)


# -- what becomes of its entries

_SECRET: Final = code_of("secret")
_LEFT_OUT: Final = frozenset({IGNORED, _SECRET})
"""By rules, so that a restore may need it all the same."""


class Place(msgspec.Struct, frozen=True):
    """A directory, and the rules for what is in it."""

    path: bytes
    rules: Rules
    mode: int
    above: bytes
    identity: tuple[int, int]

    @property
    def prefix(self) -> str:
        """The path with a slash behind; empty for the root."""
        return f"{os.fsdecode(self.path)}/" if self.path else ""

    @property
    def key(self) -> bytes:
        return key_of(self.rules, self.mode)


class _Known(msgspec.Struct, frozen=True, gc=False):
    """An entry as the cache has it."""

    code: int
    row: Row
    digest: bytes
    is_racy: bool


def key_of(rules: Rules, mode: int) -> bytes:
    return rules.key + bytes([mode])


class Decider:
    def __init__(self, root: str, ignore: Ignore, limits: Limits, never: frozenset[bytes]) -> None:
        """`never`: paths that are not taken, whatever the rules say."""
        self.ignore = ignore
        self.unread_files = 0
        self.unread_bytes = 0
        self._root = root
        self._limits = limits
        self._never = never

    def compare(self, fd: int, place: Place, listing: Listing, folder: Folder | None) -> Folder | Draft:
        """The folder itself if nothing changed, else a draft."""
        if folder is not None and self._is_same(place, listing, folder):
            return self._racy_again(fd, place, folder) if folder.racy else folder
        known = _known(folder) if folder is not None else {}
        has_same_rules = folder is not None and folder.rules == place.key and not self.ignore.also
        names, directories = split(listing.names), split(listing.directories)
        count = len(names)
        draft = Draft(
            place.path, place.identity, place.above, place.key, names, unpacked(listing.stats),
            bytearray(count), [b""] * count, directories, bytearray(len(directories)), [], [],
        )  # fmt: skip
        for index, name in enumerate(names):
            draft.codes[index] = self._decide(fd, place, draft, index, known.get(name), has_same_rules)
        for index, name in enumerate(directories):
            draft.directory_codes[index] = self.directory(place, name, draft)
        self._limits.check(self._root, self.unread_files, self.unread_bytes)
        return draft

    def directory(self, place: Place, name: str, draft: Draft | None = None) -> int:
        """The code of a directory: how to look at it, if it is to be entered."""
        fixed = self._fixed(place, name)
        if fixed is not None:
            return fixed
        path = f"{place.prefix}{name}/"
        mode = self.ignore.mode_below(place.rules, place.mode, path, name)
        if mode is None and self.ignore.is_on_the_way(path):
            if draft is not None:
                draft.is_forced = True
            return EXCLUDED
        if mode is not None:
            return mode
        return _SECRET if self.ignore.is_secret(place.rules, place.mode, path, name) else IGNORED

    def _racy_again(self, fd: int, place: Place, folder: Folder) -> Draft:
        """A directory that looks the same, but of some of its entries that says nothing."""
        draft = Draft.of(folder)
        draft.identity, draft.looks_like = place.identity, folder
        for index in folder.racy:
            draft.digests[index] = b""
            draft.codes[index] = self._take(fd, draft, index)
        self._limits.check(self._root, self.unread_files, self.unread_bytes)
        return draft

    def _is_same(self, place: Place, listing: Listing, folder: Folder) -> bool:
        """Whether it looks as it did."""
        return (
            folder.stats == listing.stats
            and folder.names == listing.names
            and folder.directories == listing.directories
            and folder.rules == place.key
            and not (self.ignore.also and not _LEFT_OUT.isdisjoint(folder.codes + folder.directory_codes))
        )

    def _fixed(self, place: Place, name: str) -> int | None:
        """The code of what is not taken whatever the rules say."""
        if name == GIT:
            return code_of("nested repository") if place.prefix else IGNORED
        if name.startswith(TEMPORARY) or (self._never and os.fsencode(place.prefix + name) in self._never):
            return code_of("store")
        if len(name) > MAX_NAME // 4 and len(os.fsencode(name)) > MAX_NAME:
            return code_of("name")
        return None

    def _decide(
        self, fd: int, place: Place, draft: Draft, index: int, known: _Known | None, has_same_rules: bool
    ) -> int:
        """The code of an entry that is no directory; `has_same_rules`: as when it became known."""
        name = draft.names[index]
        fixed = self._fixed(place, name)
        if fixed is not None:
            return fixed
        if known is None or not has_same_rules:
            left_out = self._left_out(place, draft, name)
        else:
            left_out = known.code if known.code in _LEFT_OUT else None
        if left_out is not None:
            return left_out
        if (
            known is not None
            and known.code < IGNORED
            and not known.is_racy
            and known.row == draft.rows[index]
        ):
            draft.digests[index] = known.digest
            return known.code
        return self._take(fd, draft, index)

    def _left_out(self, place: Place, draft: Draft, name: str) -> int | None:
        """The code of what the rules leave out."""
        path = place.prefix + name
        if self.ignore.takes_file(place.rules, place.mode, path, name):
            return None
        if self.ignore.is_needed(os.fsencode(path)):
            draft.is_forced = True
            return None
        return _SECRET if self.ignore.is_secret(place.rules, place.mode, path, name) else IGNORED

    def _take(self, fd: int, draft: Draft, index: int) -> int:
        """Note a file that has to be read, read a link."""
        mode, size = mode_of(draft.rows[index]), size_of(draft.rows[index])
        if modes.S_ISREG(mode):
            if size > self._limits.max_file_bytes:
                return code_of("too large")
            draft.unread.append(index)
            self.unread_files += 1
            self.unread_bytes += size
            return GONE  # until it was read
        if not modes.S_ISLNK(mode):
            return code_of(special(mode))
        try:
            target = os.readlink(os.fsencode(draft.names[index]), dir_fd=fd)
        except OSError as exc:
            return code_of("changing") if exc.errno == errno.EINVAL else skip_code(reason_of(exc))
        draft.targets.append(target)
        draft.digests[index] = object_name(target)
        if len(target) != size:  # some file systems do not say it
            draft.rows[index] = with_size(draft.rows[index], len(target))
        return LINK


def skip_code(reason: SkipReason | None) -> int:
    return GONE if reason is None else code_of(reason)


def _known(folder: Folder) -> dict[str, _Known]:
    draft, racy = Draft.of(folder), frozenset(folder.racy)
    return {
        name: _Known(code, draft.rows[index], digest, index in racy)
        for index, (name, code, digest) in enumerate(
            zip(split(folder.names), folder.codes, draft.digests, strict=True)
        )
    }
