"""A secret of this user on this machine, to know again what was written here by the same user.

A store may come from anybody, and what it says may be made up. So the directories that it names are only
believed if they are signed with a key that lies outside of every store. It is made at the first need, is
readable by its owner only, and never leaves the machine: a copy of a store takes the signatures along, and
elsewhere they are worth nothing.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
import sys
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from blake3 import blake3

from clew.backends.private_files import make_directories, sync_directory

KEY_SIZE: Final = 32
NAME: Final = "key"
VARIABLE: Final = "CLEW_STATE_DIR"
_PURPOSE: Final = b"clew: a directory named in a store, 1"
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


class KeyRefusedError(Exception):
    """There is no key that can be trusted; the text says why, and what to do."""


class UserKey:
    """Signs, and says what was signed. The key is read each time: that is rare, and it is in no memory."""

    def sign(self, *parts: object) -> bytes:
        """Empty: there is no key, nor can one be made; then the signature of nothing holds."""
        try:
            return _digest(_load(make=True), parts)
        except KeyRefusedError:
            return b""

    def has_signed(self, signature: bytes, *parts: object) -> bool:
        try:
            return hmac.compare_digest(signature, _digest(_load(make=False), parts))
        except KeyRefusedError:
            return False

    def why_missing(self) -> str | None:
        """Why nothing can be signed here; None: it can."""
        try:
            _load(make=True)
        except KeyRefusedError as exc:
            return str(exc)
        return None


def _digest(key: bytes, parts: tuple[object, ...]) -> bytes:
    return blake3(msgspec.msgpack.encode((_PURPOSE, _machine(), parts)), key=key).digest()


def key_path() -> str:
    """Where the key of this user lies. KeyRefusedError: it is not known where."""
    base = os.environ.get(VARIABLE) or ""
    if not base and sys.platform == "darwin":
        base = os.path.join(_home(), "Library", "Application Support", "clew")
    elif not base and sys.platform == "win32":
        base = os.path.join(os.environ.get("LOCALAPPDATA") or _home(), "clew")
    elif not base:
        state = os.environ.get("XDG_STATE_HOME") or ""
        base = os.path.join(
            state if os.path.isabs(state) else os.path.join(_home(), ".local", "state"), "clew"
        )
    if not os.path.isabs(base):
        raise KeyRefusedError(f"{base} is no absolute path: set {VARIABLE} to one")
    return os.path.join(base, NAME)


def _home() -> str:
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise KeyRefusedError(f"this user has no home directory: set {VARIABLE}")
    return home


def _load(*, make: bool) -> bytes:
    path = key_path()
    try:
        try:
            return _read(path)
        except FileNotFoundError:
            if not make:
                raise
        make_directories(Path(path).parent)
        _make(path)
        return _read(path)
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise KeyRefusedError(f"the key {path} cannot be used ({reason}): set {VARIABLE}") from exc


def _read(path: str) -> bytes:
    directory = os.path.dirname(path)
    _check_owner(directory, os.stat(directory), 0o022, "may change")
    fd = os.open(path, _READ)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise KeyRefusedError(f"{path} is no regular file: remove it")
        _check_owner(path, found, 0o077, "may read or change")
        key = os.read(fd, KEY_SIZE + 1)
    finally:
        os.close(fd)
    if len(key) != KEY_SIZE:
        raise KeyRefusedError(f"{path} is damaged: remove it, and a new key is made")
    return key


def _check_owner(path: str, found: os.stat_result, forbidden: int, others: str) -> None:
    """What others could have read or written is no secret of this user."""
    if not hasattr(os, "geteuid"):
        return
    if found.st_uid != os.geteuid():
        raise KeyRefusedError(f"{path} belongs to another user: set {VARIABLE} to a directory of your own")
    if found.st_mode & forbidden:
        raise KeyRefusedError(f"other users {others} {path}: remove it, and a new one is made")


def _make(path: str) -> None:
    """It appears whole, and lasts; of two who make one at once, the first counts."""
    temporary = f"{path}.{os.getpid()}.{secrets.token_hex(4)}"
    fd = os.open(temporary, _NEW, 0o600)
    try:
        try:
            os.write(fd, secrets.token_bytes(KEY_SIZE))
            os.fsync(fd)
        finally:
            os.close(fd)
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
    finally:
        os.unlink(temporary)
    sync_directory(Path(path).parent)


@cache
def _machine() -> bytes:
    """Tells machines apart that share a home directory; empty where a machine has no name of its own."""
    try:
        with open("/etc/machine-id", "rb") as file:
            return file.read().strip()
    except OSError:
        return b""
