"""From the errors of the driver to ours."""

from __future__ import annotations

import errno
import os
from types import TracebackType

import apsw

from clew.errors import (
    BackendError,
    BackendUnavailableError,
    ClewError,
    CorruptError,
    DiskFullError,
    InvalidEntryError,
    ReadOnlyError,
    StoreBusyError,
)


def translate(exc: apsw.Error, location: str) -> ClewError:
    """The error of ours that says what `exc` means to a user."""
    detail = f"{location}: {exc}"
    match exc:
        case apsw.FullError():
            return DiskFullError(f"no space left to write {detail}")
        case apsw.IOError() if _disk_is_full(location):
            return DiskFullError(f"no space left to write {detail}")
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return StoreBusyError(f"other processes hold {detail}")
        case apsw.ReadOnlyError():
            return ReadOnlyError(f"can not write {detail}")
        case apsw.CorruptError() | apsw.NotADBError():
            return CorruptError(f"damaged database {detail}")
        case apsw.CantOpenError() | apsw.PermissionsError() | apsw.AuthError():
            return BackendUnavailableError(f"can not open {detail}")
        case apsw.TooBigError():
            return InvalidEntryError("larger than SQLite can store")
        case _:
            return BackendError(f"{type(exc).__name__} of {detail}")


def _disk_is_full(location: str) -> bool:
    """Some file systems report a full disk as a plain I/O error."""
    try:
        room = os.statvfs(os.path.dirname(location) or ".")
    except OSError as exc:
        return exc.errno == errno.ENOSPC
    return room.f_bavail == 0


class translating:
    """`with translating(location):` no driver error leaves the block."""

    __slots__ = ("location",)

    def __init__(self, location: str) -> None:
        self.location = location

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(exc, apsw.Error):
            raise translate(exc, self.location) from exc
        if isinstance(exc, OSError):
            full = exc.errno in (errno.ENOSPC, errno.EDQUOT)
            kind_of = DiskFullError if full else BackendUnavailableError
            raise kind_of(f"can not open {self.location}: {exc}") from exc
