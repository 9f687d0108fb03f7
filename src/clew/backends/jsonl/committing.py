"""The end of a transaction: its lines go to the logs, durably, before the index says so."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from types import TracebackType

import apsw

from clew.backends.jsonl import disk
from clew.backends.jsonl.book import Sheet
from clew.backends.jsonl.directory import NotOursError, StrangeFileError
from clew.backends.jsonl.journal import Journal, NotUndoneError
from clew.backends.jsonl.layout import Layout
from clew.backends.jsonl.recognizing import UnreadableLogError
from clew.backends.sqlite.failures import translate
from clew.errors import (
    BackendUnavailableError,
    ClewError,
    CorruptError,
    DiskFullError,
    OutcomeUnknownError,
    ReadOnlyError,
)

Written = Sequence[tuple[Sheet, bytes]]


def write_out(layout: Layout, journal: Journal, written: Written, *, durable: bool) -> None:
    """Write the lines of a transaction: into one log with one call, into several by way of the journal.

    Raises an error of ours with the logs as they were before, or NotUndoneError, whose cause it is.
    """
    if len(written) == 1 and not written[0][0].is_new:
        sheet, data = written[0]
        _append(layout, sheet, data, sync=durable, durable=durable)
        return
    before = journal.add([(sheet.name, sheet.start, data) for sheet, data in written])
    done: list[Sheet] = []
    try:
        for sheet, data in written:
            _append(layout, sheet, data, sync=False, durable=durable)
            done.append(sheet)
    except ClewError:
        try:
            for sheet in done:
                _cut(layout, sheet, durable=durable)
            journal.take_back(before)  # last: until then a crash makes it whole
        except OSError as failed:
            raise NotUndoneError from failed
        raise


def _append(layout: Layout, sheet: Sheet, data: bytes, *, sync: bool, durable: bool) -> None:
    file = layout.file(sheet.name)
    is_written = False
    try:
        handle = disk.open_for_appending(file)
        try:
            disk.write(handle, data)
            is_written = True
            if sync:
                disk.sync(handle)
        finally:
            disk.close(handle)
    except (StrangeFileError, NotOursError) as exc:  # it was not opened
        raise as_ours(exc, str(file)) from exc
    except OSError as exc:
        error: ClewError = as_ours(exc, str(file))
        if is_written:
            # The bytes may or may not be on the disk, and no later sync can tell. Take them away: what is
            # written next goes to pages of its own.
            error = OutcomeUnknownError(f"could not sync {file}: {exc}")
        try:
            _cut(layout, sheet, durable=durable)
        except OSError as failed:
            raise NotUndoneError from failed
        raise error from exc


def _cut(layout: Layout, sheet: Sheet, *, durable: bool) -> None:
    """Take a log back to where it was, for good: what was refused must not come back with the next crash."""
    file = layout.file(sheet.name)
    if sheet.is_new:
        disk.remove(file)
        if durable:
            disk.sync_directory(file.directory)
        return
    handle = disk.open_for_patching(file)
    try:
        disk.truncate(handle, sheet.start)
        if durable:
            disk.sync(handle)
    finally:
        disk.close(handle)


class speaking:
    """`with speaking(location):` no error of the system or of the index leaves the block."""

    __slots__ = ("_location",)

    def __init__(self, location: str) -> None:
        self._location = location

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(exc, apsw.Error):
            raise translate(exc, self._location) from exc
        if isinstance(exc, UnreadableLogError):
            if isinstance(exc.reason, StrangeFileError):
                raise as_ours(exc.reason, self._location) from exc.reason
            raise BackendUnavailableError(f"{exc} ({self._location})") from exc.reason
        if isinstance(exc, OSError):
            raise as_ours(exc, self._location) from exc


def as_ours(exc: OSError, path: str) -> ClewError:
    """The error of ours that says what one of the system means to a user."""
    if isinstance(exc, StrangeFileError):
        return CorruptError(str(exc))
    if isinstance(exc, NotOursError):
        return ReadOnlyError(str(exc))
    if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DiskFullError(f"no space left to write {path}: {exc}")
    if exc.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return ReadOnlyError(f"can not write {path}: {exc}")
    return BackendUnavailableError(f"can not write {path}: {exc}")
