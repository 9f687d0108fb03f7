"""`Upkeep` for tasks. What each method promises is written there."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from clew.core.retention.maintenance import Maintenance
from clew.model import Removal, Retention, SweepReport

if TYPE_CHECKING:
    from clew.aio.bridge import Bridge
    from clew.store import Store


class AsyncUpkeep:
    """As `Upkeep`, with `await`, also for `retention`; but `maintain` is a plain method here too."""

    _store: Store
    _bridge: Bridge

    @property
    def retention(self) -> Awaitable[Retention]:
        return self._bridge.call(lambda: self._store.retention)

    async def set_retention(self, rules: Retention) -> None:
        await self._bridge.call(self._store.set_retention, rules)

    async def sweep(
        self, *, rules: Retention | None = None, dry_run: bool = False, scrub: bool = False
    ) -> SweepReport:
        return await self._bridge.call(self._store.sweep, rules=rules, dry_run=dry_run, scrub=scrub)

    def maintain(self, *, every: float = 300.0) -> Maintenance:
        return self._store.maintain(every=every)

    async def removals(self, *, limit: int = 100) -> list[Removal]:
        return await self._bridge.call(self._store.removals, limit=limit)
