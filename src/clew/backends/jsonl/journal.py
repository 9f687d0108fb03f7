"""Transactions that touch several logs: written to the journal first, so that all logs get them or none.

An intent is a line that names logs, places and lengths, and then what goes there. It is durable
before any of the logs is touched, so one sync serves them all; after a crash it is done again, which
changes nothing where it was done. When the journal has grown, the logs are synced and it is emptied.

So an intent that is in the journal is the truth about its part of a log, whatever that holds. What is
taken back is therefore gone for good, at every level of durability, before anything else is written there.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final

import apsw
import msgspec
from xxhash import xxh3_64_hexdigest

from clew.backends.jsonl import disk
from clew.backends.jsonl.disk import NotOursError, StrangeFileError
from clew.backends.jsonl.layout import STORE_LOG, Layout, is_ours
from clew.backends.jsonl.log_file import UnreadableLogError, copy_aside, tell
from clew.backends.jsonl.writer import LogAppend
from clew.backends.sqlite.connection import translate
from clew.core.log import jsonl
from clew.errors import (
    BackendUnavailableError,
    ClewError,
    CorruptError,
    DiskFullError,
    OutcomeUnknownError,
    ReadOnlyError,
)

LONGEST: Final = 4 * 1024 * 1024
LONGEST_HEAD: Final = 64 * 1024 * 1024
"""Of an intent the line that names its parts: those of hundreds of thousands of logs."""
FARTHEST: Final = 1 << 30
"""No log lost so much of its end that a part begins as far behind it: a reader reads the NULs too."""
SECTOR: Final = 512
"""What a disk writes as a whole."""

Part = tuple[str, int, bytes]
"""(log, offset, what to write there)"""


class NotUndoneError(Exception):
    """A write failed, and what it left could not be taken away: the logs must be read again."""


class Intent(msgspec.Struct, frozen=True, tag_field="kind", tag="intent", omit_defaults=True):
    """(log, offset, length, checksum) of each part; the parts follow."""

    parts: tuple[tuple[str, int, int, str], ...]
    durable: bool = False
    """It was acknowledged as durable: its logs are synced before the journal is emptied, by any process."""


_decode = msgspec.json.Decoder(Intent).decode


class Journal:
    """The journal of a store. The caller holds the lock of the store."""

    def __init__(self, layout: Layout, *, durable: bool) -> None:
        self._layout = layout
        self._durable = durable

    def add(self, parts: Sequence[Part]) -> int:
        """Write an intent and sync it; how long the journal was before.

        Raises with nothing added: OSError, or OutcomeUnknownError if it could not be synced (a crash may
        bring it back); or NotUndoneError.
        """
        named = tuple((name, at, len(data), xxh3_64_hexdigest(data)) for name, at, data in parts)
        head = jsonl.finish(msgspec.json.encode(Intent(named, self._durable))[1:], is_last=True)
        is_new = not disk.exists(self._layout.journal)
        handle = disk.open_for_appending(self._layout.journal)
        try:
            before = disk.size(handle)
            is_written = False
            try:
                disk.write(handle, b"".join((head, *(data for _, _, data in parts))))
                is_written = True
                self._sync(handle, is_new=is_new)
            except BaseException as exc:
                self._undo(handle, before)
                if is_written and isinstance(exc, OSError):
                    raise OutcomeUnknownError(f"could not sync {self._layout.journal}: {exc}") from exc
                raise
        finally:
            disk.close(handle)
        return before

    def _sync(self, handle: int, *, is_new: bool) -> None:
        if self._durable:
            disk.sync(handle)
            if is_new:
                disk.sync_directory(self._layout.top)

    def _undo(self, handle: int, before: int) -> None:
        """It must be gone for sure: an intent that comes back would overwrite what is written next."""
        try:
            disk.truncate(handle, before)
            disk.sync(handle)
        except OSError as exc:
            raise NotUndoneError from exc

    def take_back(self, before: int) -> None:
        """Undo the newest intent: its logs cannot be written."""
        self._shorten(before, sync=True)

    def _shorten(self, length: int, *, sync: bool) -> None:
        handle = disk.open_for_patching(self._layout.journal)
        try:
            disk.truncate(handle, length)
            if sync:
                disk.sync(handle)
        finally:
            disk.close(handle)

    def replay(self) -> None:
        """Do again what the logs may lack, then empty the journal, whatever it looks like."""
        if not disk.exists(self._layout.journal):
            return
        strange = self._strange_logs()
        for intent, pieces in self._intents():
            for (name, at, _, _), data in zip(intent.parts, pieces, strict=True):
                if name in strange:
                    copy_aside(self._layout, name, at, data)
                else:
                    self._patch(name, at, data)
        self.empty()
        self._shorten(0, sync=self._durable)

    def _strange_logs(self) -> set[str]:
        """Those of the logs that it speaks of which are no files: they cost what they stand for.

        Looks at all of it before anything is written.

        Raises:
            CorruptError: it speaks of what is no log of this store.
        """
        strange: set[str] = set()
        ends: dict[str, int] = {}
        for intent, _ in self._intents():
            for name, at, length, _ in intent.parts:
                if name not in ends:
                    try:
                        ends[name] = self._end_of(name)
                    except StrangeFileError as exc:
                        strange.add(name)
                        ends[name] = 0
                        tell("%s: what the journal has for it is set aside", exc)
                if not 0 <= at <= ends[name] + FARTHEST:
                    raise self._refused(f"writes at {at} in {name}, which ends at {ends[name]}")
                ends[name] = max(ends[name], at + length)
        return strange

    def _end_of(self, name: str) -> int:
        """Where a log ends that is there, or that may be made."""
        try:
            file = self._layout.file(name)
        except CorruptError as exc:
            raise self._refused(f"names a log {name!r}") from exc
        found = disk.status(file)
        if found is None:
            if name != STORE_LOG and not is_ours(file.name):
                raise self._refused(f"names a log {name!r}")
            return 0
        file.check(found, writes=True)
        return found.st_size

    def _refused(self, what: str) -> CorruptError:
        return CorruptError(
            f"{self._layout.journal} {what}: Clew never writes that, and nothing was done."
            " If you trust the store, move that file away; else open it with read_only=True"
        )

    def _patch(self, name: str, at: int, data: bytes) -> None:
        """Let a log have its part, all of it: of a torn one any piece may be there."""
        handle = disk.open_for_patching(self._layout.file(name))
        try:
            found = disk.read_at(handle, len(data), at)
            if found != data:
                if not _is_torn(found, data, at):
                    copy_aside(self._layout, name, at, found)
                disk.write_at(handle, data, at)
        finally:
            disk.close(handle)

    def empty_if_long(self) -> None:
        found = disk.status(self._layout.journal)
        if found is not None and found.st_size > LONGEST:
            self.empty()

    def empty(self, *, for_good: bool = False) -> None:
        """Sync the logs that it speaks of, and forget it. `for_good`: these are going to be changed where
        it speaks of them, so that it must not come back after a power cut."""
        found = disk.status(self._layout.journal)
        if found is None or not found.st_size:
            return
        intents = [intent for intent, _ in self._intents()]
        is_durable = any(intent.durable for intent in intents)
        if is_durable:
            for name in sorted({part[0] for intent in intents for part in intent.parts}):
                self._sync_log(name)
            disk.sync_directory(self._layout.sessions)
            disk.sync_directory(self._layout.top)
        self._shorten(0, sync=is_durable or for_good)

    def _sync_log(self, name: str) -> None:
        try:
            handle = disk.open_for_patching(self._layout.file(name))
        except (FileNotFoundError, StrangeFileError):
            return
        try:
            disk.sync(handle)
        finally:
            disk.close(handle)

    def _intents(self) -> Iterator[tuple[Intent, list[bytes]]]:
        """The whole intents, in order, with their parts. The first that is not whole is the end: it was
        never acknowledged."""
        try:
            handle = disk.open_for_reading(self._layout.journal)
        except FileNotFoundError:
            return
        try:
            at, size = 0, disk.size(handle)
            while True:
                found = _intent_at(handle, at)
                if found is None:
                    return
                intent, at = found
                pieces: list[bytes] = []
                for _, _, length, recorded in intent.parts:
                    if not 0 <= length <= size - at:
                        return
                    data = disk.read_at(handle, length, at)
                    at += length
                    if len(data) != length or xxh3_64_hexdigest(data) != recorded:
                        return
                    pieces.append(data)
                yield intent, pieces
        finally:
            disk.close(handle)


def _is_torn(found: bytes, data: bytes, offset: int) -> bool:
    """Whether there is nothing but sectors of `data`, and NULs where others did not arrive."""
    begin = 0
    while begin < len(found):
        end = begin + SECTOR - (offset + begin) % SECTOR
        piece = found[begin:end]
        if piece != data[begin : begin + len(piece)] and piece.strip(b"\0"):
            return False
        begin = end
    return True


def _intent_at(handle: int, at: int) -> tuple[Intent, int] | None:
    """The intent that begins there, and where its parts begin."""
    text = bytearray()
    end = -1
    while end < 0:
        begin = len(text)
        more = disk.read_at(handle, 64 * 1024, at + begin)
        if not more or begin > LONGEST_HEAD:
            return None
        text += more
        end = text.find(b"\n", begin)
    line = bytes(text[:end])
    try:
        _, rest = jsonl.open_line(line)
        return _decode(b"{" + rest), at + len(line) + 1
    except (jsonl.BadLineError, msgspec.DecodeError):
        return None


# -- the end of a transaction: its lines go to the logs, durably, before the index says so

Written = Sequence[tuple[LogAppend, bytes]]


def write_out(layout: Layout, journal: Journal, written: Written, *, durable: bool) -> None:
    """Write the lines of a transaction: into one log with one call, into several by way of the journal.

    Raises an error of ours with the logs as they were before, or NotUndoneError, whose cause it is.
    """
    if len(written) == 1 and not written[0][0].is_new:
        append, data = written[0]
        _append(layout, append, data, sync=durable, durable=durable)
        return
    before = journal.add([(append.name, append.start, data) for append, data in written])
    done: list[LogAppend] = []
    try:
        for append, data in written:
            _append(layout, append, data, sync=False, durable=durable)
            done.append(append)
    except ClewError:
        try:
            for append in done:
                _cut(layout, append, durable=durable)
            journal.take_back(before)  # last: until then a crash makes it whole
        except OSError as failed:
            raise NotUndoneError from failed
        raise


def _append(layout: Layout, append: LogAppend, data: bytes, *, sync: bool, durable: bool) -> None:
    file = layout.file(append.name)
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
            _cut(layout, append, durable=durable)
        except OSError as failed:
            raise NotUndoneError from failed
        raise error from exc


def _cut(layout: Layout, append: LogAppend, *, durable: bool) -> None:
    """Take a log back to where it was, for good: what was refused must not come back with the next crash."""
    file = layout.file(append.name)
    if append.is_new:
        disk.remove(file)
        if durable:
            disk.sync_directory(file.directory)
        return
    handle = disk.open_for_patching(file)
    try:
        disk.truncate(handle, append.start)
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
        return ReadOnlyError(f"cannot write {path}: {exc}")
    return BackendUnavailableError(f"cannot write {path}: {exc}")
