"""Reads, in the sections of the contract: sessions, log, records, streams, objects, texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from clew.backends.contract import OnDamage, Reader, RecordKind
from clew.backends.damage import (
    damage_of,
    list_sound,
    nameless,
    names_in,
    only_named,
    only_sound,
    stray,
    text_of,
    unknown_kinds,
)
from clew.backends.postgres import sql
from clew.backends.postgres.blobs import Blobs, ObjectGoneError
from clew.backends.postgres.rows import (
    EARLIEST,
    LATEST,
    BytesColumn,
    IntColumn,
    Row,
    encode,
    entry_from,
    event_from,
    facet_hash,
    home_of,
    session_from,
    sound_session,
    usage_from,
)
from clew.backends.postgres.write_buffer import RowCache
from clew.backends.rows import FACETS, body_of, counted, limited, missing, pack_content, within
from clew.backends.text_scan import is_match
from clew.core.log import checks
from clew.core.log.digest import checksum
from clew.core.log.records import MAX_POSITION, PARENT
from clew.core.log.rows import (
    MESSAGE,
    NOWHERE,
    BranchRow,
    Damaged,
    Details,
    EntryRow,
    EventRow,
    HeadRow,
    Listed,
    ObjectPlace,
    PackInfo,
    SessionColumn,
    SessionName,
    SessionQuery,
    SessionRow,
    Totals,
    UsageColumn,
    UsageRow,
    UsageSum,
)
from clew.core.messages.codec import decode_json, encode_json
from clew.core.messages.search_text import TextPlace, TextQuery
from clew.errors import (
    BackendUnavailableError,
    BranchMissingError,
    CorruptEntryError,
    CorruptError,
    CorruptSessionError,
)
from clew.model import Json

ENTRIES_AT_ONCE: Final = 5000
"""Entries of one answer at most: an answer is in memory as a whole."""
NAMES_AT_ONCE: Final = 1000
"""Names of objects that one question looks up."""
LINEAGE_AT_ONCE: Final = 1000
"""Branches, each the parent of the one before, that one question reads. Fewer than the cache holds."""
PLACES_AT_ONCE: Final = 1000
"""Places of texts that one question reads at most."""
TRIES: Final = 5
NO_END: Final = 2**63


class Bounds:
    """How many bytes may still be read."""

    __slots__ = ("is_reached", "room")

    def __init__(self, room: int | None) -> None:
        self.room = room
        self.is_reached = False


class PostgresReader(Reader):
    """`Reader`. A subclass says how a question reaches the server (`ask`)."""

    def __init__(self, cache: RowCache, blobs: Blobs | None) -> None:
        self._cache = cache
        self._blobs = blobs
        self._above = 0
        """The parent of the branch that was read last. A caller that asks for it next walks up a lineage."""

    def ask(self, template: str, *given: Any) -> list[Row]:
        """The rows that answer a statement."""
        raise NotImplementedError

    # -- sessions

    def find_session(self, id: str, *, deleted: bool = False) -> SessionRow | None:
        if deleted:
            return next(map(self._seen, self.ask(sql.FIND_DELETED, encode(id))), None)
        for _ in range(TRIES):  # between the two looks the id may have come to stand for another session
            names = self.ask(sql.FIND_NAME, encode(id))
            if not names:
                return None
            row = self.get_session(names[0][0])
            if row is not None and row.id == id and row.deleted is None:
                return row
        return None

    def get_session(self, sid: int) -> SessionRow | None:
        rows = self.ask(sql.GET_SESSION, home_of(sid), sid)
        return self._seen(rows[0]) if rows else None

    def _seen(self, row: Row) -> SessionRow:
        session = sound_session(row)
        self._cache.note(session, row[-1])
        return session

    def get_details(self, sid: int) -> Details:
        rows = self.ask(sql.GET_DETAILS, home_of(sid), sid)
        if rows:
            return checks.details(self._name_of(sid), rows[0][0])
        if not self.ask(sql.GET_SESSION, home_of(sid), sid):
            return Details()  # it was purged
        raise CorruptSessionError(self._name_of(sid), "its settings are lost")

    def _name_of(self, sid: int) -> str:
        """The id of a session, for messages about its damage."""
        rows = self.ask(sql.GET_SESSION, home_of(sid), sid)
        return checks.shown_id(session_from(rows[0])) if rows else f"{checks.STANDS_FOR_ID}{sid})"

    def list_sessions(self, query: SessionQuery) -> list[Listed]:
        def ask(limit: int) -> list[Row]:
            template, given = sql.listing(msgspec.structs.replace(query, limit=limit))
            return self.ask(template, *given)

        return list_sound(ask, session_from, query)

    def scan_ids(self, first: str, limit: int, *, own: bool = False) -> list[SessionName]:
        if own:
            return names_in(self.ask(sql.OWN_IDS, encode(first), limit))
        found = [name for part in sql.IDS for name in names_in(self.ask(part, encode(first), limit))]
        found.sort(key=lambda name: (name.id.encode(), name.sid))
        return found[:limit]

    def damaged_sessions(self) -> list[Damaged]:
        rows = self.ask(sql.ALL_SESSIONS)
        return [bad for row in rows if (bad := damage_of(session_from(row), row[-1])) is not None]

    def due_sessions(self, before: int, limit: int, *, after: tuple[int, int] = (-1, 0)) -> list[SessionRow]:
        return only_sound(lambda most: self.ask(sql.DUE_SESSIONS, before, *after, most), session_from, limit)

    def tree_sessions(self, tree: int) -> list[SessionRow]:
        return [self._seen(row) for row in self.ask(sql.TREE_SESSIONS, home_of(tree), tree)]

    def count_by(self, column: SessionColumn, *, deleted: bool = False) -> dict[str, int]:
        if column == "workspace":
            rows = self.ask(sql.COUNT_WORKSPACES[deleted])
        elif column == "status":
            rows = self.ask(sql.COUNT_STATUSES[deleted])
        else:
            return self._count_facets(column, deleted=deleted)
        return counted(column, ((value, many) for value, many in rows))

    def _count_facets(self, column: SessionColumn, *, deleted: bool) -> dict[str, int]:
        parts = (sql.COUNT_TRASHED_FACETS,) if deleted else (sql.COUNT_TRASHED_FACETS, sql.COUNT_FACETS)
        trash, *every = (
            counted(column, ((value, many) for value, many in self.ask(part, encode(FACETS[column]))))
            for part in parts
        )
        if deleted:
            return trash
        return {value: left for value, many in every[0].items() if (left := many - trash.get(value, 0)) > 0}

    def find_subagents(self, parents: Sequence[str]) -> list[tuple[str, SessionName]]:
        asked = list(dict.fromkeys(parents))
        values = [encode_json(parent).decode() for parent in asked]
        rows = self.ask(
            sql.FIND_SUBAGENTS,
            IntColumn(range(len(asked))),
            IntColumn([facet_hash(PARENT, value) for value in values]),
            BytesColumn([encode(value) for value in values]),
            encode(PARENT),
        )
        return [(asked[row[0]], name) for row in rows for name in names_in([row[1:]])]

    def totals(self, since: int, *, log: bool = True) -> Totals:
        rows = self.ask(sql.TOTALS, since)
        kept = [row for row in rows if row[1]]
        ((messages, entries, size),) = self.ask(sql.BRANCH_TOTALS) if log else ((0, 0, 0),)
        return Totals(
            sessions=sum(row[2] for row in kept),
            deleted=sum(row[2] for row in rows if not row[1]),
            kept_size=int(sum(row[5] for row in kept)),
            messages=int(messages),
            entries=int(entries),
            size=int(size),
            by_status={row[0]: row[2] for row in kept},
            active={row[0]: row[3] for row in kept if row[3]},
            created=sum(row[4] for row in rows),
        )

    # -- log

    def get_branch(self, branch: int) -> BranchRow:
        known = self._cache.branch(branch)
        if known is None:
            if branch == self._above:
                rows = self.ask(sql.LINEAGE, home_of(branch), branch, LINEAGE_AT_ONCE)
            else:
                rows = self.ask(sql.GET_BRANCH, home_of(branch), branch)
            if not rows:
                raise BranchMissingError(branch)
            known = checks.branch(BranchRow(*rows[0]))
            self._cache.note_branch(known)
            self._note_lineage(known, rows[1:])
        return known

    def _note_lineage(self, row: BranchRow, above: list[Row]) -> None:
        """Cache the parents of a branch, up to the first damaged one, which is reported when it is read."""
        for values in above:
            try:
                row = checks.branch(BranchRow(*values))
            except CorruptError:
                break
            self._cache.note_branch(row)
        self._above = row.parent

    def find_branch(self, uid: str) -> BranchRow | None:
        return next((checks.branch(BranchRow(*row)) for row in self.ask(sql.FIND_BRANCH, uid)), None)

    def tree_branches(self, tree: int) -> list[BranchRow]:
        return [checks.branch(BranchRow(*row)) for row in self.ask(sql.TREE_BRANCHES, home_of(tree), tree)]

    def branch_numbers(self, sid: int, tree: int) -> list[int]:
        return [branch for (branch,) in self.ask(sql.BRANCH_NUMBERS, sid, tree)]

    def last_position(self, branch: int) -> int:
        ((last,),) = self.ask(sql.LAST_POSITION, home_of(branch), branch)
        return NOWHERE if last is None else int(last)

    def get_tip(self, branch: int, position: int) -> HeadRow | None:
        if not 0 <= position <= MAX_POSITION:
            return None
        rows = self.ask(sql.GET_TIP, home_of(branch), branch, position)
        return checks.tip(HeadRow(branch, position, *rows[0])) if rows else None

    def get_entry(self, branch: int, position: int) -> EntryRow | None:
        if not 0 <= position <= MAX_POSITION:
            return None
        rows = self.ask(sql.GET_ENTRY, home_of(branch), branch, position)
        return entry_from(self.get_branch(branch).uid, rows[0]) if rows else None

    def read_entries(
        self,
        branch: int,
        first: int,
        last: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
        room: int | None = None,
        on_damage: OnDamage | None = None,
    ) -> list[EntryRow]:
        first, last = limited(first, last, limit, reverse=reverse)
        if last < first:
            return []
        return within(room, self._entries(branch, first, last, reverse=reverse, on_damage=on_damage))

    def _entries(
        self, branch: int, first: int, last: int, *, reverse: bool, on_damage: OnDamage | None
    ) -> Iterator[EntryRow]:
        uid = self.get_branch(branch).uid
        for start, end in _ranges(first, last, reverse=reverse):
            rows = {row[2]: row for row in self.ask(sql.ENTRIES, home_of(branch), branch, start, end)}
            for position in range(end, start - 1, -1) if reverse else range(start, end + 1):
                try:
                    if position not in rows:
                        raise missing(uid, position)
                    entry = entry_from(uid, rows[position])
                except CorruptEntryError as damage:
                    if on_damage is None:
                        raise
                    on_damage(damage)
                else:
                    yield entry

    def read_messages(
        self,
        branch: int,
        first: int,
        last: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
        room: int | None = None,
        on_damage: OnDamage | None = None,
    ) -> list[tuple[int, dict[str, Json]]]:
        found: list[tuple[int, dict[str, Json]]] = []
        bounds = Bounds(room)
        for start, end in _ranges(first, last, reverse=reverse):
            left = None if limit is None else limit - len(found)
            if (left is not None and left <= 0) or bounds.is_reached:
                break
            self._read_range(found, branch, start, end, reverse, left, bounds, on_damage)
        return found

    def _read_range(
        self,
        found: list[tuple[int, dict[str, Json]]],
        branch: int,
        first: int,
        last: int,
        reverse: bool,
        limit: int | None,
        bounds: Bounds,
        on_damage: OnDamage | None,
    ) -> None:
        """A damaged message does not count: then more have to be read, behind the last one seen."""
        wanted = None if limit is None else len(found) + limit
        while first <= last:
            left = None if wanted is None else wanted - len(found)
            statement = sql.MESSAGES_BACKWARDS if reverse else sql.MESSAGES
            rows = self.ask(statement, home_of(branch), branch, first, last, left)
            self._decode(found, branch, rows, bounds, on_damage)
            if wanted is None or len(found) >= wanted or len(rows) < (left or 0) or bounds.is_reached:
                return
            first, last = (first, rows[-1][0] - 1) if reverse else (rows[-1][0] + 1, last)

    def _decode(
        self,
        found: list[tuple[int, dict[str, Json]]],
        branch: int,
        rows: list[Row],
        bounds: Bounds,
        on_damage: OnDamage | None,
    ) -> None:
        left = NO_END if bounds.room is None else bounds.room
        add, check, decode = found.append, checksum, decode_json  # a long loop
        for position, time, flags, codec, recorded, blob in rows:
            message = None
            body = blob
            if not codec and check(blob, position, time, MESSAGE, codec, flags) == recorded:
                with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    message = decode(blob)
            if type(message) is not dict:
                try:
                    uid = self.get_branch(branch).uid
                    body = body_of(uid, position, MESSAGE, time, flags, codec, recorded, blob)
                    message = checks.message(uid, position, body)
                except CorruptEntryError as damage:
                    if on_damage is None:
                        raise
                    on_damage(damage)
                    continue
            add((position, message))
            left -= len(body)
            if left <= 0:
                bounds.is_reached = True
                return
        bounds.room = None if bounds.room is None else left

    def count_entries(self, branch: int, first: int, last: int, kind: int) -> int:
        ((count,),) = self.ask(sql.COUNT_ENTRIES, home_of(branch), branch, first, last, kind)
        return int(count)

    # -- records

    def get_record(self, sid: int, kind: RecordKind, name: str) -> bytes | None:
        rows = self.ask(sql.GET_RECORD, home_of(sid), sid, kind, encode(name))
        return rows[0][0] if rows else None

    def scan_records(
        self,
        sid: int,
        kind: RecordKind,
        first: str = "",
        last: str | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> list[tuple[str, bytes]]:
        behind = () if last is None else (encode(last),)
        statement = sql.SCAN_BACKWARDS if reverse else sql.SCAN_RECORDS
        if last is not None:
            statement = sql.SCAN_RANGE_BACKWARDS if reverse else sql.SCAN_RANGE
        home = home_of(sid)

        def ask(wanted: int) -> Any:
            return self.ask(
                statement, home, sid, kind, encode(first), None if wanted < 0 else wanted, *behind
            )

        return only_named(ask, limit)

    # -- streams

    def event_bounds(self, sid: int) -> tuple[int, int]:
        ((first, last),) = self.ask(sql.EVENT_BOUNDS, home_of(sid), sid)
        return (1, 0) if first is None else (first, last)

    def find_event(self, sid: int, id: str) -> EventRow | None:
        return next(map(event_from, self.ask(sql.FIND_EVENT, home_of(sid), sid, encode(id))), None)

    def read_events(self, sid: int, after: int, limit: int, stream: str | None = None) -> list[EventRow]:
        given = (home_of(sid), sid, min(after, LATEST), limit)
        if stream:
            rows = self.ask(sql.READ_STREAM, *given, encode(stream))
        else:
            rows = self.ask(sql.READ_EVENTS if stream is None else sql.READ_UNNAMED, *given)
        return [event_from(row) for row in rows]

    def last_usage(self, sid: int) -> UsageRow | None:
        return next(map(usage_from, self.ask(sql.LAST_USAGE, home_of(sid), sid)), None)

    def last_usages(self, sids: Sequence[int]) -> dict[int, UsageRow]:
        rows = self.ask(sql.LAST_USAGES, IntColumn([home_of(sid) for sid in sids]), IntColumn(sids))
        return {row[0]: usage_from(row[1:]) for row in rows}

    def find_usage(self, sid: int, id: str) -> UsageRow | None:
        return next(map(usage_from, self.ask(sql.FIND_USAGE, home_of(sid), sid, encode(id))), None)

    def read_usage(self, sid: int, after: int, limit: int) -> list[UsageRow]:
        rows = self.ask(sql.READ_USAGE, home_of(sid), sid, min(after, LATEST), limit)
        return [usage_from(row) for row in rows]

    def sum_usage(
        self,
        sid: int | None,
        by: Sequence[UsageColumn] = (),
        since: int | None = None,
        until: int | None = None,
    ) -> list[UsageSum]:
        times = (EARLIEST if since is None else since, LATEST if until is None else until)
        template = sql.sum_usage(tuple(by), of_session=sid is not None)
        rows = self.ask(template, *times, *(() if sid is None else (home_of(sid), sid)))
        return [UsageSum(text_of(row[: len(by)]), *map(int, row[len(by) :])) for row in rows]

    # -- objects

    def find_objects(self, names: Sequence[bytes]) -> dict[bytes, ObjectPlace]:
        found = {}
        for first in range(0, len(names), NAMES_AT_ONCE):
            rows = self.ask(sql.FIND_OBJECTS, list(names[first : first + NAMES_AT_ONCE]))
            found.update({row[0]: checks.place(row[0], ObjectPlace(*row[1:])) for row in rows})
        return found

    def scan_objects(self, after: bytes, limit: int) -> list[tuple[bytes, ObjectPlace]]:
        rows = self.ask(sql.SCAN_OBJECTS, after, limit)
        return [(row[0], checks.place(row[0], ObjectPlace(*row[1:]))) for row in rows]

    def get_pack(self, pack: int) -> bytes:
        size, codec, recorded, blob = self._stored_pack(pack)
        return pack_content(pack, size, codec, blob, recorded)

    def _stored_pack(self, pack: int) -> tuple[int, int, int, bytes]:
        """Size, codec, checksum and bytes, wherever they lie."""
        rows = self.ask(sql.GET_PACK, pack)
        if not rows:
            raise KeyError(pack)
        ((size, codec, recorded, blob, outside),) = rows
        if outside is None:
            return size, codec, recorded, blob
        if self._blobs is None:
            raise BackendUnavailableError(
                f"pack {pack} is in an object store: open this store with ?blobs= and the address of that one"
            )
        try:
            return size, codec, recorded, self._blobs.get(outside)
        except ObjectGoneError as exc:
            if not self.ask(sql.GET_PACK, pack):
                raise KeyError(pack) from None  # it was dropped just now
            place = f"{self._blobs.address}/{exc}"
            raise CorruptError(f"pack {pack} is damaged: its object {place} is missing") from exc

    def list_packs(self, after: int, limit: int) -> list[PackInfo]:
        return [checks.pack(PackInfo(*row)) for row in self.ask(sql.LIST_PACKS, after, limit)]

    # -- texts

    def unsearched_trees(self) -> list[int]:
        return [tree for (tree,) in self.ask(sql.UNSEARCHED)]

    def searched_upto(self, branch: int) -> int:
        rows = self.ask(sql.SEARCHED_UPTO, home_of(branch), branch)
        return int(rows[0][0]) if rows else NOWHERE

    def find_texts(self, query: TextQuery) -> list[TextPlace]:
        """Where the words alone do not decide, the text itself is read."""
        found: list[TextPlace] = []
        sure = sql.is_sure(query.query)
        asked = query
        while len(found) < query.limit:
            statement, given = sql.finding(asked)
            rows = self.ask(statement, *given)
            for time, branch, position, slices in rows:
                place = TextPlace(time, branch, position)
                if (sure and slices == 1) or is_match(self, place, query):
                    found.append(place)
            if len(rows) < asked.limit:
                break
            last = TextPlace(*rows[-1][:3])
            asked = msgspec.structs.replace(asked, before=last, limit=min(asked.limit * 2, PLACES_AT_ONCE))
        return found[: query.limit]

    # -- damage of the storage itself

    def damage(self, *, full: bool, go_on: Callable[[], None]) -> Iterable[str]:
        """Pages and indices are the server's, which has checksums for them."""
        for what, owner, template in sql.STRAYS if full else ():
            go_on()
            ((count,),) = self.ask(template)
            if count:
                yield stray(count, what, owner)
        if full:
            go_on()
            yield from unknown_kinds(kind for (kind,) in self.ask(sql.RECORD_KINDS))
            go_on()
            yield from nameless(self.ask(sql.ODD_NAMES))


def _ranges(first: int, last: int, *, reverse: bool = False) -> Iterator[tuple[int, int]]:
    """Positions first..last in pieces that an answer can hold."""
    first = max(first, 0)
    starts = range(first, last + 1, ENTRIES_AT_ONCE)
    for start in reversed(starts) if reverse else starts:
        yield start, min(start + ENTRIES_AT_ONCE - 1, last)
