"""`Searching` for tasks. What it promises is written there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from clew.aio.bridge import Bridge

if TYPE_CHECKING:
    from clew.model.search import SearchOrder, SearchPage, SearchRole
    from clew.store import Store


class AsyncSearching:
    """Search, with `await`."""

    _store: Store
    _bridge: Bridge

    async def search(
        self,
        query: str,
        *,
        role: SearchRole | None = None,
        session: str | None = None,
        workspace: str | os.PathLike[str] | None = None,
        tag: str | Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tools: bool = False,
        order: SearchOrder = "newest",
        limit: int = 20,
        cursor: str | None = None,
    ) -> SearchPage:
        return await self._bridge.call(
            self._store.search,
            query,
            role=role,
            session=session,
            workspace=workspace,
            tag=tag,
            since=since,
            until=until,
            tools=tools,
            order=order,
            limit=limit,
            cursor=cursor,
        )
