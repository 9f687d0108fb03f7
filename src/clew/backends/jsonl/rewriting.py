"""Logs without what was dropped: each is written anew from the index, beside itself, and then replaced.

What this version does not know of, and what it can not read, is carried over byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw

from clew.backends.jsonl import disk, scan
from clew.backends.jsonl.catching_up import catch_up_log, forget
from clew.backends.jsonl.dump import lines_of_session, lines_of_store
from clew.backends.jsonl.journal import Journal
from clew.backends.jsonl.layout import STORE_LOG, Layout
from clew.backends.jsonl.log_row import LogRow
from clew.backends.jsonl.replay import pack_place
from clew.backends.jsonl.statements import (
    CLEAN_LOG,
    DIRTY_LOGS,
    DROP_LOG,
    LOOSEN,
    PACK_FILES,
    RESET_LOG,
    TIGHTEN,
)
from clew.backends.sqlite.statements import GET_SESSION
from clew.core import lines

BUFFER: Final = 1 << 20


def rewrite_dirty_logs(connection: apsw.Connection, layout: Layout, journal: Journal) -> None:
    """Leave no byte of what was dropped in any file but the index. Needs the store's lock."""
    journal.empty(for_good=True)
    dirty = [LogRow(*row) for row in connection.execute(DIRTY_LOGS)]
    if dirty and all(row.name != STORE_LOG for row in dirty):
        _remember_numbers(connection, layout)
    # The store's own log first: it keeps the highest numbers when their owners are gone.
    for row in sorted(dirty, key=lambda row: row.name != STORE_LOG):
        _rewrite(connection, layout, row)
    _remove_strays(connection, layout)


def _rewrite(connection: apsw.Connection, layout: Layout, row: LogRow) -> None:
    path = layout.path(row.name)
    content = lines_of_store if row.name == STORE_LOG else lines_of_session
    beside = path.with_name(f"{path.name}.new")
    disk.remove(beside)
    # A session that is gone takes what can not be read of it with it: nobody knows what it was.
    is_alive = row.name == STORE_LOG or connection.execute(GET_SESSION, (row.sid,)).fetchone() is not None
    foreign = _foreign_lines(path, with_bad=is_alive) if is_alive else iter(())
    count = _write_lines(beside, content(connection, layout, row), foreign)
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(LOOSEN)
        forget(connection, row)
        if count:
            disk.replace(beside, path)
            disk.sync_directory(path.parent)
            connection.execute(RESET_LOG, (row.log, 0))
            catch_up_log(connection, layout, row.name, repair=False)
            connection.execute(CLEAN_LOG, (row.log,))
        else:
            disk.remove(beside)
            disk.remove(path)
            disk.sync_directory(path.parent)
            connection.execute(DROP_LOG, (row.log,))
        connection.execute(TIGHTEN)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _write_lines(path: Path, content: Iterator[bytes], foreign: Iterator[bytes]) -> int:
    """Write texts as one batch, with whole lines of others before its last; how many beside the first."""
    handle = disk.create(path)
    try:
        count = 0
        out = _Buffered(handle)
        held = next(content)
        for text in content:
            out.write(lines.finish(held, is_last=False))
            held = text
            count += 1
        for line in foreign:
            out.write(line)
            count += 1
        out.write(lines.finish(held, is_last=True))
        out.flush()
        disk.sync(handle)
    finally:
        disk.close(handle)
    return count


class _Buffered:
    """Few large writes instead of many small ones."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size > BUFFER:
            self.flush()

    def flush(self) -> None:
        disk.write(self._handle, b"".join(self._parts))
        self._parts, self._size = [], 0


def _foreign_lines(path: Path, *, with_bad: bool) -> Iterator[bytes]:
    """Lines of kinds that are not known here, those that can not be read, and what an exported session
    says for the store."""
    is_session = path.name != STORE_LOG
    handle = disk.open_for_reading(path)
    try:
        for offset, raw, end, _ in scan.lines(handle):
            try:
                _, text = lines.open_line(scan.cleaned(offset, raw))
                line = lines.decode(text)
                if line is None or (is_session and isinstance(line, lines.RecordLine) and not line.sid):
                    yield lines.finish(text, is_last=False)
            except lines.BadLineError:
                for at in range(offset, end - 1, scan.CHUNK) if with_bad else ():
                    yield disk.read_at(handle, min(scan.CHUNK, end - 1 - at), at)
                if with_bad:
                    yield b"\n"
    finally:
        disk.close(handle)


def _remember_numbers(connection: apsw.Connection, layout: Layout) -> None:
    """Before a log goes: the numbers in it are never used again."""
    from clew.backends.jsonl.dump import numbers_line

    path = layout.path(STORE_LOG)
    text = lines.encode(numbers_line(connection))
    is_new = not path.exists()
    handle = disk.open_for_appending(path)
    try:
        if is_new:
            disk.write(handle, lines.finish(lines.encode(lines.LogLine(lines.FORMAT)), is_last=False))
        disk.write(handle, lines.finish(text, is_last=True))
        disk.sync(handle)
    finally:
        disk.close(handle)
    connection.execute("BEGIN IMMEDIATE")
    catch_up_log(connection, layout, STORE_LOG, repair=False)
    connection.execute("COMMIT")


def _remove_strays(connection: apsw.Connection, layout: Layout) -> None:
    """Files that nothing names, and what was set aside: it may hold anything."""
    named = {pack_place(content)[0] for *_, content in connection.execute(PACK_FILES)}
    for file in layout.packs.iterdir():
        if file.name not in named:
            disk.remove(file)
    for file in (
        *layout.quarantine.iterdir(),
        *layout.root.glob("index.db.corrupt-*"),
        *layout.root.glob("*.new"),
        *layout.sessions.glob("*.new"),
    ):
        disk.remove(file)
