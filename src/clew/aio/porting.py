"""`Porting` for tasks. What each method promises is written there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from clew.aio.bridge import Bridge

if TYPE_CHECKING:
    from clew.model.porting import ExportFormat, ImportFormat, ImportReport
    from clew.store import Store


class AsyncPorting:
    """Export and import, with `await`."""

    _store: Store
    _bridge: Bridge

    async def export(
        self, id: str, format: ExportFormat, *, path: str | os.PathLike[str] | None = None
    ) -> str:
        return await self._bridge.call(self._store.export, id, format, path=path)

    async def import_path(
        self,
        path: str | os.PathLike[str],
        format: ImportFormat | None = None,
        *,
        dry_run: bool = False,
        rename: bool = False,
    ) -> ImportReport:
        return await self._bridge.call(self._store.import_path, path, format, dry_run=dry_run, rename=rename)
