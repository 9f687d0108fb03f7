"""What becomes of every entry of a directory: taken as the cache has it, read, ignored or skipped."""

from __future__ import annotations

import errno
import os
import stat as modes
from typing import Final

import msgspec

from clew.files.objects.format import LINK, MAX_NAME, object_name
from clew.files.snapshot.drafts import Draft, code_of, split
from clew.files.snapshot.ignore import EXCLUDED, GIT, Ignore, Rules
from clew.files.snapshot.limits import Limits
from clew.files.snapshot.listing import Listing, special
from clew.files.snapshot.reading import reason_of
from clew.files.snapshot.rows import Row, mode_of, size_of, unpacked, with_size
from clew.files.snapshot.statcache import GONE, IGNORED, Folder
from clew.model.files import SkipReason

RESTORING: Final = ".clew-restore-"
"""How the temporary files of a restore begin."""
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
        """`never`: paths that are not taken whatever anybody says."""
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
        if name.startswith(RESTORING) or (self._never and os.fsencode(place.prefix + name) in self._never):
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
