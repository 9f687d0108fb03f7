"""Events and model calls of another program's session: each once, with its own time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from operator import attrgetter
from typing import Final

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.load.entries import is_plain_name, sealed, time_of
from clew.core.log.ids import is_id
from clew.core.log.rows import NO_TIME, NOWHERE, Details, EventRow, SessionRow, UsageRow
from clew.core.messages.codec import encode_json
from clew.core.redact.incoming import Incoming
from clew.core.streams.prices import Billing
from clew.core.streams.usage import (
    Counts,
    Estimate,
    Money,
    Names,
    UsageDraft,
    amount_of,
    draft_of,
    row_after,
    units_of,
)
from clew.errors import ClewError, InvalidError
from clew.model.source import SourceEvent, SourceUsage

# -- events


def drafts_of(
    events: Iterable[SourceEvent], *, decoded: bool = False, redactor: Incoming | None = None
) -> list[EventRow]:
    """Events that can be kept, still without a number, and without definite secrets: a name that is too long
    must not cost a whole batch. `decoded`: their data came out of a decoder of JSON."""
    found = []
    for event in events:
        if _is_name(event.id) and _is_name(event.type) and (not event.stream or _is_name(event.stream)):
            try:
                data = sealed(event.data, decoded) or encode_json(event.data, what="data", strict=False)
            except ClewError:
                continue
            if redactor is not None:
                data = redactor.body(data)
            found.append(EventRow(0, time_of(event.at, NO_TIME), event.stream, event.type, event.id, data))
    return found


def _is_name(text: str) -> bool:
    return is_plain_name(text) or is_id(text)


class EventWriter:
    """Writes the events of one load. As long as no other writer adds some, it knows all that are there."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._last = 0
        self._knows_all = True
        self._written: tuple[list[str], int] | None = None

    def begin(self) -> None:
        """A transaction begins, or begins once more."""
        self._written = None

    def add(self, tx: Transaction, sid: int, drafts: Sequence[EventRow], now: int) -> int:
        """Add those that are not there; how many. What it learned counts when `commit` is called."""
        last = tx.event_bounds(sid)[1]
        before, expected = self._written or ([], self._last)
        self._knows_all = self._knows_all and last == expected
        here = {*before}
        fresh: dict[str, EventRow] = {}
        for draft in drafts:
            id = draft.id
            if id is None or id in fresh or id in self._ids or id in here:
                continue
            if not self._knows_all and tx.find_event(sid, id) is not None:
                continue
            time = now if draft.time == NO_TIME else draft.time
            fresh[id] = EventRow(last + len(fresh) + 1, time, draft.stream, draft.type, id, draft.data)
        if fresh:
            tx.add_events(sid, list(fresh.values()))
        self._written = [*before, *fresh], last + len(fresh)
        return len(fresh)

    def commit(self) -> None:
        """The transaction came to its end."""
        if self._written is not None:
            ids, self._last = self._written
            self._ids.update(ids)
            self._written = None


# -- model calls

_NO_PLACE: Final = (0, NOWHERE)
_TOKENS: Final = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"
)  # fmt: skip

_counts = attrgetter(*_TOKENS)


def larger(a: SourceUsage | None, b: SourceUsage) -> SourceUsage:
    """A call is told of again and again while it goes on: the one that counts most is the whole."""
    return b if a is None or sum(_counts(b)) > sum(_counts(a)) else a


class CallWriter:
    """Writes the calls of one load down, each once. What one of the `others` has counted, the parent session
    or a copy, is not counted again. As long as no other writer adds some, it knows all that are there."""

    def __init__(self, others: Sequence[str], on_refused: Callable[[str, InvalidError], None]) -> None:
        self._others = others
        self._on_refused = on_refused
        self._ids: set[str | None] = set()
        self._last: UsageRow | None = None
        self._knows_all = True
        self._written: tuple[set[str | None], UsageRow | None] | None = None

    def unpriced(
        self,
        reader: Reader,
        row: SessionRow | None,
        details: Details,
        calls: Iterable[SourceUsage],
        otherwise: int,
    ) -> dict[str, tuple[Names, Counts, int, Billing]]:
        """Those of the calls that are new and of which the source does not tell what they cost: by their
        ids, what a price list must know. `row`: None, if the session is not there yet. `otherwise`: the time
        of a call that has none."""
        others = self._rows(reader, row)
        sid = 0 if row is None or reader.last_usage(row.sid) is None else row.sid
        found: dict[str, tuple[Names, Counts, int, Billing]] = {}
        for call in calls:
            if _is_told(call) or call.is_sum or call.id in found or call.id in self._ids:
                continue
            if any(reader.find_usage(sid, call.id) is not None for sid in others):
                continue
            try:
                draft = _draft(call, details, [] if not sid else _counted(reader, sid, call.id))
            except InvalidError:
                continue  # it is told when it is written
            if draft is not None and draft.names.model is not None:
                time = time_of(call.at, 0) or (otherwise if row is None else max(row.updated, otherwise))
                billing = Billing(call.cache_write_1h_tokens, call.mode)
                found[call.id] = draft.names, Counts(*_counts(call)), time, billing
        return found

    def add(
        self,
        tx: Transaction,
        row: SessionRow,
        calls: Sequence[tuple[SourceUsage, tuple[int, int] | None]],
        prices: Mapping[str, Estimate],
    ) -> bool:
        """Calls with the places of their entries; whether there was a new one. What it learned counts when
        `commit` is called."""
        others = self._rows(tx, row)
        details = tx.get_details(row.sid)
        before = last = tx.last_usage(row.sid)
        self._knows_all = self._knows_all and last == self._last
        fresh: set[str | None] = set()
        for call, place in calls:
            if any(tx.find_usage(sid, call.id) is not None for sid in others):
                continue
            if call.id in fresh or call.id in self._ids:
                continue
            try:
                new = self._row(tx, row, call, details, place or _NO_PLACE, last, prices.get(call.id))
            except InvalidError as error:
                self._on_refused(call.id, error)
                continue
            if new is not None and new.id not in fresh and new.id not in self._ids:
                fresh.add(new.id)
                tx.add_usage(row.sid, new)
                last = new
        self._written = fresh, last
        return last is not before

    def _rows(self, reader: Reader, own: SessionRow | None) -> list[int]:
        found = (reader.find_session(id) for id in self._others)
        return [row.sid for row in found if row is not None and (own is None or row.sid != own.sid)]

    def _row(
        self,
        tx: Transaction,
        row: SessionRow,
        call: SourceUsage,
        details: Details,
        place: tuple[int, int],
        last: UsageRow | None,
        estimate: Estimate | None,
    ) -> UsageRow | None:
        """The call as it is written down; None: there is nothing new in it."""
        known = [] if self._knows_all else _counted(tx, row.sid, call.id)
        draft = _draft(call, details, known)
        if draft is None:
            return None
        if estimate is not None and draft.cost is not None:
            draft = msgspec.structs.replace(draft, cost=None)  # see _is_told
        if estimate is not None and known:
            rest = max(0, estimate.cost - sum(part.cost or 0 for part in known))
            estimate = Estimate(estimate.names, rest, estimate.priced_by)
        return row_after(last, draft, estimate, draft.names, place, row.updated)

    def commit(self) -> None:
        """The transaction came to its end."""
        if self._written is not None:
            ids, self._last = self._written
            self._ids |= ids
            self._written = None


def _is_told(call: SourceUsage) -> bool:
    """Whether the source tells what a call cost. Programs write 0 when they do not know the price: that is
    believed only if the price list does not know it either."""
    try:
        return call.cost is not None and Decimal(call.cost) != 0
    except InvalidOperation:
        return True  # what is wrong with it is told when it is written


def _counted(reader: Reader, sid: int, id: str) -> list[UsageRow]:
    """What was written down of a call so far, part by part."""
    found: list[UsageRow] = []
    while (part := reader.find_usage(sid, _part(id, len(found)))) is not None:
        found.append(part)
    return found


def _part(id: str, number: int) -> str:
    return id if number == 0 else f"{id}+rest" if number == 1 else f"{id}+rest{number}"


def _draft(call: SourceUsage, details: Details, known: Sequence[UsageRow]) -> UsageDraft | None:
    """A call that is not known yet, or what is lacking of one: it was going on when it was loaded, or it is
    the sum of all calls of a session that went on since."""
    tokens = {name: getattr(call, name) for name in _TOKENS}
    cost: Money | None = call.cost
    if known:
        for row in known:
            had = (row.input, row.output, row.cache_read, row.cache_write, row.reasoning)
            tokens = {name: tokens[name] - number for name, number in zip(_TOKENS, had, strict=True)}
        tokens = {name: max(0, number) for name, number in tokens.items()}
        if cost is not None:
            cost = amount_of(max(0, units_of(cost) - sum(row.cost or 0 for row in known)))
        if not any(tokens.values()) and not cost:
            return None
    return draft_of(
        names={
            "model": call.model or details.model,
            "vendor": call.vendor or details.vendor,
            "endpoint": call.endpoint or details.endpoint,
        },
        tokens=tokens,
        source=call.source,
        cost=cost,
        at=call.at,
        id=_part(call.id, len(known)),
    )
