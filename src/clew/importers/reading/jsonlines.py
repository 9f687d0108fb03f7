"""Lines of JSON from other programs' logs: a damaged line costs itself, and is told with its number.

What is seen in the wild: a torn last line, a torn line to which a later record was glued, CRLF, a byte
order mark, lines of zeros that a crash left, lone surrogates, bytes that are no UTF-8, lines of many
megabytes, files that were compressed when they had grown cold.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import msgspec

from clew.importers.contract import OnBytes, OnProblem, Problem
from clew.importers.reading.files import damage_of, open_file, opened
from clew.importers.reading.values import finite, integer
from clew.model import Json

T = TypeVar("T")

LONGEST: Final = 128 * 1024 * 1024
"""A line that is longer is passed over: nothing in it could be stored as one message."""
TOLD: Final = 1024 * 1024
"""After how many bytes progress is told."""
SHOWN: Final = 64 * 1024
"""Bytes at the beginning of a file that tell what it is,"""
SHOWN_LINES: Final = 4
"""or, if they are more, so many lines of it,"""
SHOWN_AT_MOST: Final = 16 * 1024 * 1024
"""but no more than these bytes."""
GLUED_LONGEST: Final = 4 * 1024 * 1024
GLUED_TRIES: Final = 2000
_BUFFER: Final = 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"

_decode = msgspec.json.Decoder().decode


class Line(msgspec.Struct, frozen=True, gc=False):
    """What stands in a line: nothing but JSON values, save that a text may hold a lone surrogate."""

    number: int
    """From 1 on."""
    offset: int
    """Where it begins, in the file as it reads uncompressed."""
    record: dict[str, Json]


def read_lines(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[Line]:
    """The objects of a file, one a line, in order; what is none is told to `on_problem`."""
    told = end = 0
    with open_file(path, _BUFFER) as raw:
        file = opened(raw, path)
        # What is written while we read comes with the next import: so there is an end.
        size = os.fstat(raw.fileno()).st_size if file is raw else None
        for number, offset, line in _numbered(file, path, on_problem, size):
            end = offset + len(line)
            if end - told >= TOLD:
                on_bytes(end - told)
                told = end
            try:
                record = _decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                record = None
            if type(record) is not dict:
                record = object_of(line, number, path, on_problem, is_last=not line.endswith(b"\n"))
                if record is None:
                    continue
            yield Line(number, offset, record)
    if end > told:
        on_bytes(end - told)


def closed_after(lines: Iterable[T]) -> Iterator[T]:
    """For a generator that goes through another one: if it is closed, so is that one, and its file."""
    yield from lines


def beginning_of(path: Path, size: int = SHOWN) -> bytes:
    """The first bytes of a file, uncompressed; empty if it can not be read."""
    try:
        with open_file(path) as raw:
            return opened(raw, path).read(size)
    except OSError:
        return b""


def read_beginning(path: Path) -> bytes:
    """Enough of a file to tell what it is: of a log some whole lines, however long they are. OSError: it
    can not be read."""
    with open_file(path) as raw:
        file = opened(raw, path)
        shown = file.read(SHOWN)
        more = bytearray(shown)
        while begins_with_object(shown) and more.count(b"\n") < SHOWN_LINES and len(more) < SHOWN_AT_MOST:
            part = file.read(1024 * 1024)
            if not part:
                break
            more += part
    # Without an end of line it is no log, but a document: what it begins with is enough.
    return bytes(more) if b"\n" in more else shown


def begins_with_object(beginning: bytes) -> bool:
    """Whether it may be lines of JSON at all, and no page that shows some."""
    return beginning.removeprefix(_BOM).lstrip(b" \t\r\n\0").startswith(b"{")


def first_objects(beginning: bytes, most: int = 20) -> list[dict[str, Json]]:
    """The objects of the first lines that are whole: enough to tell what a file is."""
    found = []
    for line in beginning.removeprefix(_BOM).split(b"\n")[:most]:
        try:
            record = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            record = _leniently(line, lambda reason: None)
        if isinstance(record, dict):
            found.append(record)
    return found


def _numbered(
    file: IO[bytes], path: Path, on_problem: OnProblem, end: int | None
) -> Iterator[tuple[int, int, bytes]]:
    number, offset = 0, 0
    while end is None or offset < end:
        number += 1
        try:
            line = file.readline(LONGEST)
            size = len(line)
            if size == LONGEST and not line.endswith(b"\n"):
                size += _skip_line(file)
                on_problem(Problem(path=str(path), line=number, reason=f"the line has {size} bytes"))
                line = b"\n"
        except OSError as error:
            on_problem(
                Problem(path=str(path), line=number, reason=f"it can not be read from here on: {error}")
            )
            return
        if not size:
            damage = damage_of(file)
            if damage is not None:
                on_problem(Problem(path=str(path), line=number, reason=damage))
            return
        yield number, offset, line.removeprefix(_BOM) if number == 1 else line
        offset += size


def _skip_line(file: IO[bytes]) -> int:
    skipped = 0
    while part := file.readline(1024 * 1024):
        skipped += len(part)
        if part.endswith(b"\n"):
            break
    return skipped


def object_of(
    line: bytes, number: int, path: Path, on_problem: OnProblem, *, is_last: bool = False
) -> dict[str, Json] | None:
    """The object in a line; None: there is none, and it was said why, unless the line is blank."""
    try:
        record = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        record = None
    if type(record) is dict:
        return record

    def tell(reason: str) -> None:
        on_problem(Problem(path=str(path), line=number, reason=reason))

    text = line.strip(b" \t\r\n\0")
    return _mended(text, tell, is_last=is_last) if text else None


def _mended(text: bytes, tell: Callable[[str], None], *, is_last: bool) -> dict[str, Json] | None:
    """What msgspec refuses: lone surrogates, bytes that are no UTF-8, a record glued to a torn one."""
    record = _leniently(text, tell)
    if record is None:
        other = _other_value(text)
        if other is not None:
            tell(f"an object was expected, not {other}")
            return None
        record = _glued(text)
        end = "the line ends before its record does" if is_last else "not valid JSON"
        tell(end if record is None else "a torn record stands before the one at its end")
    return record


def _other_value(text: bytes) -> str | None:
    """What a line holds that is JSON and no object."""
    try:
        return type(_decode(text)).__name__
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _leniently(text: bytes, tell: Callable[[str], None]) -> dict[str, Json] | None:
    decoded = text.decode(errors="replace")
    strange: list[str] = []

    def kept(number: T | None, digits: str) -> T | None:
        if number is None:
            strange.append(digits)
        return number

    try:
        record: Any = json.loads(
            decoded,
            parse_constant=strange.append,
            parse_float=lambda digits: kept(finite(digits), digits),
            parse_int=lambda digits: kept(integer(digits), digits),
        )
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    try:
        text.decode()
    except UnicodeDecodeError as error:
        tell(f"not valid UTF-8 at byte {error.start}: replaced by U+FFFD")
    if strange:
        tell(f"{strange[0][:20]} is no number that JSON can keep: replaced by null")
    return record


def _glued(text: bytes) -> dict[str, Json] | None:
    """The whole record at the end of a line that begins with a torn one. No part of a torn record passes
    for it: behind such a part there is no end of line, but what else the record held."""
    if len(text) > GLUED_LONGEST or not text.endswith(b"}"):
        return None
    at = 0
    for _ in range(GLUED_TRIES):
        at = text.find(b'{"', at + 1)
        if at < 0:
            return None
        try:
            record = _decode(text[at:])
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        return record if isinstance(record, dict) else None
    return None
