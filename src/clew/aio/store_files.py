"""`StoreFiles` for tasks. What each method promises is written there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clew.aio.bridge import Bridge
from clew.model.files import (
    FileDiff,
    GcReport,
    OnConflict,
    OnProgress,
    PendingRestore,
    RestoreReport,
    Snapshot,
    VerifyReport,
)
from clew.store_files import MOST_READ

if TYPE_CHECKING:
    from clew.files.snapshot.watch import Watch
    from clew.store import Store


class AsyncStoreFiles:
    """As `StoreFiles`, with `await`. `on_progress` is called in another thread."""

    _store: Store
    _bridge: Bridge

    async def snapshot(
        self,
        root: str | os.PathLike[str],
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        max_file_bytes: int | None = None,
        force: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Snapshot:
        return await self._bridge.call(
            self._store.snapshot,
            root,
            include=include,
            exclude=exclude,
            max_file_bytes=max_file_bytes,
            force=force,
            on_progress=on_progress,
        )

    def watch_files(self, root: str | os.PathLike[str], *, force: bool = False) -> Watch:
        return self._store.watch_files(root, force=force)

    async def snapshots(
        self, *, root: str | os.PathLike[str] | None = None, limit: int = 100
    ) -> list[Snapshot]:
        return await self._bridge.call(self._store.snapshots, root=root, limit=limit)

    async def get_snapshot(self, id: str) -> Snapshot:
        return await self._bridge.call(self._store.get_snapshot, id)

    async def read_file(self, snap: Snapshot | str, path: str, *, max_bytes: int = MOST_READ) -> bytes:
        return await self._bridge.call(self._store.read_file, snap, path, max_bytes=max_bytes)

    async def delete_snapshot(self, id: str) -> bool:
        return await self._bridge.call(self._store.delete_snapshot, id)

    async def restore(
        self,
        snap: Snapshot | str,
        root: str | os.PathLike[str] | None = None,
        *,
        paths: Sequence[str] | None = None,
        dry_run: bool = False,
        on_conflict: OnConflict = "overwrite",
        force: bool = False,
        on_progress: OnProgress | None = None,
    ) -> RestoreReport:
        return await self._bridge.call(
            self._store.restore,
            snap,
            root,
            paths=paths,
            dry_run=dry_run,
            on_conflict=on_conflict,
            force=force,
            on_progress=on_progress,
        )

    async def undo_restore(
        self,
        restore: RestoreReport | str,
        root: str | os.PathLike[str] | None = None,
        *,
        dry_run: bool = False,
    ) -> RestoreReport:
        return await self._bridge.call(self._store.undo_restore, restore, root, dry_run=dry_run)

    async def pending_restores(self) -> list[PendingRestore]:
        return await self._bridge.call(self._store.pending_restores)

    async def finish_restore(
        self, id: str, root: str | os.PathLike[str] | None = None, *, dry_run: bool = False
    ) -> RestoreReport:
        return await self._bridge.call(self._store.finish_restore, id, root, dry_run=dry_run)

    async def diff(
        self,
        a: Snapshot | str,
        b: Snapshot | str | os.PathLike[str] | None = None,
        *,
        text: bool = False,
        renames: bool = True,
    ) -> list[FileDiff]:
        return await self._bridge.call(self._store.diff, a, b, text=text, renames=renames)

    async def gc(
        self,
        *,
        dry_run: bool = False,
        thorough: bool = False,
        merge: bool = False,
        on_progress: OnProgress | None = None,
    ) -> GcReport:
        return await self._bridge.call(
            self._store.gc, dry_run=dry_run, thorough=thorough, merge=merge, on_progress=on_progress
        )

    async def verify(
        self, *, full: bool = True, time_limit: float | None = None, on_progress: OnProgress | None = None
    ) -> VerifyReport:
        return await self._bridge.call(
            self._store.verify, full=full, time_limit=time_limit, on_progress=on_progress
        )
