"""`Porting` for tasks. What each method promises is written there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clew.aio.bridge import Bridge

if TYPE_CHECKING:
    from clew.errors import InvalidError
    from clew.model.source import Loaded, SourceSession
    from clew.model.transfer import ExportFormat, ImportFormat, ImportReport, OnImportProgress
    from clew.store import Store


class AsyncPorting:
    """Export and import, with `await`."""

    _store: Store
    _bridge: Bridge

    async def export(
        self, id: str, format: ExportFormat, *, path: str | os.PathLike[str] | None = None, **options: Any
    ) -> str:
        return await self._bridge.call(self._store.export, id, format, path=path, **options)

    async def import_path(
        self,
        path: str | os.PathLike[str],
        format: ImportFormat | None = None,
        *,
        dry_run: bool = False,
        rename: bool = False,
        strict: bool = False,
        on_progress: OnImportProgress | None = None,
    ) -> ImportReport:
        return await self._bridge.call(
            self._store.import_path,
            path,
            format,
            dry_run=dry_run,
            rename=rename,
            strict=strict,
            on_progress=on_progress,
        )

    async def load(
        self,
        source: SourceSession,
        *,
        dry_run: bool = False,
        rename: bool = False,
        on_refused: Callable[[str, InvalidError], None] | None = None,
    ) -> Loaded:
        return await self._bridge.call(
            self._store.load, source, dry_run=dry_run, rename=rename, on_refused=on_refused
        )
