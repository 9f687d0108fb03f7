"""Rows that cannot be, among others: what backends do with them and say of them, the same for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, get_args

from clew.backends.contract import RecordKind
from clew.core.log import checks
from clew.core.log.records import MAX_TITLE, MOST, STATUS_COUNT
from clew.core.log.rows import (
    EMPTY,
    PENDING,
    Damaged,
    Details,
    Listed,
    SessionName,
    SessionQuery,
    SessionRow,
    UsageSum,
)
from clew.errors import CorruptError, CorruptSessionError

Row: TypeAlias = tuple[Any, ...]
Ask: TypeAlias = Callable[[int], Sequence[Row]]
"""Takes how many rows are wanted at most."""
Convert: TypeAlias = Callable[[Row], SessionRow]


def only_sound(ask: Ask, convert: Convert, limit: int) -> list[SessionRow]:
    """As many rows as are asked for, without the damaged ones."""
    wanted = limit
    while True:
        rows = ask(wanted)
        found = []
        for row in rows:
            try:
                found.append(checks.session(convert(row)))
            except CorruptSessionError:
                continue
        if len(found) >= limit or len(rows) < wanted:
            return found[:limit]
        wanted *= 2


def list_sound(ask: Ask, convert: Convert, query: SessionQuery) -> list[Listed]:
    """The same for rows that end with details and run; the damaged ones are marked, if they are asked for."""
    wanted = query.limit
    while True:
        rows = ask(wanted)
        found = []
        for row in rows:
            session = convert(row)
            try:
                found.append(Listed(checks.session(session), checks.details(session.id, row[-2]), row[-1]))
            except CorruptSessionError as error:
                if query.damaged:
                    behind = _behind(session.deleted if query.deleted else session.updated, session.id)
                    found.append(Listed(believable(session), Details(), None, error.reason, behind))
        if len(found) >= query.limit or len(rows) < wanted:
            return found[: query.limit]
        wanted *= 2


def names_in(rows: Iterable[Row]) -> list[SessionName]:
    """The ids, which come as bytes, without those that are no text."""
    found = []
    for id, sid, deleted in rows:
        try:
            found.append(SessionName(id.decode(), sid, bool(deleted)))
        except (UnicodeDecodeError, AttributeError):
            continue
    return found


def only_named(ask: Ask, limit: int | None) -> list[tuple[str, bytes]]:
    """As many records as are asked for, without those whose name, which comes as bytes, is no text."""
    wanted = limit
    while True:
        rows = ask(-1 if wanted is None else wanted)
        found = []
        for name, value in rows:
            try:
                found.append((name.decode(), value))
            except (UnicodeDecodeError, AttributeError):
                continue
        if limit is None or wanted is None or len(found) >= limit or len(rows) < wanted:
            return found[:limit]
        wanted *= 2


def sound_sums(rows: Iterable[Row], columns: int) -> list[UsageSum]:
    """Sums over calls, without those that are damaged. Each row: the columns of its group as bytes, five
    counts, the cost, whether that was estimated."""
    sums: dict[tuple[bytes | None, ...], list[int]] = {}
    for row in rows:
        group, (*counts, cost, estimated) = row[:columns], row[columns:]
        numbers = [*counts, 0 if cost is None else cost, cost is None, estimated]
        if all(isinstance(number, int) and number >= 0 for number in numbers):
            before = sums.get(group, [0] * (len(numbers) + 1))
            sums[group] = [one + other for one, other in zip(before, [1, *numbers], strict=True)]
    return [
        UsageSum(text_of(group), *sums[group])
        for group in sorted(sums, key=lambda group: [(one is not None, one or b"") for one in group])
    ]


def text_of(group: Iterable[bytes | None]) -> tuple[str | None, ...]:
    return tuple(None if one is None else one.decode(errors="replace") for one in group)


def damage_of(row: SessionRow, details: object) -> Damaged | None:
    """What is wrong with a session; None: nothing."""
    try:
        id = checks.session(row).id
        checks.metadata(id, checks.details(id, details))
    except CorruptSessionError as error:
        return Damaged(believable(row), error.reason)
    return None


def believable(row: SessionRow) -> SessionRow:
    """A row with what can be believed of it, and zeros and nothing in place of the rest. The times by which
    it is listed stay what they are: the next page begins behind them."""
    try:
        head = checks.tip(row.head)
    except CorruptError:
        head = EMPTY
    return SessionRow(
        sid=_number(row.sid),
        id=checks.shown_id(row),
        tree=_number(row.tree),
        created=_moment(row.created),
        updated=_moment(row.updated),
        deleted=None if row.deleted is None else _moment(row.deleted),
        head=head,
        grows=False,
        title=row.title if type(row.title) is str and len(row.title) <= MAX_TITLE else None,
        has_title=row.has_title is True,
        preview=row.preview if type(row.preview) is str else "",
        workspace=row.workspace if type(row.workspace) is str else None,
        status=row.status if type(row.status) is int and 0 <= row.status < STATUS_COUNT else PENDING,
        epoch=_number(row.epoch),
    )


def _behind(moment: object, id: object) -> tuple[int, str]:
    """The place in a list behind a row, whatever it holds."""
    return (_moment(moment), id) if isinstance(id, str) else (_moment(moment) - 1, "")


def _number(value: object) -> int:
    return value if type(value) is int and 0 <= value <= MOST else 0


def _moment(value: object) -> int:
    """A time by which storage sorts: what is no number comes before or behind all that are."""
    if isinstance(value, (int, float)):
        return max(min(int(value), MOST), -MOST)
    return -MOST if value is None else MOST


def stray(count: int, what: str, owner: str) -> str:
    """Of rows whose owner does not exist."""
    return f"{count} {what} belong to no {owner}: no read finds them"


def nameless(names: Iterable[tuple[Any]]) -> list[str]:
    """Of records, by the bytes of their names."""
    count = sum(not _is_text(name) for (name,) in names)
    return [f"{count} records have a name that is no text: no read finds them"] if count else []


def _is_text(name: object) -> bool:
    try:
        str(name, "utf-8")  # type: ignore[call-overload]
    except (UnicodeDecodeError, TypeError):
        return False
    return True


def unknown_kinds(kinds: Iterable[str]) -> list[str]:
    """Of records, by the kinds that are stored."""
    strange = sorted(set(kinds) - set(get_args(RecordKind)))
    return [f"records of the kind {kind!r} are not known here: no read finds them" for kind in strange]
