"""The ledger of sources: which files were imported, how they looked, and what came of them.

One record for each file, store-wide, named by its path. A file that looks as its record says is not read
again. The record is written after the sessions of the file: one that is missing costs a read, and none ever
claims what is not there.

It is about this machine, so `copy`, `repair` and session files leave it behind; the copy then reads all files
once. `Source` may grow: a field that an older version does not know is passed over by it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

import clew
from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.load.entries import batch_name
from clew.core.log.records import Count, Time, decoder
from clew.core.log.rows import SessionRow
from clew.errors import CorruptError
from clew.importers import REVISIONS
from clew.importers.contract import Problem
from clew.importers.reading.seen import OnList, Seen, Stamp, is_same

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike

LONGEST: Final = 1000
"""Characters of a name: a longer path is read each time."""
PROBLEMS: Final = 20
"""So many problems of a file are remembered, and the number of the others."""
_AT_ONCE: Final = 256
"""Records in one transaction."""
_ODD: Final = re.compile("[%\udc80-\udcff]")
_ESCAPED: Final = re.compile("%([0-9A-F]{2})")


class SessionOf(msgspec.Struct, frozen=True, array_like=True):
    """A session that came of a file."""

    sid: Count
    """Its number in this store, which no other session ever gets,"""
    id: str
    parent: str | None = None
    is_copy: bool = False
    batches: Count = 0
    """In how many parts its entries came."""


class ProblemOf(msgspec.Struct, frozen=True, array_like=True):
    path: str
    line: int | None
    reason: str


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


_decode = decoder(Source, "the record of an imported file")
_encode = msgspec.json.Encoder().encode


def version_of(format: str) -> str:
    """What reads a format: another release, or another revision of a reader, reads all files once more."""
    return f"{clew.__version__}/{REVISIONS.get(format, 1)}"


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


class Ledger:
    """The records of one store, while files are imported into it. `is_trusted`: False reads every file again,
    and writes new records."""

    def __init__(self, engine: EngineLike, *, is_trusted: bool = True) -> None:
        self._engine = engine
        self._is_trusted = is_trusted
        backend = getattr(engine, "backend", None)
        self._may_lose = backend is not None and backend.capabilities.durability == "process"
        self._known: dict[str, bytes] = {}
        self._below: list[str] = []
        """Directories of which all records are known."""
        self._fresh: dict[str, tuple[bytes, list[int]]] = {}
        """Records that are not written yet, and the sessions that they name."""

    def look_below(self, folder: str) -> None:
        """All records of a directory, in one go."""
        if not self._is_trusted:
            return
        first = name_of(folder.rstrip(os.sep) + os.sep)
        with self._engine.read() as reader:
            self._known.update(reader.scan_records(STORE_WIDE, "source", first, first + "\U0010ffff"))
        self._below.append(first)

    def find(self, path: str) -> Source | None:
        """The record of a file; None: there is none, or none that can be read."""
        name = name_of(path)
        value = self._known.get(name)
        if value is None and not name.startswith(tuple(self._below)):
            with self._engine.read() as reader:
                value = reader.get_record(STORE_WIDE, "source", name)
        try:
            return None if value is None else _decode(value)
        except CorruptError:
            return None  # it costs a read

    def unchanged(self, path: str, format: str | None, listed: Callable[[str], OnList]) -> Source | None:
        """The record of a file that need not be read: everything it was read from is as it was, and so is the
        reader. `format`: what the caller says it is. `listed`: see `is_same`, for a format."""
        source = self.find(path) if self._is_trusted else None
        if source is None or not source.is_settled or source.error:
            return None
        if source.format != format if format is not None else not source.is_sure:
            return None
        if source.reader != version_of(source.format) or not source.seen:
            return None
        if path_of(source.seen[0].path) != path:
            return None
        ask = listed(source.format)
        try:
            return source if all(is_same(_plain(stamp), ask) for stamp in source.seen) else None
        except Exception:  # noqa: BLE001 (a list that a reader cannot read: the file is read, and it says so)
            return None

    def rows(self, sources: Iterable[Source]) -> dict[int, SessionRow]:
        """The sessions of these files that are still here, those in the trash too."""
        found: dict[int, SessionRow] = {}
        with self._engine.read() as reader:
            for source in sources:
                for session in source.sessions:
                    row = reader.get_session(session.sid)
                    if row is not None and row.id == session.id and self._is_whole(reader, session):
                        found[row.sid] = row
        return found

    def _is_whole(self, reader: Reader, session: SessionOf) -> bool:
        """Whether the last part of it is there. Only where a loss of power may take what was acknowledged can
        it be missing, while the record of its file is there."""
        if not self._may_lose or not session.batches:
            return True
        return reader.get_record(session.sid, "key", batch_name(session.batches)) is not None

    def keep(
        self,
        path: str,
        format: str,
        seen: Seen,
        sessions: Sequence[SessionOf],
        problems: Sequence[Problem],
        *,
        is_sure: bool,
        error: str,
    ) -> None:
        """Remember a file, whose sessions are in the store by now. It is written with the next `flush`."""
        told = tuple(ProblemOf(one.path, one.line, one.reason) for one in problems[:PROBLEMS])
        source = Source(
            format=format,
            reader=version_of(format),
            at=self._engine.now(),
            seen=tuple(_named(stamp) for stamp in seen.stamps),
            is_settled=seen.is_settled,
            is_sure=is_sure,
            sessions=tuple(sessions),
            problems=told,
            more_problems=len(problems) - len(told),
            error=error,
        )
        name = name_of(path)
        try:
            value = _encode(source)
        except (UnicodeEncodeError, ValueError):
            return  # something in it has no UTF-8: then it is read again
        if len(name) <= LONGEST:
            self._fresh[name] = value, [session.sid for session in sessions]

    @property
    def is_full(self) -> bool:
        return len(self._fresh) >= _AT_ONCE

    def flush(self, engine: EngineLike) -> None:
        """Write what was kept since the last time, to the store that the sessions went to."""
        if self._fresh:
            engine.run(self._write)
            self._fresh = {}

    def _write(self, tx: Transaction) -> None:
        """A session knows its records, so that a purge finds them. One that was purged meanwhile has none."""
        for name, (value, sids) in self._fresh.items():
            if any(tx.get_session(sid) is None for sid in sids):
                continue
            tx.put_record(STORE_WIDE, "source", name, value)
            for sid in sids:
                tx.put_record(sid, "source", name, b"")


def problems_of(path: str, source: Source) -> list[Problem]:
    """What could not be read of a file when it was read last."""
    found = [Problem(path=one.path, line=one.line, reason=one.reason) for one in source.problems]
    if source.more_problems:
        found.append(Problem(path=path, line=None, reason=f"and {source.more_problems:,} more like these"))
    return found


def _named(stamp: Stamp) -> Stamp:
    name = name_of(stamp.path)
    return stamp if name == stamp.path else msgspec.structs.replace(stamp, path=name)


def _plain(stamp: Stamp) -> Stamp:
    path = path_of(stamp.path)
    return stamp if path == stamp.path else msgspec.structs.replace(stamp, path=path)
