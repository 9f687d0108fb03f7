"""Reading a log line by line, however it was left: at most one line in memory."""

from __future__ import annotations

from collections.abc import Iterator

from clew.backends.jsonl import disk
from clew.core.log.jsonl import BOM

CHUNK = 1 << 20
LONGEST = 128 * CHUNK
"""No line is longer: a body has 64 MiB at most. What is can not be read, and is not kept in memory."""


def lines(handle: int, start: int = 0, limit: int | None = None) -> Iterator[tuple[int, bytes, int, bool]]:
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
