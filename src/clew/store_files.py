"""The files of a store: snapshots of directory trees, restoring them, what differs, what is kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from clew.core.engine.engine import EngineLike
from clew.core.runs.access import Access
from clew.errors import InvalidError

if TYPE_CHECKING:
    from clew.files.service import Ending, Files
    from clew.files.snapshot.watch import Watch
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


MOST_READ: Final = 1024**3


class StoreFiles:
    """What `Store` can do with directory trees. No git is needed, and the user's `.git` is never touched."""

    _scope: EngineLike

    @property
    def _files(self) -> Files:
        from clew.files.service import Files  # only those who keep files pay for it

        return self._scope.outside("this", waits=False).service(Files)

    def snapshot(
        self,
        root: str | os.PathLike[str],
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        max_file_bytes: int | None = None,
        force: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Snapshot:
        """Keep the content of a directory tree: every file's exact bytes, executable bits, symlinks as
        links, empty directories. What is unchanged since the last snapshot costs a look.

        Args:
            root: The directory. The root of a drive and a home directory are refused unless forced.
            include: Patterns as in `.gitignore`: files that are taken although they are ignored.
            exclude: More patterns of what is left out.
            max_file_bytes: Larger files are skipped, and listed (100 MiB).
            force: Take a home directory all the same.
            on_progress: Called from time to time with a `FileProgress`.

        `.gitignore`, `.clewignore` and sensible defaults (node_modules, .venv, caches) are left out.
        What by its name holds secrets (`.env`, `*.pem`, `.ssh`, …) is left out and listed in `skipped`, as
        is what can not be kept (FIFOs, sockets, other mounts, files that this user may not read, …).
        SnapshotFailedError: the system failed to read a file, and no snapshot was kept.
        """
        from clew.files.service import put_record
        from clew.files.snapshot.take import rules_of

        rules = rules_of(include, exclude, max_file_bytes)
        return self._files.snapshot(root, "snapshot", rules, put_record, force=force, on_progress=on_progress)

    def watch_files(self, root: str | os.PathLike[str], *, force: bool = False) -> Watch:
        """Watch a directory, so that snapshots of it in this process need not look at what did not
        change: until `stop()`, the end of a `with` block, or the end of the store.

        Whenever the watcher can not vouch for a directory, it is looked at; where the system gives no
        notices (anything but Linux), all is, as without a watcher.
        """
        return self._files.watch(root, force=force)

    def snapshots(self, *, root: str | os.PathLike[str] | None = None, limit: int = 100) -> list[Snapshot]:
        """Newest first; of one directory, or of all."""
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InvalidError(f"limit must be a number from 1 on, not {limit!r}")
        return self._files.snapshots(root, limit)

    def get_snapshot(self, id: str) -> Snapshot:
        """SnapshotNotFoundError if there is none."""
        return self._files.get(id)

    def read_file(self, snap: Snapshot | str, path: str, *, max_bytes: int = MOST_READ) -> bytes:
        """What a file held in a snapshot, byte for byte; of a symlink, where it leads.

        Args:
            snap: A snapshot, or its id.
            path: Below the root of the snapshot.
            max_bytes: A longer file is refused (1 GiB).

        NotFoundError if the snapshot holds no such file. The whole content is in memory at once.
        """
        return self._files.read_file(snap, path, max_bytes=max_bytes)

    def delete_snapshot(self, id: str) -> bool:
        """Forget a snapshot; False if there was none. `gc()` then frees its content."""
        return self._files.delete(id)

    def restore(
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
        """Make a directory what it was in a snapshot: what changed comes back, what was deleted comes back,
        what came since is deleted. The present state is kept first: `undo_restore` brings it back.

        Args:
            snap: A snapshot, or its id.
            root: Where; default: where it was taken, if that was by this user on this machine.
            paths: Only these files, and what is below these directories.
            dry_run: Only say what would be done.
            on_conflict: What to do with files that changed, or came, since the last snapshot:
                "overwrite" them (the safety snapshot has them), "keep" them as they are, or "refuse".
            force: As for `snapshot`.

        Only what the safety snapshot holds, byte for byte, is replaced or deleted. What is ignored, or
        was, and what no snapshot can hold, stays; so does what is in a directory of which this store has
        no snapshot. `kept` in the report names it, with the reason. A file that changes while the restore
        runs is left alone, and in `failed`. Killed half-way, a restore is in `pending_restores()`, to be
        finished or undone.
        """
        return self._files.restore(
            snap, root, paths, on_conflict, dry_run=dry_run, force=force, on_progress=on_progress
        )

    def undo_restore(
        self,
        restore: RestoreReport | str,
        root: str | os.PathLike[str] | None = None,
        *,
        dry_run: bool = False,
    ) -> RestoreReport:
        """Bring back every byte that a restore replaced or removed, be it finished or cut off.

        `root` is its directory. It has to be named if somebody else began the restore, or this user on
        another machine; else that is refused (RootNotNamedError). `dry_run` only says what would be done.
        """
        id = restore if isinstance(restore, str) else _id_of(restore)
        return self._files.undo(id, root, dry_run=dry_run)

    def pending_restores(self) -> list[PendingRestore]:
        """Restores that were cut off half-way, oldest first."""
        return self._files.pending()

    def finish_restore(
        self, id: str, root: str | os.PathLike[str] | None = None, *, dry_run: bool = False
    ) -> RestoreReport:
        """Go on with a restore that was cut off; a head that was to move with it moves too. `root` and
        `dry_run` as for `undo_restore`."""
        return self._files.finish(id, root, self._ending, dry_run=dry_run)

    def _ending(self, move: bytes) -> Ending:
        from clew.session_files import carry_out, decode_move

        head = decode_move(move)
        access, now = Access(head.sid, head.session, self._scope.here), self._scope.now()
        return lambda tx, files: carry_out(tx, access, head, now, files)

    def diff(
        self,
        a: Snapshot | str,
        b: Snapshot | str | os.PathLike[str] | None = None,
        *,
        text: bool = False,
        renames: bool = True,
    ) -> list[FileDiff]:
        """What differs from `a` to `b`: another snapshot (or its id), or a directory as it is now; default:
        the one where `a` was taken, if that was by this user on this machine.

        `text` adds unified diffs of text files; `renames` pairs files that were moved.
        """
        return self._files.diff(a, b, text=text, renames=renames)

    def gc(
        self,
        *,
        dry_run: bool = False,
        thorough: bool = False,
        merge: bool = False,
        on_progress: OnProgress | None = None,
    ) -> GcReport:
        """Remove the content that no snapshot, checkpoint or trash needs any more.

        Args:
            dry_run: Only say what would be removed, and what merging would save.
            thorough: Pack anew whatever has a gap, so that no byte of what is removed stays in a pack.
            merge: Join the small packs that small snapshots leave: many snapshots of a few edits each then
                take a fraction of the space. It reads and packs anew all that they hold.
            on_progress: Called from time to time with a `FileProgress`.

        The file of the store does not get smaller: what was freed is used again, until `vacuum()` gives it
        back to the system. LeaseHeldError: another gc is under way.
        """
        return self._files.gc(dry_run=dry_run, thorough=thorough, merge=merge, on_progress=on_progress)

    def verify(
        self, *, full: bool = True, time_limit: float | None = None, on_progress: OnProgress | None = None
    ) -> VerifyReport:
        """Check that all conversations and all snapshots are whole.

        Args:
            full: Read all of it: entries and objects are compared with their hashes, events, model calls
                and indices are read; else only whether all is there, and whether what leads somewhere leads
                to what exists.
            time_limit: Seconds after which to end with what was found; `complete` says if it did.
            on_progress: Called from time to time with a `FileProgress`.

        Nothing is changed or locked; what others purge meanwhile is no problem.
        """
        return self._files.verify(full=full, time_limit=time_limit, on_progress=on_progress)


def _id_of(report: RestoreReport) -> str:
    if report.id is None:
        raise InvalidError("this restore changed nothing: there is nothing to undo")
    return report.id
