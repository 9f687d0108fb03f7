"""Lines of JSON from other programs' logs: a damaged line costs itself, and is told with its number.

What is seen in the wild: a torn last line, a torn line to which a later record was glued, CRLF, a byte
order mark, lines of zeros that a crash left, lone surrogates, bytes that are no UTF-8, lines of many
megabytes, files that were compressed when they had grown cold.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import msgspec

from clew.core.disk.open import open_file
from clew.importers.contract import OnBytes, OnProblem, Problem
from clew.importers.reading.files import damage_of, opened
from clew.importers.reading.values import finite, integer
from clew.model import Json

T = TypeVar("T")

LONGEST: Final = 128 * 1024 * 1024
"""A line that is longer is passed over: nothing in it could be stored as one message."""
TOLD: Final = 1024 * 1024
"""After how many bytes progress is told."""
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


def read_lines(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Generator[Line, None, None]:
    """The objects of a file, one a line, in order; a line that is none is told to `on_problem`."""
    number = offset = told = 0
    with open_file(path, _BUFFER) as raw:
        file = opened(raw, path)
        # What is written while we read comes with the next import: so there is an end.
        end = os.fstat(raw.fileno()).st_size if file is raw else None
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
                reason = f"it cannot be read from here on: {error}"
                on_problem(Problem(path=str(path), line=number, reason=reason))
                break
            if not size:
                damage = damage_of(file)
                if damage is not None:
                    on_problem(Problem(path=str(path), line=number, reason=damage))
                break
            if number == 1:
                line = line.removeprefix(_BOM)
            start, offset = offset, offset + size
            if offset - told >= TOLD:
                on_bytes(offset - told)
                told = offset
            try:
                record = _decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                record = None
            if type(record) is not dict:
                record = object_of(line, number, path, on_problem, is_last=not line.endswith(b"\n"))
                if record is None:
                    continue
            yield Line(number, start, record)
    if offset > told:
        on_bytes(offset - told)


def _skip_line(file: IO[bytes]) -> int:
    """Read to the end of a line; how many bytes that was."""
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
    record = leniently(text, tell)
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


def leniently(text: bytes, tell: Callable[[str], None]) -> dict[str, Json] | None:
    """An object that msgspec refuses and Python takes; `tell` is called with what had to be replaced."""
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
