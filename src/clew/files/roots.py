"""Which directories may be kept and restored, and which user on which machine said so: signatures."""

from __future__ import annotations

import hmac
import os
import secrets
import sys
from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec
from blake3 import blake3

from clew.core.disk import NotPrivateError, read_private, write_private
from clew.errors import InvalidError, RootNotNamedError, RootRefusedError

if TYPE_CHECKING:
    from clew.core.engine.host import Host
    from clew.files.journal import Restore
    from clew.files.records import SnapshotRecord
    from clew.model.files import Snapshot

# ── Which directories may be the root of a snapshot ───────────────────────────────────────────────

_DRIVES: Final = ("/mnt", "/media", "/Volumes", "/run/media")
"""Where systems put the roots of further drives."""


def check_root(root: str | os.PathLike[str], *, force: bool) -> str:
    """The one name of a directory: absolute, symlinks resolved. RootRefusedError: it is missing, no
    directory, or too large a part of the machine to be meant (unless `force`)."""
    text = os.fspath(root)
    if not isinstance(text, str):
        raise RootRefusedError(repr(text), f"a path is text, not {type(text).__name__}")
    check_named(text)
    try:
        resolved = os.path.realpath(text, strict=True)
        is_directory = os.path.isdir(resolved)
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise RootRefusedError(text, f"it cannot be found ({reason})") from exc
    if not is_directory:
        raise RootRefusedError(resolved, "it is no directory")
    reason = "" if force else _why_too_much(resolved)
    if reason:
        raise RootRefusedError(
            resolved, f"{reason}; store.snapshot and store.restore take it with force=True"
        )
    return resolved


def check_named(root: str | os.PathLike[str]) -> None:
    """The system takes an empty path for the present directory; a caller that gives one may not know it."""
    if not os.fspath(root):
        raise RootRefusedError("", "the path is empty; name a directory, as '.' for the present one")


def _why_too_much(root: str) -> str:
    if os.path.dirname(root) == root:
        return "it is the root of the file system"
    for home in _homes():
        if root == home:
            return "it is a home directory"
        if home.startswith(root + os.sep):
            return f"the home directory {home!r} is inside"
    if _is_drive(root):
        return "it is the root of a drive"
    return ""


def _homes() -> set[str]:
    """The user's home directory, by what the environment says and by what the system says."""
    homes = {os.path.expanduser("~")}
    try:
        import pwd

        homes.add(pwd.getpwuid(os.geteuid()).pw_dir)
    except (ImportError, KeyError):  # no POSIX system, or a user without an entry
        pass
    return {os.path.realpath(home) for home in homes if os.path.isabs(home)} - {os.sep}


def _is_drive(root: str) -> bool:
    parent = os.path.dirname(root)
    is_there = parent in _DRIVES or os.path.dirname(parent) in ("/media", "/run/media")
    return is_there and os.path.ismount(root)


# ── Signatures ────────────────────────────────────────────────────────────────────────────────────
# Which directories a store may name by itself: those where the same user worked with it on this machine.
#
# A user who takes a snapshot, or begins a restore, signs its record: where that was, and which trees belong
# to it. Only a directory that is signed so is used without being named in the call, to write as well as to
# read. A store of another user, of another machine or of an older Clew is restored as any other, but the
# caller has to say where.

# -- the key
#
# A secret of this user on this machine. A store may come from anywhere, and what it says may be made up, so
# the directories that it names are only believed if they are signed with a key that lies outside of every
# store. It is made at the first need, is readable by its owner only, and never leaves the machine: a copy of
# a store takes the signatures along, and elsewhere they are worth nothing.

KEY_SIZE: Final = 32
NAME: Final = "key"
VARIABLE: Final = "CLEW_STATE_DIR"
_PURPOSE: Final = b"clew: a directory named in a store, 1"


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


def servers_directory() -> str:
    """Where the tokens of this user's servers lie, beside the key. KeyRefusedError: it is not known where."""
    return os.path.join(os.path.dirname(key_path()), "servers")


def _load(*, make: bool) -> bytes:
    path = key_path()
    try:
        try:
            return _read(path)
        except FileNotFoundError:
            if not make:
                raise
        write_private(path, secrets.token_bytes(KEY_SIZE), replace=False)
        return _read(path)
    except NotPrivateError as exc:
        raise KeyRefusedError(str(exc)) from exc
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise KeyRefusedError(f"the key {path} cannot be used ({reason}): set {VARIABLE}") from exc


def _read(path: str) -> bytes:
    key = read_private(path, KEY_SIZE)
    if len(key) != KEY_SIZE:
        raise KeyRefusedError(f"{path} is damaged: remove it, and a new key is made")
    return key


@cache
def _machine() -> bytes:
    """Tells machines apart that share a home directory; empty where a machine has no name of its own."""
    try:
        with open("/etc/machine-id", "rb") as file:
            return file.read().strip()
    except OSError:
        return b""


# -- what is signed with it

_BY_CALL: Final = "pass it as root= (of a rewind as files=)"


class OwnWork:
    """Tells what this user did, on this machine, from what a store only says."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._key = UserKey()

    def sign_snapshot(self, snapshot: Snapshot) -> bytes:
        root, tree = os.fsencode(snapshot.root), bytes.fromhex(snapshot.tree)
        return self._key.sign("snapshot", snapshot.id, root, tree)

    def has_snapshot(self, id: str, kept: SnapshotRecord) -> bool:
        """Whether it was taken where it says."""
        return bool(kept.root) and self._key.has_signed(kept.signature, "snapshot", id, kept.root, kept.tree)

    def sign_restore(self, record: Restore) -> bytes:
        return self._key.sign(*_essence(record))

    def has_restore(self, record: Restore) -> bool:
        """Whether it was begun where it says."""
        return self._key.has_signed(record.signature, *_essence(record))

    def is_in_the_way(self, record: Restore) -> bool:
        """Whether another restore has to wait for one that is not over: one of this user, or of a process
        that lives here. A restore that others left, or made up, is not in the way."""
        holder, host = record.holder, self._host
        if holder is not None and holder.boot and holder.boot == host.me.boot and not host.is_gone(holder):
            return True
        return self.has_restore(record) or self._key.why_missing() is not None

    def check_restore(self, record: Restore, named: str | os.PathLike[str] | None) -> None:
        """RootNotNamedError: it is not ours, and the caller did not name its directory."""
        if named is not None:
            check_named(named)
            if os.fsencode(os.path.realpath(named)) != record.root:
                place = os.fsdecode(record.root)
                raise InvalidError(f"restore {record.id} was made in {place!r}, not in {os.fspath(named)!r}")
        elif not self.has_restore(record):
            raise self.refusal(f"restore {record.id}", record.root)

    def modes(self, record: Restore, modes: dict[bytes, int] | None) -> dict[bytes, int] | None:
        """Permissions that a restore wrote down; those of another user may keep others out, not let them
        in."""
        if modes is None or self.has_restore(record):
            return modes
        return {path: mode & 0o755 for path, mode in modes.items()}

    def refusal(self, what: str, root: bytes) -> RootNotNamedError:
        missing = self._key.why_missing()
        why = f" ({missing})" if missing else ""
        return RootNotNamedError(
            os.fsdecode(root),
            f"the store says that {what} was made there, but not by this user, on this machine{why}"
            f"; {_BY_CALL} if you mean it",
        )


def no_directory(snapshot: str) -> RootNotNamedError:
    """The refusal to restore files that came with an import, which does not say where they belong."""
    return RootNotNamedError("", f"the files of {snapshot} came with an import: name a directory; {_BY_CALL}")


def _essence(record: Restore) -> tuple[object, ...]:
    """All that says what a restore writes, and where. Its state changes, and in a copy its session."""
    return (
        "restore", record.id, record.root, record.snapshot, record.target, record.last, record.safety,
        record.now, record.paths, record.overwrite, record.clears, record.folders, record.blocked,
        record.modes, record.new_modes, record.token,
    )  # fmt: skip
