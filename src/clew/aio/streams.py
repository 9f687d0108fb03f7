"""`Streams` for tasks. What each method promises is written there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import overload

from clew.aio.bridge import Bridge
from clew.core.conversation.points import Point
from clew.model import Event, EventCounts, Json, Usage, UsageGroup, UsageKey, UsageTotals
from clew.session import Session


class AsyncStreams:
    """Events and usage of a session, with `await`."""

    _bridge: Bridge
    _session: Session

    async def add_event(
        self, type: str, data: Json = None, *, stream: str = "", id: str | None = None
    ) -> Event:
        return await self._bridge.commit(self._session._adding_event(type, data, stream=stream, id=id))

    async def add_events(self, events: Sequence[Mapping[str, Json]]) -> list[Event]:
        work = self._session._adding_events(events)
        return [] if work is None else await self._bridge.commit(work)

    async def events(
        self, *, after: Event | int | None = None, stream: str | None = None, limit: int = 1000
    ) -> list[Event]:
        return await self._bridge.call(self._session.events, after=after, stream=stream, limit=limit)

    async def count_events(self) -> EventCounts:
        return await self._bridge.call(self._session.count_events)

    async def add_usage(
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
        return await self._bridge.call(
            self._session.add_usage,
            model=model,
            vendor=vendor,
            endpoint=endpoint,
            source=source,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=cache_read_tokens,
            cache_write_tokens=cache_write_tokens,
            reasoning_tokens=reasoning_tokens,
            cost=cost,
            entry=entry,
            at=at,
            id=id,
        )

    async def usage_records(self, *, after: Usage | int | None = None, limit: int = 1000) -> list[Usage]:
        return await self._bridge.call(self._session.usage_records, after=after, limit=limit)

    @overload
    async def usage(
        self, *, by: None = None, since: datetime | None = None, until: datetime | None = None
    ) -> UsageTotals: ...
    @overload
    async def usage(
        self, *, by: UsageKey, since: datetime | None = None, until: datetime | None = None
    ) -> dict[UsageGroup, UsageTotals]: ...
    async def usage(
        self, *, by: UsageKey | None = None, since: datetime | None = None, until: datetime | None = None
    ) -> UsageTotals | dict[UsageGroup, UsageTotals]:
        return await self._bridge.call(lambda: self._session.usage(by=by, since=since, until=until))
