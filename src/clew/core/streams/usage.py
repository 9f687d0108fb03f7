"""Model calls: their tokens and money, checked on the way in."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Final, TypeAlias

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.conversation.points import Point, resolve
from clew.core.engine.notices import RECENT, notice
from clew.core.log.ids import check_id, check_time, entry_id, shown
from clew.core.log.keys import given_id
from clew.core.log.rows import NOWHERE, SessionRow, UsageRow
from clew.core.runs.access import Access, require_write_beside
from clew.errors import (
    CheckpointNotFoundError,
    EntryNotFoundError,
    InvalidError,
    KeyReusedError,
)
from clew.model import Usage, utc

# ── Money: exact decimals outside, whole numbers of millionths of a millionth inside ──────────────
# Whole numbers add up exactly on every backend. Nothing here depends on the decimal context of the
# caller's thread, which may round, or raise.

Money: TypeAlias = Decimal | int | str
"""An amount as a caller may give it."""

PLACES: Final = 12
MOST: Final = 1_000_000
"""Every amount is below this one."""
_DIGITS_BEFORE_POINT: Final = 6


def units_of(amount: Money, what: str = "cost") -> int:
    """The amount in units of 10^-12; `what` names it in errors."""
    if isinstance(amount, bool) or not isinstance(amount, Money):
        raise InvalidError(f"{what}: money is a Decimal, an int or a text, never a float: {shown(amount)}")
    value = _decimal(amount, what)
    if not value.is_finite():
        raise InvalidError(f"{what} must be a finite amount, not {shown(amount)}")
    if not value:
        return 0
    if value.is_signed():
        raise InvalidError(f"{what} must not be negative: {shown(amount)}")
    if value.adjusted() >= _DIGITS_BEFORE_POINT:
        raise InvalidError(f"{what} must be below {MOST:,}, not {shown(amount)}")
    _, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits))
    written = text.rstrip("0")
    places = len(text) - len(written) + int(exponent)
    if places < -PLACES:
        raise InvalidError(f"{what} has more than {PLACES} decimal places: {shown(amount)}")
    return int(written + "0" * (places + PLACES))


def amount_of(units: int) -> Decimal:
    """The amount, exactly, without needless zeros behind the point."""
    exponent = -PLACES
    while exponent < 0 and units % 10 == 0:
        units //= 10
        exponent += 1
    return Decimal((0, tuple(map(int, str(units))), exponent))


def _decimal(amount: Money, what: str) -> Decimal:
    if isinstance(amount, str):
        try:
            return Decimal(amount)
        except InvalidOperation as exc:
            raise InvalidError(f"{what} is not a number: {shown(amount)}") from exc
    if isinstance(amount, int) and not -MOST < amount < MOST:
        raise InvalidError(f"{what} must be below {MOST:,}, not {shown(amount)}")
    return Decimal(amount)


# ── A model call as a caller gives it: checked at the door, before any lock is taken ──────────────

MOST_TOKENS: Final = 2**53
"""Of one call: what every reader of JSON can still tell exactly."""


class Names(msgspec.Struct, frozen=True, gc=False):
    """Who was called."""

    model: str | None
    vendor: str | None
    endpoint: str | None


class Counts(msgspec.Struct, frozen=True, gc=False):
    """The tokens of one call."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int

    def tokens(self) -> dict[str, int]:
        """By the names that the public surface gives them."""
        return {f"{name}_tokens": getattr(self, name) for name in self.__struct_fields__}


class UsageDraft(msgspec.Struct, frozen=True, gc=False):
    """A call that was found good, and has no number yet. None: not given."""

    names: Names
    counts: Counts
    source: str | None
    cost: int | None
    time: int | None
    id: str | None


class Estimate(msgspec.Struct, frozen=True, gc=False):
    """What a price list says that a call cost."""

    names: Names
    """Who was called, as far as it was known when the price was looked up."""
    cost: int
    priced_by: str


def draft_of(
    *,
    names: dict[str, str | None],
    tokens: dict[str, int],
    source: str | None,
    cost: Money | None,
    at: datetime | None,
    id: str | None,
) -> UsageDraft:
    """Check a call. `tokens` has the fields of `Counts`, by the names of the parameters."""
    for name, text in {**names, "source": source, "id": id}.items():
        if text is not None:
            check_id(text, name)
    return UsageDraft(
        Names(**names),
        Counts(*(_checked_count(name, count) for name, count in tokens.items())),
        source,
        None if cost is None else units_of(cost),
        None if at is None else check_time(at, "at"),
        id,
    )


def _checked_count(name: str, count: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_TOKENS:
        raise InvalidError(f"{name} must be a number from 0 to 2**53, not {shown(count)}")
    return int(count)


# ── Usage: tokens and money of model calls, and their sums ────────────────────────────────────────

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
    row = require_write_beside(tx, access)
    known = None if draft.id is None else tx.find_usage(row.sid, draft.id)
    if known is not None:
        if not (_agrees(known, draft) and _is_at(tx, row, known, entry)):
            raise KeyReusedError(row.id, draft.id or "", "usage id")
        return _usages_of(tx, [known])[0]
    names = names_of(tx, row.sid, draft.names) if estimate is None else estimate.names
    place = _NOWHERE if entry is None else _place_of(tx, row, entry)
    added = row_after(tx.last_usage(row.sid), draft, estimate, names, place, now)
    tx.add_usage(row.sid, added)
    if row.updated < now - RECENT:
        notice(tx, row.sid, now)  # it does not count as activity, where watchers look
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
        id=given_id(row.id),
    )
