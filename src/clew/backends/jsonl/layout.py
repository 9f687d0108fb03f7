"""Where things lie in the directory of a store, how files are named, and which version the format has."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

import msgspec
from blake3 import blake3

from clew.backends.jsonl import disk
from clew.backends.jsonl.disk import Directory, File, NotOursError, StrangeFileError
from clew.core.log.jsonl import FORMAT, refuse_format
from clew.errors import CorruptError, InvalidUrlError, ReadOnlyError
from clew.version import __version__

# -- names of files
# From the id of a session to the name of its file: safe on every disk, never the same for two; and which
# names are taken for those of files of a store.

LONGEST: Final = 100
MOST: Final = 255
"""Bytes of a name: what all disks take."""
SHORT: Final = MOST // 4
"""So many characters are no more than that, whatever they are."""
ROOM: Final = 75
"""For what is put behind the name of a log."""
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")
_OUR_LOG: Final = re.compile(r"[a-z0-9_%-]{1,100}(~[0-9a-f]{32})?(~[0-9]{1,19}){0,2}\.jsonl")
_PACK: Final = re.compile(r"[0-9]{1,19}-[0-9a-f]{16}\.pack")
_APART: Final = frozenset("/\\:" if os.name == "nt" else "/\\")
_RESERVED: Final = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])\Z")


def encoded(id: str) -> str:
    """Lower-case letters, digits, `-` and `_` stay; every other byte is `%` and two hex digits.

    What Windows keeps for itself (`con`, `com1`) begins with an escape instead; what is too long for
    a file name ends in a hash.
    """
    text = "".join(c if c in _PLAIN else "".join(f"%{byte:02x}" for byte in c.encode()) for c in id)
    if _RESERVED.match(text):
        text = f"%{ord(text[0]):02x}{text[1:]}"
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}~{blake3(id.encode()).hexdigest(16)}"
    return text


def is_ours(name: str) -> bool:
    """Whether a log that we make may have this name."""
    return _OUR_LOG.fullmatch(name) is not None


def is_log(name: str) -> bool:
    """Whether a file of this name, which lies beside the logs, is taken for one: any name that can be
    shown, for the name of a log is only a help for people."""
    is_plain = name.endswith(".jsonl") and name.isprintable() and name[0] != "." and _APART.isdisjoint(name)
    return is_plain and (len(name) < SHORT or len(name.encode()) <= MOST)


def shortened(name: str) -> str:
    """As much of the name of a log as leaves room for more."""
    return name.encode()[: MOST - ROOM].decode(errors="ignore")


def pack_file(pack: int, checksum: int) -> str:
    """The name of the file of a pack."""
    return f"{pack:d}-{checksum:016x}.pack"


def is_pack(name: str) -> bool:
    return _PACK.fullmatch(name) is not None


# -- the directory

STORE_LOG: Final = "store.jsonl"
SESSIONS: Final = "sessions"
ABOUT: Final = "clew.json"
INDEX_FILE: Final = "index.db"
_OURS: Final = frozenset({
    ABOUT, STORE_LOG, SESSIONS, "packs", "locks", "quarantine", "journal.jsonl",
})  # fmt: skip
_LONGEST_ABOUT: Final = 64 * 1024


class About(msgspec.Struct, frozen=True):
    """What `clew.json` says. Fields that are not known are let be."""

    clew: str
    format: int
    written_by: str = ""
    """The version of Clew that gave the store this format."""


class Layout:
    """The directories and files of a store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.index = root / INDEX_FILE
        """For SQLite, which opens files by their paths."""
        self.top = Directory(root, held=True)
        self.sessions = Directory(root / SESSIONS, self.top, held=True)
        self.packs = Directory(root / "packs", self.top, held=False)
        self.quarantine = Directory(root / "quarantine", self.top, held=False)
        self.locks = Directory(root / "locks", self.top, held=False)
        self.about = self.top.file(ABOUT)
        self.journal = self.top.file("journal.jsonl")
        self.lock = self.locks.file("store.lock")
        self.snapshot_lock = self.locks.file("snapshot.lock")
        self._store_log = self.top.file(STORE_LOG)
        self.format: int | None = None
        """That of the store, when it was last looked at."""
        self._known: tuple[int, int] | None = None

    @property
    def _inner(self) -> tuple[Directory, ...]:
        return self.sessions, self.packs, self.quarantine, self.locks

    def file(self, log: str) -> File:
        """The file of a log, by its name in the index or the journal: always with a slash.

        Raises:
            CorruptError: no log has such a name.
        """
        if log == STORE_LOG:
            return self._store_log
        folder, _, name = log.partition("/")
        if folder != SESSIONS or not is_log(name):
            raise CorruptError(f"{self.root} names a log {log!r}, and no log has such a name")
        return File(self.sessions, name)

    def path(self, log: str) -> Path:
        """The file of a log, for people."""
        return Path(f"{self.root}/{log}")

    def log_names(self) -> list[str]:
        """The logs that are there, the store's own first."""
        names = [STORE_LOG] if disk.exists(self._store_log) else []
        try:
            return names + [f"{SESSIONS}/{name}" for name in disk.names(self.sessions) if is_log(name)]
        except FileNotFoundError:
            return names

    def strangers(self) -> list[str]:
        """What lies among the files of the store, or in the place of one, and is not used."""
        found = []
        for directory in (self.top, *self._inner):
            try:
                found += [said for name in disk.names(directory) if (said := self._strange(directory, name))]
            except FileNotFoundError:
                pass
            except OSError as exc:
                found.append(str(exc))
        return found

    def _strange(self, directory: Directory, name: str) -> str:
        """What is wrong with something that is there; nothing: an empty text."""
        file = File(directory, name)
        if directory is self.sessions and name.endswith(".jsonl"):
            # Of the others it is known when they are read.
            return "" if is_log(name) else f"{str(file)!r} is not read, for no log has such a name: rename it"
        if directory is self.top and name in (STORE_LOG, *(inner.path.name for inner in self._inner)):
            return ""
        found = disk.status(file)
        if found is None or stat.S_ISREG(found.st_mode):
            return ""
        return str(StrangeFileError(file, found.st_mode, "a file"))

    def prepare(self) -> None:
        """Make what is missing, and say that the format is that of today. Refuses a directory that holds
        something else, before anything is written."""
        is_there = self.check()
        if not is_there:
            disk.make_root(self.root)
        self._refuse_strange()
        for directory in self._inner:
            if not disk.exists(self.top.file(directory.path.name)):
                disk.make_directory(directory, self.top)
        if self.format != FORMAT:
            about = About("jsonl", FORMAT, __version__)
            try:
                disk.write_whole(self.about, msgspec.json.encode(about) + b"\n")
            except FileNotFoundError:
                # Another process made the store meanwhile, and its scrub removed our unfinished file.
                if not self.check():
                    raise

    def _refuse_strange(self) -> None:
        """What is written in place must be a file, and the store's alone; what files lie in, a directory.

        Raises:
            ReadOnlyError: else. What can be read is read.
        """
        try:
            self.top.refuse_public()
            for directory in self._inner:
                directory.check()
            for file in (self._store_log, self.journal, self.lock, self.snapshot_lock):
                if disk.exists(file):
                    disk.check(file, writes=True)
        except (StrangeFileError, NotOursError) as exc:
            raise ReadOnlyError(str(exc)) from exc

    def check(self) -> bool:
        """Whether there is a store; raises if there is one that cannot be used, or something else."""
        try:
            found = msgspec.json.decode(self._read_about(), type=About)
        except FileNotFoundError:
            self._refuse_others()
            return False
        except NotADirectoryError as exc:
            raise InvalidUrlError(f"{self.root} is a file; a JSONL store is a directory") from exc
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise CorruptError(
                f"{self.about} cannot be read ({exc}); the logs do not need it: remove it"
            ) from exc
        refuse_format(str(self.root), found.format, found.written_by)
        self.format = found.format
        return True

    def _read_about(self) -> bytes:
        handle = disk.open_for_reading(self.about)
        try:
            return disk.read_at(handle, _LONGEST_ABOUT, 0)
        finally:
            disk.close(handle)

    def recheck(self) -> None:
        """At the beginning of every transaction that writes: a newer Clew may have changed the format since
        this process has opened the store. Looks at the file only if it is another one."""
        try:
            found = disk.status(self.about)
        except OSError:
            return  # the logs do not need it
        if found is not None and (found.st_ino, found.st_mtime_ns) != self._known:
            self.check()
            self._known = (found.st_ino, found.st_mtime_ns)

    def renew(self) -> None:
        """Let go of the directories: those that are there will be opened when they are needed."""
        self.top.let_go()
        self.sessions.let_go()

    def index_inode(self) -> int:
        """Of the index that is there: a link is none. OSError: there is none."""
        return os.lstat(self.index).st_ino

    def _refuse_others(self) -> None:
        try:
            names = disk.names(self.top)
        except FileNotFoundError:
            return
        for name in names:
            if name not in _OURS and not name.endswith(".new") and not name.startswith(INDEX_FILE):
                raise InvalidUrlError(f"{self.root} is not a Clew store: it holds {name}")
