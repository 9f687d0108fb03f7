"""One follower for each store, machine and user: who it is, and how it is doing.

The lease is a lock of the system on a file of the user's own, held as long as the process lives. So it needs
no renewal that would write while nothing happens, and is free at the moment at which its holder is killed.
It is no record of the store: two users of one machine have different agents, and each follows their own.
A second follower would do no harm (a sync adds nothing twice), only the same work again.

The locked file says what the follower does. It is written in place, after each pass.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path
from typing import Final

import msgspec

from clew.backends.registry import parse
from clew.core.disk import create_file

_LONGEST: Final = 256 * 1024
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]")


class Trouble(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last thing that went wrong."""

    at: float
    reason: str
    path: str = ""


class Following(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a follower says of itself. Times are seconds since 1970 UTC."""

    pid: int
    since: float
    store: str
    """Its address, fit to be shown."""
    version: str = ""
    state: str = "starting"
    """"starting": the first look at everything is under way; "following"; "retrying"."""
    places: int = 0
    """Where agents keep sessions,"""
    awaited: int = 0
    """and where they may come to be."""
    sources: int = 0
    """Files that were found there."""
    watches: int = 0
    passes: int = 0
    messages: int = 0
    """Brought since it started."""
    snapshots: int = 0
    last_pass: float | None = None
    last_news: float | None = None
    """When something was brought last."""
    trouble: Trouble | None = None
    polled: dict[str, str] = {}
    wake: str | None = None
    """The directory in which hooks wake it; None: another follower has it, or it cannot be made."""


class HeldError(Exception):
    """Another process follows; what it says of itself, if it can be read."""

    def __init__(self, holder: Following | None) -> None:
        super().__init__("another process follows")
        self.holder = holder


class Lease:
    """Held from `__init__` to `end`, or to the end of the process."""

    def __init__(self, address: str | None) -> None:
        """HeldError: another process has it. OSError: there is no place for it."""
        self._path = path_of(address)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            self._fd = _opened(self._path)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._fd)
                raise HeldError(_read(self._path)) from None
            except BaseException:
                os.close(self._fd)
                raise
            if _is_same(self._fd, self._path):
                return
            os.close(self._fd)  # its last holder removed it just now

    def tell(self, following: Following) -> None:
        data = msgspec.json.encode(following) + b"\n"
        os.pwrite(self._fd, data, 0)
        os.ftruncate(self._fd, len(data))

    def end(self) -> None:
        """Remove the file while it is still ours, and let go."""
        if _is_same(self._fd, self._path):
            self._path.unlink()
        os.close(self._fd)


def holder_of(address: str | None) -> Following | None:
    """Who follows; None: no process does."""
    path = path_of(address)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(path) or Following(pid=0, since=0.0, store="")
    finally:
        os.close(fd)
    return None


def path_of(address: str | None) -> Path:
    """The file of a store, on this machine, for this user."""
    scheme, path, _ = parse(address)
    place = path if scheme == "postgresql" else os.path.realpath(path)
    from hashlib import sha256

    digest = sha256(f"{scheme}:{place}".encode(errors="surrogateescape")).hexdigest()[:16]
    machine = _ODD.sub("_", os.uname().nodename)[:64]
    return state_directory() / f"watch-{machine}-{digest}.json"


def state_directory() -> Path:
    """Where a user's programs keep what should survive a restart."""
    named = os.environ.get("XDG_STATE_HOME", "")
    base = Path(named) if os.path.isabs(named) else Path.home() / ".local" / "state"
    return base / "clew"


def _opened(path: Path) -> int:
    while True:
        try:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            pass
        try:
            return create_file(path)
        except FileExistsError:
            continue


def _is_same(fd: int, path: Path) -> bool:
    try:
        there, ours = os.stat(path), os.fstat(fd)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def _read(path: Path) -> Following | None:
    for _ in range(3):  # it may be written just now
        try:
            with path.open("rb") as file:
                return msgspec.json.decode(file.read(_LONGEST).partition(b"\n")[0], type=Following)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            continue
    return None
