"""Keeping a store safe and small: backup, repair, vacuum."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from clew.core.engine.engine import EngineLike
from clew.errors import StoreBusyError
from clew.upkeep import scrub_traces

if TYPE_CHECKING:
    from clew.model.transfer import BackupReport, OnCopyProgress, RepairReport


class Care:
    """What `Store` can do for its own health."""

    _scope: EngineLike

    def backup(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        on_progress: OnCopyProgress | None = None,
    ) -> BackupReport:
        """Write the whole store, as it is at one moment, into one SQLite file that `clew.open` opens.

        Args:
            path: The file. It appears when it is whole and durable, readable by its owner only.
            overwrite: Replace what is there; else that is refused.
            on_progress: Called from time to time with a `CopyProgress`, unless the backup is one step.

        Others go on writing meanwhile; what they commit after the moment of the backup is not in it.
        """
        from clew.core.transfer.backup import backup

        engine = self._scope.outside("Store.backup()")
        return backup(engine, path, overwrite=overwrite, on_progress=on_progress)

    def repair(
        self, *, to: str | os.PathLike[str], on_progress: OnCopyProgress | None = None
    ) -> RepairReport:
        """Bring all that can be read of this store into a new one. This one is not changed.

        Args:
            to: The address of the new store, of any kind. One that holds something is refused.
            on_progress: Called from time to time with a `CopyProgress`.

        Nobody should write to the store meanwhile. `lost` in the report names everything that could not
        be brought over. An entry that is lost leaves an empty place of kind "removed", so that all others
        keep their positions and hashes.
        """
        from clew.core.transfer.repair import repair

        return repair(self._scope.outside("Store.repair()"), to, on_progress)

    def vacuum(self) -> int:
        """Give the space that nothing uses back to the system; how many bytes that was.

        It rewrites the store, which takes as long as copying it, and removes nothing that can be reached:
        that is for `gc` and retention. Others wait meanwhile; StoreBusyError if they kept it from running.
        """
        engine = self._scope.outside("Store.vacuum()")
        before = engine.backend.bytes_on_disk()
        try:
            if not scrub_traces(engine):
                engine.backend.scrub()
        except StoreBusyError as exc:
            message = f"others use {engine.backend.location}: not all space was given back; try again"
            raise StoreBusyError(message) from exc
        return max(0, before - engine.backend.bytes_on_disk())
