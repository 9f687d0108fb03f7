"""Where things lie in the directory of a store, and which version of the format it is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from clew.backends.jsonl import disk
from clew.core.lines import FORMAT
from clew.errors import CorruptError, InvalidUrlError, SchemaTooNewError

STORE_LOG: Final = "store.jsonl"
SESSIONS: Final = "sessions"
ABOUT: Final = "clew.json"
_OURS: Final = frozenset({
    ABOUT, STORE_LOG, SESSIONS, "packs", "locks", "quarantine", "journal.jsonl",
})  # fmt: skip


class About(msgspec.Struct, frozen=True):
    """What `clew.json` says. Fields that are not known are let be."""

    clew: str
    format: int


class Layout:
    """The paths of a store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.about = root / ABOUT
        self.sessions = root / SESSIONS
        self.packs = root / "packs"
        self.quarantine = root / "quarantine"
        self.lock = root / "locks" / "store.lock"
        self.still = root / "locks" / "still.lock"
        self.journal = root / "journal.jsonl"
        self.index = root / "index.db"
        self._known: tuple[int, int] | None = None

    def path(self, log: str) -> Path:
        """The file of a log, by its name in the index: always with slashes."""
        return Path(f"{self.root}/{log}")

    def log_names(self) -> list[str]:
        """The logs that are there, the store's own first."""
        names = [STORE_LOG] if (self.root / STORE_LOG).exists() else []
        if self.sessions.is_dir():
            names += sorted(
                f"{SESSIONS}/{file.name}" for file in self.sessions.iterdir() if file.name.endswith(".jsonl")
            )
        return names

    def prepare(self) -> None:
        """Make what is missing. Refuses a directory that holds something else."""
        if not self.check():
            disk.make_directory(self.root)
            for directory in (self.sessions, self.packs, self.quarantine, self.lock.parent):
                disk.make_directory(directory)
            about = About("jsonl", FORMAT)
            disk.write_whole(self.about, msgspec.json.encode(about) + b"\n")
        for directory in (self.sessions, self.packs, self.quarantine, self.lock.parent):
            if not directory.is_dir():
                disk.make_directory(directory)

    def check(self) -> bool:
        """Whether there is a store; raises if there is one that can not be used, or something else."""
        try:
            found = msgspec.json.decode(self.about.read_bytes(), type=About)
        except (FileNotFoundError, NotADirectoryError):
            self._refuse_others()
            return False
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise CorruptError(
                f"{self.about} can not be read ({exc}); the logs do not need it: remove it"
            ) from exc
        if found.format > FORMAT:
            raise SchemaTooNewError(str(self.root), found.format, FORMAT)
        return True

    def recheck(self) -> None:
        """At the beginning of every transaction that writes: a newer Clew may have changed the format since
        this process has opened the store. Looks at the file only if it is another one."""
        try:
            found = self.about.stat()
        except OSError:
            return  # the logs do not need it
        if (found.st_ino, found.st_mtime_ns) != self._known:
            self.check()
            self._known = (found.st_ino, found.st_mtime_ns)

    def _refuse_others(self) -> None:
        try:
            names = sorted(file.name for file in self.root.iterdir())
        except FileNotFoundError:
            return
        except NotADirectoryError as exc:
            raise InvalidUrlError(f"{self.root} is a file; a JSONL store is a directory") from exc
        for name in names:
            if name not in _OURS and not name.endswith(".new") and not name.startswith("index.db"):
                raise InvalidUrlError(f"{self.root} is not a Clew store: it holds {name}")
