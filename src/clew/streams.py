"""The streams beside a conversation: what a handle on a session can do with events and usage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeVar, overload

from clew.backends.contract import Transaction
from clew.core.conversation.points import Point
from clew.core.log.ids import check_id
from clew.errors import InvalidQueryError
from clew.handle import Handle
from clew.model import Event, EventCounts, Json, Usage, UsageGroup, UsageKey, UsageTotals

if TYPE_CHECKING:
    from clew.core.streams import usage

T = TypeVar("T")

_MOST: Final = 2**63 - 1


class Streams(Handle):
    """Events and usage of a session. Neither is part of the conversation, and neither rewinds."""

    # -- events

    def add_event(self, type: str, data: Json = None, *, stream: str = "", id: str | None = None) -> Event:
        """Keep a small record beside the conversation.

        Args:
            type: What happened.
            data: Any JSON value.
            stream: Tells several sequences of events of one session apart.
            id: Names this event. A second one with the same id, type, stream and data is not written:
                the first one comes back, so it is safe to repeat after a failure.
        """
        return self._scope.run(self._adding_event(type, data, stream=stream, id=id))

    def _adding_event(
        self, type: str, data: Json, *, stream: str, id: str | None
    ) -> Callable[[Transaction], Event]:
        """The operation that adds this event, checked; for whoever commits it."""
        from clew.core.streams import events

        draft = events.draft_of(type, data, stream, id)
        access, now = self._access, self._scope.now()
        return lambda tx: events.add(tx, access, [draft], now)[0]

    def add_events(self, events: Sequence[Mapping[str, Json]]) -> list[Event]:
        """Add several events, all of them or none; one comes back for each.

        Each is a mapping with "type", and "data", "stream" and "id" as `add_event` has them.
        """
        work = self._adding_events(events)
        return [] if work is None else self._scope.run(work)

    def _adding_events(
        self, given: Sequence[Mapping[str, Json]]
    ) -> Callable[[Transaction], list[Event]] | None:
        """The operation that adds these events, checked; for whoever commits it. None: nothing to do."""
        from clew.core.streams import events

        drafts = events.drafts_of(given)
        if not drafts:
            return None
        access, now = self._access, self._scope.now()
        return lambda tx: events.add(tx, access, drafts, now)

    def events(
        self, *, after: Event | int | None = None, stream: str | None = None, limit: int = 1000
    ) -> list[Event]:
        """Events in the order in which they came.

        Args:
            after: Only those after this event, or after its `cursor`.
            stream: Only those of this stream; "" for those of none.
            limit: How many at most.
        """
        from clew.core.streams import events

        start = _start(after.cursor if isinstance(after, Event) else after)
        if stream:
            check_id(stream, "stream")
        elif stream is not None and stream != "":
            raise InvalidQueryError(f"stream must be text, not {_shown(stream)}")
        most = _limit(limit)
        with self._look() as (reader, _):
            return events.read(reader, self._sid, start, stream, most)

    def count_events(self) -> EventCounts:
        """How many events there were and are, without reading them."""
        from clew.core.streams import events

        with self._look() as (reader, _):
            return events.counts(reader, self._sid)

    # -- usage

    def add_usage(
        self,
        *,
        model: str | None = None,
        vendor: str | None = None,
        endpoint: str | None = None,
        source: str | None = None,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        reasoning_tokens: int = 0,
        cost: Decimal | int | str | None = None,
        entry: Point | None = None,
        at: datetime | None = None,
        id: str | None = None,
    ) -> Usage:
        """Write down the tokens and the cost of one model call.

        Args:
            model: And `vendor`, `endpoint`: who was called; those of the session when not given.
            source: Who called: an agent, a summariser, a tool.
            input_tokens: The whole prompt, tokens read from or written to a cache included.
            output_tokens: The whole answer, reasoning included.
            cache_read_tokens: Those of the prompt that came from a cache.
            cache_write_tokens: Those of the prompt that were put into one.
            reasoning_tokens: Those of the answer that nobody sees.
            cost: In dollars, never a float. When not given, it is estimated by the price list of
                genai-prices (`pip install clew[prices]`), if that knows the model.
            entry: The entry that the call made.
            at: When, with a time zone; now when not given.
            id: Names this call. A second one with the same id and the same values is not written: the
                first one comes back, so it is safe to repeat after a failure.
        """
        from clew.core.streams import usage
        from clew.core.streams import usage as calls

        draft = calls.draft_of(
            names={"model": model, "vendor": vendor, "endpoint": endpoint},
            tokens={
                "input_tokens": input_tokens,
                "output_tokens": output_tokens,
                "cache_read_tokens": cache_read_tokens,
                "cache_write_tokens": cache_write_tokens,
                "reasoning_tokens": reasoning_tokens,
            },
            source=source,
            cost=cost,
            at=at,
            id=id,
        )
        now = self._scope.now()
        return self._write(usage.add, draft, self._estimate(draft, now), entry, now)

    def _estimate(self, draft: usage.UsageDraft, now: int) -> usage.Estimate | None:
        """What the call costs by the price list, before any lock is taken: to load it takes long."""
        from clew.core.streams import usage

        if draft.cost is not None:
            return None
        from clew.core.streams import prices

        if not prices.is_available():
            return None
        with self._look() as (reader, _):
            names = usage.names_of(reader, self._sid, draft.names)
        return prices.price_of(self._scope, names, draft.counts, now if draft.time is None else draft.time)

    def usage_records(self, *, after: Usage | int | None = None, limit: int = 1000) -> list[Usage]:
        """The calls of this session in the order in which they were written down.

        `after`: only those after this one, or after its `number`.
        """
        from clew.core.streams import usage

        start = _start(after.number if isinstance(after, Usage) else after)
        most = _limit(limit)
        with self._look() as (reader, _):
            return usage.read(reader, self._sid, start, most)

    @overload
    def usage(
        self, *, by: None = None, since: datetime | None = None, until: datetime | None = None
    ) -> UsageTotals: ...
    @overload
    def usage(
        self, *, by: UsageKey, since: datetime | None = None, until: datetime | None = None
    ) -> dict[UsageGroup, UsageTotals]: ...
    def usage(
        self, *, by: UsageKey | None = None, since: datetime | None = None, until: datetime | None = None
    ) -> UsageTotals | dict[UsageGroup, UsageTotals]:
        """Sums over the calls of this session; those of the session it was forked from are not its own.

        Args:
            by: One sum for each model, vendor, endpoint, source, day (UTC), workspace, session or branch.
            since: Only calls at this time or later.
            until: Only calls before this time.
        """
        from clew.core.streams import usage

        first, end = usage.span_of(by, since, until)
        with self._look() as (reader, _):
            return usage.session_totals(reader, self._sid, by, first, end)


def _shown(value: object) -> str:
    from clew.core.streams.usage import shown  # seldom needed

    return shown(value)


def _start(after: int | None) -> int:
    if after is None:
        return 0
    if isinstance(after, bool) or not isinstance(after, int) or after < 0:
        raise InvalidQueryError(f"after must be a number from 0 on, or what came back, not {_shown(after)}")
    return min(after, _MOST)


def _limit(limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidQueryError(f"limit must be a number from 1 on, not {_shown(limit)}")
    return min(limit, _MOST)
