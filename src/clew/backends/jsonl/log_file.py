"""Packs of objects: one file each, a line that says what it is, then its content."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec

from clew.backends.jsonl import disk
from clew.backends.jsonl.disk import File
from clew.backends.jsonl.layout import STORE_LOG, Layout, pack_file, shortened
from clew.backends.rows import pack_checksum, pack_content
from clew.core.log import jsonl
from clew.core.log.jsonl import BOM
from clew.core.messages.text import for_a_log
from clew.errors import CorruptError

LARGEST: Final = 1 << 30
"""No pack is larger: SQLite stores could not hold it."""
LONGEST_HEAD: Final = 1 << 26
"""Nor is the line that says what is in it."""


class PackHead(msgspec.Struct, frozen=True, tag_field="kind", tag="pack-file"):
    """The first line of a pack's file."""

    pack: int
    codec: int
    size: int
    checksum: int
    stored: int
    members: Sequence[tuple[bytes, int, int]]


def write_pack(
    layout: Layout, pack: int, codec: int, blob: bytes, size: int,
    members: Sequence[tuple[bytes, int, int]], *, durable: bool,
) -> jsonl.PackLine:  # fmt: skip
    """Write the file of a pack, durably, and give the line that names it."""
    recorded = pack_checksum(size, codec, blob)
    head = PackHead(pack, codec, size, recorded, len(blob), members)
    first = jsonl.finish(msgspec.json.encode(head)[1:], is_last=True)
    file = pack_file(pack, recorded)
    disk.write_whole(layout.packs.file(file), first + blob, durable=durable)
    return jsonl.PackLine(pack, file, codec, size, recorded, len(blob), tuple(members))


def read_pack(layout: Layout, pack: int, codec: int, size: int, recorded: int) -> bytes:
    """The raw content of a pack, or CorruptError."""
    try:
        blob = _read_blob(layout.packs.file(pack_file(pack, recorded)), size)
    except (OSError, TypeError, ValueError) as exc:
        raise CorruptError(f"pack {pack} is damaged: {exc} ({layout.packs.path})") from exc
    try:
        return pack_content(pack, size, codec, blob, recorded)
    except CorruptError as exc:
        raise CorruptError(f"{exc} ({layout.packs.path})") from exc


def _read_blob(file: File, size: int) -> bytes:
    """What stands behind the first line of a pack's file: never more than its content, unpacked."""
    handle = disk.open_for_reading(file)
    try:
        length = disk.size(handle)
        if length > min(size, LARGEST) + LONGEST_HEAD:
            raise ValueError(f"its file has {length} bytes")
        whole = disk.read_at(handle, length, 0)
    finally:
        disk.close(handle)
    return whole[whole.index(b"\n") + 1 :]


def remove_packs(layout: Layout, files: Sequence[str]) -> None:
    for file in files:
        disk.remove(layout.packs.file(file))


def pack_reference(file: str, stored: int) -> bytes:
    """What the index holds in place of a pack's content: its file, and how long that is."""
    return msgspec.json.encode((file, stored))


def pack_place(content: bytes) -> tuple[str, int]:
    """The file of a pack and the length of its content, from what the index holds."""
    return msgspec.json.decode(content, type=tuple[str, int])


# ── A log: what is read of it, and how it is told from another ────────────────────────────────────
# One log as a file: its lines, whether it is the one that the index has read, and its torn end set aside.

# -- how far a log is in the index

TAIL = 24
"""So many bytes of the first and of the last line are remembered: their checksums are among them."""


class LogRow(NamedTuple):
    """The columns of `logs`, in their order."""

    log: int
    name: str
    sid: int
    applied: int
    """Bytes of it that are in the index."""
    lines: int
    inode: int
    tail_at: int
    tail: bytes
    dirty: int
    """It holds what was dropped."""
    stale: int
    """Bytes of lines that repeat what others said before: a scrub takes the older ones away."""
    safe: int
    """Bytes of it that were acknowledged as durable: what is wrong with them is damage, and not torn."""
    head: bytes = b""
    """How its first line begins, if that has a mark."""


# -- its lines, however they were left: at most one in memory

CHUNK = 1 << 20
LONGEST = 128 * CHUNK
"""No line is longer: a body has 64 MiB at most. What is cannot be read, and is not kept in memory."""


def read_lines(
    handle: int, start: int = 0, limit: int | None = None
) -> Iterator[tuple[int, bytes, int, bool]]:
    """(offset, line, where the next one begins, whether it has an end) of each line from `start` on,
    up to `limit`.

    The line is without its end; CRLF and a byte order mark are let pass, as editors leave them. Of one that
    is too long only the begin is given: it is bad, and stays so.
    """
    offset = start
    line = _Growing()
    at = start
    while chunk := disk.read_at(handle, CHUNK if limit is None else max(min(CHUNK, limit - at), 0), at):
        first = 0
        while (found := chunk.find(b"\n", first)) >= 0:
            line.add(chunk[first:found])
            first = found + 1
            yield offset, line.whole(), at + first, True
            line = _Growing()
            offset = at + first
        line.add(chunk[first:])
        at += len(chunk)
    if at > offset:
        yield offset, line.whole(), at + 1, False


class _Growing:
    """A line that comes in pieces."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._has_nul = False

    def add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= LONGEST:
            self._parts.append(part)
            return
        self._has_nul = self._has_nul or any(b"\0" in piece for piece in (*self._parts[1:], part))
        del self._parts[1:]

    def whole(self) -> bytes:
        if self._size > LONGEST:
            return self._parts[0] + (b"\0" if self._has_nul else b"")
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


def cleaned(offset: int, line: bytes) -> bytes:
    """A line without what editors put around it."""
    if line.endswith(b"\r"):
        line = line[:-1]
    return line.removeprefix(BOM) if offset == 0 else line


def line_number(handle: int, offset: int) -> int:
    """The number of the line that holds a byte, counted from 1, in bounded memory."""
    number, at = 1, 0
    while at < offset:
        chunk = disk.read_at(handle, min(CHUNK, offset - at), at)
        if not chunk:
            break
        number += chunk.count(b"\n")
        at += len(chunk)
    return number


# -- whether a file is the log that the index has read, or another one in its place
# Length and last line do not tell: a scrub may rewrite a log with the same ones. Nor does an inode: that
# of a file that is gone is used again, and a copy has another. So the first line of a log has a mark, which
# is made at random each time the file is rewritten. A log without one, of an older version or from an
# export, is known by its inode.

OF_THE_PROCESS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR)
"""Errors that say nothing about the file that was to be read."""


class UnreadableLogError(Exception):
    """The system does not let a log be read. That is no proof of damage: nothing is given up for it."""

    def __init__(self, name: str, reason: OSError) -> None:
        super().__init__(f"{whose(name)} cannot be read: {reason}")
        self.name = name
        self.reason = reason


def whose(name: str) -> str:
    """A log as people know it. The id is that in the name of the file, as far as it can be told."""
    if name == STORE_LOG:
        return f"{name}, the log of the store itself,"
    return f"{name}, the log of session {id_of(name)!r},"


def id_of(name: str) -> str:
    """The id that a file's name was made of, as far as it can be told."""
    from urllib.parse import unquote  # seldom needed, and takes as long to import as opening takes

    return unquote(name.rpartition("/")[2].removesuffix(".jsonl"), errors="replace")


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Errors of the system inside are about this log, unless they are about the process."""
    try:
        yield
    except OSError as exc:
        if exc.errno in OF_THE_PROCESS:
            raise
        raise UnreadableLogError(name, exc) from exc


def new_mark() -> str:
    return os.urandom(8).hex()


def changed(layout: Layout, known: Mapping[str, LogRow]) -> set[str]:
    """The logs that are there and have something that the index has not read, or are others than it knows.

    Each scrub changes the store's log before it rewrites another one. So as long as the index knows that
    one, a look at the inode of the others will do.
    """
    names = layout.log_names()
    store = known.get(STORE_LOG)
    if store is None:
        is_scrubbed = STORE_LOG in names
    else:
        is_scrubbed = STORE_LOG not in names or _differs(layout, store, closely=True)
    return {name for name in names if name not in known or _differs(layout, known[name], closely=is_scrubbed)}


def _differs(layout: Layout, row: LogRow, *, closely: bool) -> bool:
    """A log that cannot be read is known by its length and inode."""
    file = layout.file(row.name)
    found = disk.status(file)
    if found is None:  # it was removed meanwhile
        return True
    if found.st_size != row.applied:
        return True
    if found.st_ino == row.inode and not closely:
        return False
    try:
        handle = disk.open_for_reading(file)
        try:
            return not is_marked_alike(handle, row)
        finally:
            disk.close(handle)
    except OSError as exc:
        if exc.errno in OF_THE_PROCESS:
            raise
        return found.st_ino != row.inode


def is_same(handle: int, row: LogRow) -> bool:
    """Whether this is the log of the row, unchanged as far as the index has read it."""
    return (
        0 <= row.tail_at < row.applied <= disk.size(handle)
        and is_marked_alike(handle, row)
        and disk.read_at(handle, len(row.tail), row.tail_at) == row.tail
    )


def is_marked_alike(handle: int, row: LogRow) -> bool:
    """Whether this is the file of the row, whatever became of what is in it."""
    if row.head:
        return disk.read_at(handle, len(row.head), 0) == row.head
    return disk.inode(handle) == row.inode


# -- what a crash left at the end of a log is set aside, never thrown away


def set_tail_aside(layout: Layout, name: str, offset: int) -> File:
    """Copy the bytes of a log from `offset` on to a file of their own, and cut them off.

    The name of the file says from which log and which place they are, and when it was.
    """
    file = layout.file(name)
    handle = disk.open_for_patching(file)
    try:
        aside, copy = _new_file(layout, file.name, offset)
        try:
            at = offset
            while chunk := disk.read_at(handle, CHUNK, at):
                disk.write(copy, chunk)
                at += len(chunk)
            disk.sync(copy)
        finally:
            disk.close(copy)
        disk.sync_directory(layout.quarantine)
        disk.truncate(handle, offset)
        disk.sync(handle)
    finally:
        disk.close(handle)
    tell("%d bytes at the end of %s, of a write that never ended, are now in %s", at - offset, file, aside)
    return aside


def copy_aside(layout: Layout, name: str, offset: int, data: bytes) -> File:
    """Keep bytes of a log that are about to be overwritten."""
    file = layout.file(name)
    aside, copy = _new_file(layout, file.name, offset)
    try:
        disk.write(copy, data)
        disk.sync(copy)
    finally:
        disk.close(copy)
    disk.sync_directory(layout.quarantine)
    tell("%d bytes of %s that the journal has otherwise are now in %s", len(data), file, aside)
    return aside


def tell(message: str, *args: object) -> None:
    """Say what was found after a crash, or of damage."""
    import logging  # costs more than opening a store, and is hardly ever needed

    logging.getLogger("clew.jsonl").warning(message, *map(for_a_log, args))


def _new_file(layout: Layout, log: str, offset: int) -> tuple[File, int]:
    stamp = f"{time.time_ns() // 1_000_000}-{os.urandom(8).hex()}"
    file = layout.quarantine.file(f"{shortened(log)}.{offset}.{stamp}.torn")
    return file, disk.create(file)
