"""Opening files of others: never anything else than a file, and as they read uncompressed.

Some were compressed when they had grown cold; these are read as far as they are whole.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Final

import msgspec

from clew.core.disk import open_file
from clew.core.messages.value_count import TooManyValuesError, check_value_count
from clew.importers.reading.seen import doubt, note
from clew.importers.unpacking import Allowance, UnpackedTooMuchError, take_holes
from clew.model import Json

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_CHUNK: Final = 256 * 1024
MOST_AT_ONCE: Final = 1024 * 1024 * 1024
"""A document that is larger is not read: it would have to be in memory as a whole."""
MOST_TIMES: Final = 200
"""So many times its own size may come out of a compressed file before the budget of the import is asked: logs
become a tenth or a fiftieth, bombs a ten-thousandth."""


def content_of(path: Path) -> bytes:
    """All of a file. OSError as `open_file`."""
    note(path)
    with open_file(path) as file:
        is_small = os.fstat(file.fileno()).st_size <= MOST_AT_ONCE
        if is_small:
            take_holes(file.fileno(), path)
        found = file.read(MOST_AT_ONCE + 1) if is_small else b""
    if not is_small or len(found) > MOST_AT_ONCE:
        raise OSError(errno.EFBIG, f"it has more than {MOST_AT_ONCE >> 20} MiB", str(path))
    return found


def opened(raw: IO[bytes], path: Path) -> IO[bytes]:
    """A file as it reads uncompressed. What is wrong with it is told by `damage_of`, at its end."""
    start = raw.read(4)
    raw.seek(0)
    if start != _MAGIC and path.suffix != ".zst":
        return raw
    take_holes(raw.fileno(), path)
    return io.BufferedReader(_Unpacked(raw, path), 1024 * 1024)


def has_whole_lines(path: Path, *, waits: bool) -> bool:
    """Whether a reader can go on in a file, later, from where it stops now: it is not compressed, and its
    last line has its end, or `waits` for it. In a database there are no lines."""
    if path.suffix == ".zst":
        return False
    try:
        with open_file(path, 0) as raw:
            start = raw.read(len(_SQLITE))
            if waits or start == _SQLITE:
                return not start.startswith(_MAGIC)
            size = os.fstat(raw.fileno()).st_size
            is_ended = size > 0 and os.pread(raw.fileno(), 1, size - 1) == b"\n"
            return is_ended and not start.startswith(_MAGIC)
    except OSError:
        return False


def damage_of(file: IO[bytes]) -> str | None:
    """Why an opened file ended before its time; None: it did not."""
    inner = getattr(file, "raw", None)
    return inner.damage if isinstance(inner, _Unpacked) else None


class _Unpacked(io.RawIOBase):
    """A damaged frame ends the file: what stands before it can be read."""

    def __init__(self, packed: IO[bytes], path: Path) -> None:
        self._packed = packed
        self._allowance = Allowance(path, times=MOST_TIMES)
        self._zstd = zstd()
        self._frame: Any = None
        self._rest = b""
        self.damage: str | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data and self.damage is None:
            if self._frame is None or self._frame.eof:
                self._rest = self._rest or self._read()
                if not self._rest:
                    return 0
                self._frame = self._zstd.ZstdDecompressor()
            elif self._frame.needs_input and not self._rest:
                self._rest = self._read()
                if not self._rest:
                    self.damage = "the compressed file is cut off"
                    break
            data = self._next(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _read(self) -> bytes:
        found = self._packed.read(_CHUNK)
        self._allowance.read(len(found))
        return found

    def _next(self, most: int) -> bytes:
        try:
            data: bytes = self._frame.decompress(self._rest, most)
        except self._zstd.ZstdError as error:
            self.damage = f"the compressed file is damaged: {error}"
            return b""
        self._rest = self._frame.unused_data if self._frame.eof else b""
        try:
            self._allowance.take(len(data))
        except UnpackedTooMuchError as error:
            self.damage = str(error)
            doubt()  # the next import may allow more
            return b""
        return data


def zstd() -> ModuleType:
    """The module that packs and unpacks."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


_OnRefused = Callable[[OSError], None]
_watched: ContextVar[tuple[list[str], _OnRefused] | None] = ContextVar("watched", default=None)


@contextmanager
def watching_folders(on_refused: _OnRefused) -> Iterator[list[str]]:
    """The folders that `files_below` looks into in the block; what it cannot look into is told."""
    entered: list[str] = []
    token = _watched.set((entered, on_refused))
    try:
        yield entered
    finally:
        _watched.reset(token)


DEEPEST: Final = 100
"""Directories inside of each other that are looked into."""


def files_below(folder: Path, *endings: str, beginning: str = "") -> list[Path]:
    """The files in a directory, at any depth, whose names end and begin so, sorted. Directories that are
    links are not entered, and what cannot be looked into is passed over."""
    found: list[tuple[str, Path]] = []
    waiting = [(os.fspath(folder), 0)]
    watched = _watched.get()
    while waiting:
        here, level = waiting.pop()
        if watched is not None:
            watched[0].append(here)
        names: set[str] = set()
        try:
            if level > DEEPEST:
                raise OSError(errno.ENAMETOOLONG, f"it lies more than {DEEPEST} directories deep", here)
            with os.scandir(here) as inside:
                for entry in inside:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, level + 1))
                    elif (
                        entry.name.endswith(endings) and entry.name.startswith(beginning) and entry.is_file()
                    ):
                        names.add(entry.name)
            if names:
                # Some times as quick as a path for each name.
                found += [
                    (f"{here}{os.sep}{one.name}", one) for one in Path(here).iterdir() if one.name in names
                ]
        except OSError as error:
            if watched is not None:
                watched[1](error)
    return [path for _, path in sorted(found)]


# ── The beginning of a file, from which its format is told ────────────────────────────────────────
# What a file is, by how it begins: data of a program, or a page, a source or a log that shows some.

SHOWN: Final = 64 * 1024
"""Bytes at the beginning of a file that tell what it is,"""
SHOWN_LINES: Final = 4
"""or, if they are more, so many lines of it,"""
SHOWN_AT_MOST: Final = 16 * 1024 * 1024
"""but no more than these bytes."""
_SQLITE: Final = b"SQLite format 3\0"
_BOM: Final = b"\xef\xbb\xbf"
_LOGS: Final = frozenset({".jsonl", ".ndjson"})
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]', re.DOTALL)


def beginning_of(path: Path, size: int = SHOWN) -> bytes:
    """The first bytes of a file, uncompressed; empty if it cannot be read."""
    note(path)
    try:
        with open_file(path) as raw:
            return opened(raw, path).read(size)
    except OSError:
        return b""


def read_beginning(path: Path) -> bytes:
    """Enough of a file to tell what it is: of a log some whole lines, however long they are. OSError: it
    cannot be read."""
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
    from clew.importers.reading.jsonlines import leniently  # which reads files by this module

    found = []
    for line in beginning.removeprefix(_BOM).split(b"\n")[:most]:
        try:
            check_value_count(line)
            record = msgspec.json.decode(line)
        except TooManyValuesError:
            continue  # it is told when the file is read
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            record = leniently(line, lambda reason: None)
        if isinstance(record, dict):
            found.append(record)
    return found


def is_data(path: Path, beginning: bytes) -> bool:
    """Whether it is JSON or SQLite. A log of JSON may begin with what a crash left."""
    start = beginning.removeprefix(_BOM).lstrip(b" \t\r\n\0")
    return start.startswith((b"{", b"[", _SQLITE)) or not _LOGS.isdisjoint(path.suffixes[-2:])


def has_keys(beginning: bytes, *names: str) -> bool:
    """Whether a document, or one of the first lines, is an object with these members: not one that holds
    such an object, or a text that does."""
    if not begins_with_object(beginning) or not all(f'"{name}"'.encode() in beginning for name in names):
        return False
    wanted = set(names)
    return first_keys(beginning) >= wanted or any(wanted <= line.keys() for line in first_objects(beginning))


def first_keys(beginning: bytes) -> set[str]:
    """The names of the members of the object that a file begins with, as far as it is shown."""
    found: set[str] = set()
    depth, is_key = 0, False
    for match in _TOKEN.finditer(beginning):
        token = match[0]
        if token in (b"{", b"["):
            depth += 1
            is_key = token == b"{"
        elif token in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                break
        elif token == b",":
            is_key = depth == 1
        elif is_key and depth == 1 and token != b":":
            found.add(token[1:-1].decode(errors="replace"))
            is_key = False
    return found


def suffix_of(file: Path) -> str:
    """How the name of a file that came without one ought to end, so that readers know what they have."""
    with file.open("rb") as raw:
        start = raw.read(16)
    if start.startswith(b"SQLite format 3\0"):
        return ".db"
    beginning = read_beginning(file)
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return ".jsonl.zst"
    if begins_with_object(beginning):
        is_document = not first_objects(beginning, most=1) or "messages" in first_keys(beginning)
        return ".json" if is_document else ".jsonl"
    return ".json" if beginning.lstrip().startswith(b"[") else ".md"
