"""Reading a log line by line, however it was left: at most one line in memory."""

from __future__ import annotations

from collections.abc import Iterator

from clew.backends.jsonl import disk
from clew.core.lines import BOM

CHUNK = 1 << 20


def lines(handle: int, start: int = 0) -> Iterator[tuple[int, bytes, bool]]:
    """(offset, line, whether it has an end) of each line from `start` on.

    The line is without its end; CRLF and a byte order mark are let pass, as editors leave them.
    """
    offset = start
    parts: list[bytes] = []
    at = start
    while chunk := disk.read_at(handle, CHUNK, at):
        at += len(chunk)
        first = 0
        while (found := chunk.find(b"\n", first)) >= 0:
            parts.append(chunk[first:found])
            line = b"".join(parts) if len(parts) > 1 else parts[0]
            parts = []
            yield offset, line, True
            first = found + 1
            offset += len(line) + 1
        if first < len(chunk):
            parts.append(chunk[first:])
    if parts:
        yield offset, b"".join(parts), False


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
