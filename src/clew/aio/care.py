"""`Care` and `copy` for tasks. What each promises is written there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from clew.core.transfer.copy import copy
from clew.model.transfer import BackupReport, CopyReport, OnCopyConflict, OnCopyProgress, RepairReport

if TYPE_CHECKING:
    from clew.aio.bridge import Bridge
    from clew.aio.store import AsyncStore
    from clew.store import Store

AsyncPlace: TypeAlias = "AsyncStore | Store | str | os.PathLike[str]"


async def copy_async(
    src: AsyncPlace,
    dst: AsyncPlace,
    *,
    sessions: Sequence[str] | None = None,
    on_conflict: OnCopyConflict = "refuse",
    on_progress: OnCopyProgress | None = None,
) -> CopyReport:
    """As `clew.copy`, in a thread of its own, where `on_progress` is called too. Cancelling the await does
    not stop the copy."""
    work = partial(
        copy,
        _plain(src),
        _plain(dst),
        sessions=sessions,
        on_conflict=on_conflict,
        on_progress=on_progress,
    )
    return await asyncio.get_running_loop().run_in_executor(None, work)


def _plain(place: AsyncPlace) -> Store | str | os.PathLike[str]:
    from clew.aio.store import AsyncStore

    return place._store if isinstance(place, AsyncStore) else place


class AsyncCare:
    """As `Care`, with `await`. `on_progress` is called in another thread."""

    _store: Store
    _bridge: Bridge

    async def backup(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        on_progress: OnCopyProgress | None = None,
    ) -> BackupReport:
        return await self._bridge.call(self._store.backup, path, overwrite=overwrite, on_progress=on_progress)

    async def repair(
        self, *, to: str | os.PathLike[str], on_progress: OnCopyProgress | None = None
    ) -> RepairReport:
        return await self._bridge.call(self._store.repair, to=to, on_progress=on_progress)

    async def vacuum(self) -> int:
        return await self._bridge.call(self._store.vacuum)
