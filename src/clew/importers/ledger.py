"""The ledger of sources: which files were imported, how they looked, and what came of them.

One record for each file, store-wide, named by the machine and the path: machines that share a store have
files of the same names. A file that looks as its record says is not read again. One that has only grown since
is read from the place where the reader stopped: what the reader needs for that lies beside the first session
of the file, as it is larger than all else and seldom needed.

The record is written in the transaction that writes the last entries of its file, or after it: one that is
missing, or older, costs a read, and none ever claims what is not there.

It is about machines, so `copy`, `repair` and session files leave it behind; the copy then reads all files
once. `Source` may grow: a field that an older version does not know is passed over by it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from blake3 import blake3

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.load.entries import batch_name, count_names
from clew.core.log.rows import SessionRow
from clew.errors import CorruptError
from clew.importers.contract import Place, Problem
from clew.importers.reading.files import zstd
from clew.importers.reading.seen import Looking, OnList, Seen, Stamp
from clew.importers.records import (
    PlaceOf,
    Places,
    ProblemOf,
    SessionOf,
    Source,
    decode_source,
    is_at,
    marks_of,
    name_of,
    path_in,
    path_of,
    record_of,
    version_of,
)

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike

LONGEST: Final = 1000
"""Characters of a name: a longer path is read each time."""
PROBLEMS: Final = 20
"""So many problems of a file are remembered, and the number of the others."""
COLD: Final = 14 * 86400
"""Seconds. Where to go on in a file that was not written to for so long is not kept: it seldom grows."""
MOST_STATE: Final = 4 * 1024 * 1024
"""Bytes that a reader may need to go on."""
BEHIND: Final = 64 * 1024
"""So many bytes, and four times what the reader needs, the place in the store may lie behind the one that a
`Places` knows: what is read twice is known by its names."""
FEW: Final = 8
NEAR: Final = 1000
"""Records that are looked through for what a path belongs to."""
_AT_ONCE: Final = 256
"""Records in one transaction."""
_encode = msgspec.json.Encoder().encode


class Draft(NamedTuple):
    """A record on its way into the store."""

    path: str
    source: Source
    before: Source | None
    """What the store has."""
    place: tuple[PlaceOf, Place] | None = None
    """Where the reader stopped."""
    goes_on: bool = False
    """It went on from the place that the store has, or from a newer one."""


class Ledger:
    """The records of one store, while files are imported into it.

    Args:
        is_trusted: False reads every file again, and writes new records.
        is_sync: A last line without its end need not be read.
        places: Where readers stopped a short while ago.
    """

    def __init__(
        self,
        engine: EngineLike,
        *,
        is_trusted: bool = True,
        is_sync: bool = False,
        places: Places | None = None,
    ) -> None:
        self._engine = engine
        self.is_sync = is_sync
        self._is_trusted = self.is_trusted = is_trusted
        self._places = places
        backend = getattr(engine, "backend", None)
        self._may_lose = backend is not None and backend.capabilities.durability == "process"
        self._known: dict[str, bytes] = {}
        self._below: list[str] = []
        """Directories of which all records are known."""
        self._asked: set[str] = set()
        self._fresh: dict[str, Draft] = {}
        """Records that are not written yet."""
        self._looking = Looking()
        self._found: dict[str, tuple[tuple[int, int, int, bytes], Place]] = {}
        """Places that were found, and how their files looked then."""
        self._version_of = cache(version_of)

    # -- reading

    def look_below(self, folder: str) -> None:
        """All records of a directory, in one go."""
        if not self._is_trusted:
            return
        first = record_of(folder.rstrip(os.sep) + os.sep)
        with self._engine.read() as reader:
            self._known.update(reader.scan_records(STORE_WIDE, "source", first, first + "\U0010ffff"))
        self._below.append(first)

    def find(self, path: str) -> Source | None:
        """The record of a file; None: there is none, or none that can be read."""
        return self._find(record_of(path))

    def _find(self, record: str) -> Source | None:
        raw = self._raw(record)
        try:
            return None if raw is None else decode_source(raw)
        except CorruptError:
            return None  # it costs a read

    def _raw(self, record: str) -> bytes | None:
        value = self._known.get(record)
        if value is None and not record.startswith(tuple(self._below)):
            with self._engine.read() as reader:
                value = reader.get_record(STORE_WIDE, "source", record)
            if value is not None:
                self._known[record] = value
        return value

    def forget(self, path: str) -> None:
        """Ask the store again: another process has written to it."""
        record = record_of(path)
        self._known.pop(record, None)
        with self._engine.read() as reader:
            value = reader.get_record(STORE_WIDE, "source", record)
        if value is not None:
            self._known[record] = value

    def unchanged(self, path: str, format: str | None, listed: Callable[[str], OnList]) -> Source | None:
        """The record of a file that need not be read: everything it was read from is as it was, and so is the
        reader. `format`: what the caller says it is. `listed`: see `Looking`, for a format."""
        source = self._usable(path, format)
        if source is None or not source.is_settled or source.error or source.gone:
            return None
        if source.waits and not self.is_sync:
            return None
        is_same, ask = self._looking.is_same, listed(source.format)
        try:
            for stamp in source.seen:
                if not is_same(_plain(stamp), ask):
                    return None
        except Exception:  # noqa: BLE001 (a list that a reader cannot read: the file is read, and it says so)
            return None
        return source

    def grown(self, path: str, format: str | None, listed: Callable[[str], OnList]) -> Source | None:
        """The record of a file of which only what is new need be read. What a program keeps in directories
        beside it is looked up by the lines that name it: that one has changed, while the file has grown, is
        no reason to read all. Nor is the log of a database: its reader knows which rows are new."""
        source = self._usable(path, format)
        if source is None or source.place is None or source.error:
            return None
        is_as_before, *same = self._same(source, listed)
        logs = (f"{path}-wal", f"{path}-journal")
        for stamp, is_same in zip(source.seen[1:], same, strict=True):
            beside = path_of(stamp.path)
            if not is_same and beside not in logs and (is_as_before or not os.path.isdir(beside)):
                return None
        return source if self.place(path, source) is not None else None

    def _usable(self, path: str, format: str | None) -> Source | None:
        record = record_of(path)
        self._asked.add(record)
        source = self._find(record) if self._is_trusted else None
        if source is None or source.reader != self._version_of(source.format) or not source.seen:
            return None
        if source.format != format if format is not None else not source.is_sure:
            return None
        return source if path_of(source.seen[0].path) == path else None

    def _same(self, source: Source, listed: Callable[[str], OnList]) -> Iterator[bool]:
        ask = listed(source.format)
        for stamp in source.seen:
            try:
                yield self._looking.is_same(_plain(stamp), ask)
            except Exception:  # noqa: BLE001 (a list that a reader cannot read: the file is read, it says so)
                yield False

    def place(self, path: str, source: Source) -> Place | None:
        """Where to go on in a file; None: it is not as it was up to there."""
        record = record_of(path)
        raw = self._known.get(record)
        if source.place is None or raw is None:
            return None
        try:
            found = os.stat(path)
        except OSError:
            return None
        if found.st_ino != source.seen[0].inode:
            return None
        look = found.st_size, found.st_mtime_ns, found.st_ctime_ns, raw
        if path in self._found and self._found[path][0] == look:
            return self._found[path][1]
        place = self._place(path, record, raw, source, source.place)
        if place is not None:
            self._found[path] = look, place
        return place

    def _place(self, path: str, record: str, raw: bytes, source: Source, kept: PlaceOf) -> Place | None:
        newer = None if self._places is None else self._places.find(record, raw)
        if newer is not None and is_at(path, newer[0]):
            return newer[1]
        if not is_at(path, kept) or not source.sessions:
            return None
        with self._engine.read() as reader:
            packed = reader.get_record(source.sessions[0].sid, "source", record)
        state = None if packed is None else _unpacked(packed)
        if state is None or _digest(state) != kept.state:
            return None
        return Place(kept.offset, kept.lines, state)

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
        value = reader.get_record(session.sid, "key", batch_name(session.batches))
        return value is not None and (not session.names or count_names(value) >= session.names)

    @property
    def must_check_sessions(self) -> bool:
        """Whether a record may claim what is not there."""
        return self._may_lose

    @property
    def has_records(self) -> bool:
        """Whether one was found so far."""
        return bool(self._known)

    def children_of(self, ids: Iterable[str], below: Sequence[str]) -> list[str]:
        """Files of these directories that have a subagent of one of these sessions."""
        marks = {id: _encode(id) for id in ids}
        found = []
        for folder in below:
            self.look_below(folder)
        for record, raw in self._known.items():
            # Of many ids it is quicker to read the record.
            if len(marks) > FEW or any(mark in raw for mark in marks.values()):
                path = path_in(record)
                source = self.find(path)
                if source is not None and any(session.parent in marks for session in source.sessions):
                    found.append(path)
        return found

    def beside(self, path: str) -> list[str]:
        """Files of the same directory, and of the one above it, that were read together with this one."""
        found = []
        for folder in (os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
            first = record_of(folder.rstrip(os.sep) + os.sep)
            with self._engine.read() as reader:
                near = reader.scan_records(STORE_WIDE, "source", first, first + "\U0010ffff", limit=NEAR + 1)
            if len(near) > NEAR:
                break  # too many to look through for one path
            self._known.update(near)
            mark = _encode(name_of(path))[1:-1]
            for record, raw in near:
                source = self.find(path_in(record)) if mark in raw else None
                if source is not None and any(path_of(stamp.path) == path for stamp in source.seen[1:]):
                    found.append(path_in(record))
            if found:
                break
        return found

    def vanished(self) -> list[tuple[str, Source]]:
        """Files below the directories that were looked into, which are not there any more, and were when they
        were looked for last."""
        found = []
        for record in self._known.keys() - self._asked:
            path = path_in(record)
            if not is_gone(path):
                continue
            source = self.find(path)
            if source is not None and not source.gone:
                found.append((path, source))
        return sorted(found, key=lambda one: one[0])

    # -- writing

    def draft(
        self,
        path: str,
        format: str,
        seen: Seen,
        sessions: Sequence[SessionOf],
        problems: Sequence[Problem],
        *,
        is_sure: bool,
        error: str,
        place: Place | None = None,
        follows: Source | None = None,
    ) -> Draft:
        """What is to be remembered of a file. `follows`: only what is new since then was read."""
        if follows is not None:
            seen.go_on_from(_plain(stamp) for stamp in follows.seen)
            own = {session.sid: session for session in (*follows.sessions, *sessions)}
            sessions = list(own.values())
        known = () if follows is None else follows.problems
        told = (*known, *(ProblemOf(one.path, one.line, one.reason) for one in problems))
        more = (0 if follows is None else follows.more_problems) + max(len(told) - PROBLEMS, 0)
        marks = None if place is None else marks_of(path, place.offset)
        reached = None
        if place is not None and marks is not None:
            reached = PlaceOf(place.offset, place.lines, *marks, _digest(place.state)), place
        source = Source(
            format=format,
            reader=version_of(format),
            at=self._engine.now(),
            seen=tuple(_named(stamp) for stamp in seen.stamps),
            is_settled=seen.is_settled,
            is_sure=is_sure,
            sessions=tuple(sessions),
            problems=told[:PROBLEMS],
            more_problems=more,
            error=error,
            waits=place is not None and 0 < place.offset < seen.stamps[0].size,
        )
        before = self.find(path) if self._is_trusted else None
        return Draft(path, source, before, reached, goes_on=follows is not None)

    def keep(self, draft: Draft) -> None:
        """Write it with the next `flush`: its sessions are in the store by now."""
        self._fresh[record_of(draft.path)] = draft

    def keep_gone(self, path: str, source: Source) -> None:
        gone = msgspec.structs.replace(source, gone=self._engine.now())
        self._fresh[record_of(path)] = Draft(path, gone, source)

    @property
    def is_full(self) -> bool:
        return len(self._fresh) >= _AT_ONCE

    def flush(self, engine: EngineLike) -> None:
        """Write what was kept since the last time, to the store that the sessions went to."""
        changed = {record: draft for record, draft in self._fresh.items() if not _is_equal(draft)}
        self._fresh = {}
        if changed:
            written = engine.run(lambda tx: [self.write(tx, draft) for draft in changed.values()])
            for draft, raw in zip(changed.values(), written, strict=True):
                self.wrote(draft, raw)

    def write(self, tx: Transaction, draft: Draft) -> bytes | None:
        """The record, and beside the sessions what leads to it: so a purge finds it. None: it cannot be kept,
        or one of its sessions was purged meanwhile."""
        record = record_of(draft.path)
        source, before = draft.source, draft.before
        sids = [session.sid for session in source.sessions]
        if len(record) > LONGEST or any(tx.get_session(sid) is None for sid in sids):
            return None
        place, state = self._to_keep(draft)
        source = msgspec.structs.replace(source, place=place)
        try:
            raw = _encode(source)
        except (UnicodeEncodeError, ValueError):
            return None  # something in it has no UTF-8: then it is read again
        tx.put_record(STORE_WIDE, "source", record, raw)
        known = () if before is None else tuple(session.sid for session in before.sessions)
        if before is None:
            self._drop_unnamed(tx, draft.path, sids)
        for number, sid in enumerate(sids):
            if number == 0 and state is not None:
                tx.put_record(sid, "source", record, state)
            elif sid not in known or (number == 0 and place is None):
                tx.put_record(sid, "source", record, b"")
        return raw

    def wrote(self, draft: Draft, raw: bytes | None) -> None:
        """The transaction of `write` came to its end."""
        record = record_of(draft.path)
        if raw is None:
            self._known.pop(record, None)
            return
        self._known[record] = raw
        if self._places is not None and draft.place is not None:
            self._places.keep(record, raw, *draft.place)

    def _to_keep(self, draft: Draft) -> tuple[PlaceOf | None, bytes | None]:
        """The place that goes into the store, and what the reader needs there; None for the latter: what is
        there stays."""
        if draft.source.gone:
            return draft.source.place, None
        if draft.place is None or not draft.source.sessions:
            return None, None
        place, full = draft.place
        if len(full.state) >= MOST_STATE:
            return None, None
        stamp = draft.source.seen[0]
        if time.time() - stamp.changed / 1e9 > COLD:
            return None, None
        before = draft.before
        first = [session.sid for session in draft.source.sessions[:1]]
        is_there = before is not None and [session.sid for session in before.sessions[:1]] == first
        old = before.place if before is not None and is_there else None
        if (
            self._places is not None
            and draft.goes_on
            and old is not None
            and old.offset < place.offset < old.offset + max(BEHIND, 4 * len(full.state))
        ):
            return old, None
        return place, _packed(full.state)

    def _drop_unnamed(self, tx: Transaction, path: str, sids: Sequence[int]) -> None:
        """A record of a version that did not name the machine."""
        name = name_of(path)
        if tx.get_record(STORE_WIDE, "source", name) is not None:
            tx.drop_record(STORE_WIDE, "source", name)
            for sid in sids:
                tx.drop_record(sid, "source", name)


def is_gone(path: str) -> bool:
    """Whether there is surely no such file."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def problems_of(path: str, source: Source) -> list[Problem]:
    """What could not be read of a file when it was read last."""
    found = [Problem(path=one.path, line=one.line, reason=one.reason) for one in source.problems]
    if source.more_problems:
        found.append(Problem(path=path, line=None, reason=f"and {source.more_problems:,} more like these"))
    return found


def _is_equal(draft: Draft) -> bool:
    """Whether the store has all of it already."""
    before = draft.before
    if before is None or (draft.place is not None and draft.place[0] != before.place):
        return False
    return msgspec.structs.replace(draft.source, at=before.at, place=before.place) == before


def _named(stamp: Stamp) -> Stamp:
    name = name_of(stamp.path)
    return stamp if name == stamp.path else msgspec.structs.replace(stamp, path=name)


def _plain(stamp: Stamp) -> Stamp:
    return stamp if "%" not in stamp.path else msgspec.structs.replace(stamp, path=path_of(stamp.path))


def _digest(state: bytes) -> str:
    return blake3(state).hexdigest(16)


def _packed(state: bytes) -> bytes:
    return bytes(zstd().compress(state, 1))


def _unpacked(packed: bytes) -> bytes | None:
    try:
        return bytes(zstd().ZstdDecompressor().decompress(packed, MOST_STATE))
    except zstd().ZstdError:
        return None
