"""What the ledger keeps of a file: the values, the names of the records, and how a place is known again."""

from __future__ import annotations

import os
import platform
import re
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from blake3 import blake3

import clew
from clew.core.disk import open_file
from clew.core.log.records import Count, Time, decoder
from clew.importers import REVISIONS
from clew.importers.contract import Place
from clew.importers.reading.seen import Stamp

HEAD: Final = 4 * 1024
TAIL: Final = 64 * 1024
"""Bytes at the beginning of a file, and before the place in it, by which it is known to have only grown."""
_ODD: Final = re.compile("[%\udc80-\udcff]")
_ESCAPED: Final = re.compile("%([0-9A-F]{2})")
_MACHINE_IDS: Final = ("/etc/machine-id", "/var/lib/dbus/machine-id")


class SessionOf(msgspec.Struct, frozen=True, array_like=True):
    """A session that came of a file."""

    sid: Count
    """Its number in this store, which no other session ever gets,"""
    id: str
    parent: str | None = None
    is_copy: bool = False
    batches: Count = 0
    """In how many parts its entries came,"""
    names: Count = 0
    """and how many the last part has; 0: not known."""
    is_trashed: bool = False
    """It was in the trash when its file was read: what was new then is not here."""


class ProblemOf(msgspec.Struct, frozen=True, array_like=True):
    path: str
    line: int | None
    reason: str


class PlaceOf(msgspec.Struct, frozen=True, array_like=True):
    """Where the reader stopped."""

    offset: Count
    lines: Count
    head: str
    """Digest of the first `HEAD` bytes before it,"""
    tail: str
    """and of the last `TAIL`."""
    state: str = ""
    """Digest of what the reader needs to go on."""


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of one file since it was read last."""

    format: str
    reader: str
    """The version of what read it."""
    at: Time
    """When it was read."""
    seen: tuple[Stamp, ...]
    """All that its sessions were read from: itself, and what lies beside it."""
    is_settled: bool = True
    is_sure: bool = True
    """Its content tells the format. Else only the caller said so."""
    sessions: tuple[SessionOf, ...] = ()
    problems: tuple[ProblemOf, ...] = ()
    more_problems: Count = 0
    error: str = ""
    """Why something of it was refused that may be taken the next time."""
    place: PlaceOf | None = None
    """Up to where it was read; None: it is read as a whole when it has changed."""
    waits: bool = False
    """Its last line had no end, and was not read."""
    gone: Time = 0
    """When it was found to be gone; 0: it is there. Its sessions stay."""


decode_source = decoder(Source, "the record of an imported file")


def version_of(format: str) -> str:
    """What reads a format: another release, or another revision of a reader, reads all files once more."""
    return f"{clew.__version__}/{REVISIONS.get(format, 1)}"


# -- names of records


@cache
def machine() -> str:
    """A short name of this machine, from which its id cannot be told."""
    found = ""
    for path in _MACHINE_IDS:
        try:
            found = Path(path).read_text().strip()
        except (OSError, ValueError):
            continue
        if found:
            break
    return blake3(f"clew ledger {found or platform.node()}".encode(errors="replace")).hexdigest(6)


def record_of(path: str) -> str:
    """The name of the record of a file of this machine."""
    return f"{machine()}:{name_of(path)}"


def path_in(record: str) -> str:
    """The path that a record is about, on whatever machine."""
    return path_of(record if record.startswith("/") else record.partition(":")[2])


def name_of(path: str) -> str:
    """A path as text that every backend can keep, whatever bytes it has."""
    return _ODD.sub(lambda found: f"%{ord(found[0]) & 0xFF:02X}", path) if _ODD.search(path) else path


def path_of(name: str) -> str:
    if "%" not in name:
        return name

    def plain(found: re.Match[str]) -> str:
        code = int(found[1], 16)
        return chr(code if code < 0x80 else 0xDC00 + code)

    return _ESCAPED.sub(plain, name)


# -- places


class Places:
    """Where readers stopped in files that were followed a short while ago: newer than what the store has, so
    that what a reader needs is not written for each line."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._kept: dict[str, tuple[bytes, PlaceOf, Place]] = {}

    def find(self, record: str, raw: bytes) -> tuple[PlaceOf, Place] | None:
        """`raw`: the record as it is in the store. If another process wrote it, what is kept here is old."""
        known = self._kept.get(record)
        return None if known is None or known[0] != raw else known[1:]

    def keep(self, record: str, raw: bytes, place: PlaceOf, full: Place) -> None:
        self._kept.pop(record, None)
        self._kept[record] = raw, place, full
        if len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]


def marks_of(path: str, offset: int) -> tuple[str, str] | None:
    """The digests of a file that tell whether it has only grown; None: it cannot be read, or is too short."""
    try:
        with open_file(Path(path), 0) as file:
            if os.fstat(file.fileno()).st_size < offset:
                return None
            head = os.pread(file.fileno(), min(HEAD, offset), 0)
            first = max(offset - TAIL, 0)
            tail = os.pread(file.fileno(), offset - first, first)
    except OSError:
        return None
    if len(head) != min(HEAD, offset) or len(tail) != offset - first:
        return None
    return blake3(head).hexdigest(16), blake3(tail).hexdigest(16)


def is_at(path: str, place: PlaceOf) -> bool:
    """Whether a file is as it was, up to a place."""
    return marks_of(path, place.offset) == (place.head, place.tail)
