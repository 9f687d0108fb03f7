"""Usage: tokens and money of model calls, and their sums."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final, get_args

from clew.backends.contract import Reader, Transaction
from clew.core.conversation.points import Point, resolve
from clew.core.log.ids import entry_id
from clew.core.log.rows import NOWHERE, SessionRow, UsageRow, UsageSum
from clew.core.runs.access import Access, admit_beside
from clew.core.streams.calls import Counts, Estimate, Names, UsageDraft, moment
from clew.core.streams.money import amount_of
from clew.errors import (
    CheckpointNotFoundError,
    EntryNotFoundError,
    InvalidError,
    InvalidQueryError,
    KeyReusedError,
)
from clew.model import Usage, UsageGroup, UsageKey, UsageTotals, utc

MOST_IN_ALL: Final = 2**63 - 1
"""What storage can hold as a number."""
_NOWHERE: Final = (0, NOWHERE)


def names_of(reader: Reader, sid: int, given: Names) -> Names:
    """Who was called: what was given, else what the session says."""
    if None not in (given.model, given.vendor, given.endpoint):
        return given
    details = reader.get_details(sid)
    return Names(
        details.model if given.model is None else given.model,
        details.vendor if given.vendor is None else given.vendor,
        details.endpoint if given.endpoint is None else given.endpoint,
    )


def add(
    tx: Transaction,
    access: Access,
    draft: UsageDraft,
    estimate: Estimate | None,
    entry: Point | None,
    now: int,
) -> Usage:
    """Write a call down. One whose id is known already is not written again."""
    row = admit_beside(tx, access)
    known = None if draft.id is None else tx.find_usage(row.sid, draft.id)
    if known is not None:
        if not (_agrees(known, draft) and _is_at(tx, row, known, entry)):
            raise KeyReusedError(row.id, draft.id or "", "usage id")
        return _usages_of(tx, [known])[0]
    names = names_of(tx, row.sid, draft.names) if estimate is None else estimate.names
    place = _NOWHERE if entry is None else _place_of(tx, row, entry)
    added = row_after(tx.last_usage(row.sid), draft, estimate, names, place, now)
    tx.add_usage(row.sid, added)
    return _usages_of(tx, [added])[0]


def _agrees(row: UsageRow, draft: UsageDraft) -> bool:
    """Whether all that was given is what was written down. What was not given may have become
    something else since: the model of the session, the time, the price list."""
    stored = (row.model, row.vendor, row.endpoint, row.source, row.time)
    given = (draft.names.model, draft.names.vendor, draft.names.endpoint, draft.source, draft.time)
    if any(wanted is not None and wanted != found for wanted, found in zip(given, stored, strict=True)):
        return False
    if draft.cost is not None and (draft.cost != row.cost or row.priced_by is not None):
        return False
    return draft.counts == Counts(row.input, row.output, row.cache_read, row.cache_write, row.reasoning)


def _is_at(reader: Reader, row: SessionRow, known: UsageRow, entry: Point | None) -> bool:
    """Whether a call belongs to this entry. A position means another entry after a rewind, and an
    entry may have been purged since: neither makes a repeated call another one."""
    if entry is None or isinstance(entry, int):
        return True
    try:
        return resolve(reader, row, entry) == (known.branch, known.position)
    except CheckpointNotFoundError:
        return known.branch != 0


def _place_of(reader: Reader, row: SessionRow, entry: Point) -> tuple[int, int]:
    try:
        place = resolve(reader, row, entry)
    except CheckpointNotFoundError as exc:
        raise EntryNotFoundError(row.id, entry) from exc
    if place == _NOWHERE:
        raise EntryNotFoundError(row.id, entry)
    return place


def row_after(
    last: UsageRow | None,
    draft: UsageDraft,
    estimate: Estimate | None,
    names: Names,
    place: tuple[int, int],
    now: int,
) -> UsageRow:
    """The call with its number, and the sums up to it."""
    counts = draft.counts
    cost, priced_by = draft.cost, None
    if cost is None and estimate is not None:
        cost, priced_by = estimate.cost, estimate.priced_by
    row = UsageRow(
        number=1 + (last.number if last else 0),
        time=now if draft.time is None else draft.time,
        id=draft.id,
        model=names.model,
        vendor=names.vendor,
        endpoint=names.endpoint,
        source=draft.source,
        branch=place[0],
        position=place[1],
        input=counts.input,
        output=counts.output,
        cache_read=counts.cache_read,
        cache_write=counts.cache_write,
        reasoning=counts.reasoning,
        cost=cost,
        priced_by=priced_by,
        all_input=counts.input + (last.all_input if last else 0),
        all_output=counts.output + (last.all_output if last else 0),
        all_cache_read=counts.cache_read + (last.all_cache_read if last else 0),
        all_cache_write=counts.cache_write + (last.all_cache_write if last else 0),
        all_reasoning=counts.reasoning + (last.all_reasoning if last else 0),
        all_cost=(cost or 0) + (last.all_cost if last else 0),
        all_unpriced=(cost is None) + (last.all_unpriced if last else 0),
        all_estimated=(priced_by is not None) + (last.all_estimated if last else 0),
    )
    _check_sums(row)
    return row


def _check_sums(row: UsageRow) -> None:
    for name in ("input", "output", "cache_read", "cache_write", "reasoning", "cost"):
        total = getattr(row, f"all_{name}")
        if total > MOST_IN_ALL:
            what, shown = ("cost", amount_of(total)) if name == "cost" else (f"{name}_tokens", total)
            raise InvalidError(f"{what}: the session would have {shown} in all, too much to be counted")


def read(reader: Reader, sid: int, after: int, limit: int) -> list[Usage]:
    return _usages_of(reader, reader.read_usage(sid, after, limit))


def _usages_of(reader: Reader, rows: list[UsageRow]) -> list[Usage]:
    uids = {branch: _uid(reader, branch) for branch in {row.branch for row in rows}}
    return [_usage_of(row, uids[row.branch]) for row in rows]


def _uid(reader: Reader, branch: int) -> str | None:
    try:
        return reader.get_branch(branch).uid if branch else None
    except KeyError:  # purged, with the session whose entry it was
        return None


def _usage_of(row: UsageRow, uid: str | None) -> Usage:
    return Usage(
        number=row.number,
        at=utc(row.time),
        model=row.model,
        vendor=row.vendor,
        endpoint=row.endpoint,
        source=row.source,
        entry=None if uid is None else entry_id(uid, row.position),
        input_tokens=row.input,
        output_tokens=row.output,
        cache_read_tokens=row.cache_read,
        cache_write_tokens=row.cache_write,
        reasoning_tokens=row.reasoning,
        cost=None if row.cost is None else amount_of(row.cost),
        estimated=row.priced_by is not None,
        priced_by=row.priced_by,
        id=row.id,
    )


# -- sums


def session_totals(
    reader: Reader, sid: int, by: UsageKey | None, since: int | None, until: int | None
) -> UsageTotals | dict[UsageGroup, UsageTotals]:
    """Sums over the calls of a session; those over all of them are kept with the last one."""
    if by is None and since is None and until is None:
        last = reader.last_usage(sid)
        return UsageTotals() if last is None else _totals_up_to(last)
    return _totals(reader, sid, by, since, until)


def store_totals(
    reader: Reader, by: UsageKey | None, since: int | None, until: int | None
) -> UsageTotals | dict[UsageGroup, UsageTotals]:
    """Sums over the calls of all sessions."""
    return _totals(reader, None, by, since, until)


def span_of(
    by: UsageKey | None, since: datetime | None, until: datetime | None
) -> tuple[int | None, int | None]:
    """Check what to sum over: the bounds in microseconds."""
    if by is not None and by not in get_args(UsageKey):
        raise InvalidQueryError(f"by must be one of {', '.join(get_args(UsageKey))}, not {by!r}")
    return (
        None if since is None else moment(since, "since", InvalidQueryError),
        None if until is None else moment(until, "until", InvalidQueryError),
    )


def _totals(
    reader: Reader, sid: int | None, by: UsageKey | None, since: int | None, until: int | None
) -> UsageTotals | dict[UsageGroup, UsageTotals]:
    sums = reader.sum_usage(sid, by, since, until)
    if by is None:
        return _totals_of(sums[0]) if sums else UsageTotals()
    return {_group(by, found.group): _totals_of(found) for found in sums}


def _group(by: UsageKey, group: str | None) -> UsageGroup:
    return date.fromisoformat(group) if by == "day" and group is not None else group


def _totals_of(found: UsageSum) -> UsageTotals:
    return UsageTotals(
        calls=found.calls,
        input_tokens=found.input,
        output_tokens=found.output,
        cache_read_tokens=found.cache_read,
        cache_write_tokens=found.cache_write,
        reasoning_tokens=found.reasoning,
        cost=amount_of(found.cost),
        unpriced=found.unpriced,
        estimated=found.estimated,
    )


def _totals_up_to(row: UsageRow) -> UsageTotals:
    return UsageTotals(
        calls=row.number,
        input_tokens=row.all_input,
        output_tokens=row.all_output,
        cache_read_tokens=row.all_cache_read,
        cache_write_tokens=row.all_cache_write,
        reasoning_tokens=row.all_reasoning,
        cost=amount_of(row.all_cost),
        unpriced=row.all_unpriced,
        estimated=row.all_estimated,
    )
