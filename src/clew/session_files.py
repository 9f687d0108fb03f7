"""Files that belong to points of a conversation: kept with checkpoints, restored with rewinds."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.conversation.points import Point, resolve, tip_at
from clew.core.log.rows import SessionRow
from clew.core.runs.access import Access, admit
from clew.errors import CorruptError, RestoreFailedError, SnapshotNotFoundError
from clew.handle import Handle
from clew.model import Checkpoint, Head, Moved

if TYPE_CHECKING:
    from clew.core.conversation.moves import FileMove
    from clew.core.engine.engine import Engine
    from clew.files.records import SnapshotCounters
    from clew.files.service import Files
    from clew.model.files import FileVersion, OnConflict, OnProgress, RestoreReport, Snapshot

NOT_BROUGHT = " (an export holds no files: those of an imported session stayed behind)"
WithFiles = bool | str | os.PathLike[str]


class HeadMove(msgspec.Struct, frozen=True):
    """How a head moves when the files are where they should be; kept in the journal of the restore."""

    sid: int
    session: str
    kind: Literal["rewind", "undo", "redo"]
    to: Head | None = None


encode_move = msgspec.json.Encoder().encode
_decode_move = msgspec.json.Decoder(HeadMove).decode


def decode_move(value: bytes) -> HeadMove:
    """CorruptError for what `encode_move` never makes."""
    try:
        move = _decode_move(value)
    except (msgspec.MsgspecError, ValueError) as exc:
        raise CorruptError(f"how the head moves with the files is damaged: {exc}") from exc
    if move.kind == "rewind" and move.to is None:
        raise CorruptError("how the head moves with the files is damaged: it does not say where to")
    return move


def files_of(engine: Engine) -> Files:
    from clew.files.service import Files  # only those who keep files pay for it

    return engine.service(Files)


def carry_out(tx: Transaction, access: Access, move: HeadMove, now: int, files: FileMove) -> Head:
    """Move the head, in the transaction that ends the restore."""
    from clew.core.conversation import moves

    match move.kind:
        case "undo":
            return moves.undo(tx, access, now, files)
        case "redo":
            return moves.redo(tx, access, now, files)
        case _:
            assert move.to is not None
            return moves.rewind(tx, access, move.to, now, files)


class SessionFiles(Handle):
    """The part of `Session` that knows the files of its checkpoints."""

    def restore_files(
        self,
        to: Point,
        root: str | os.PathLike[str] | None = None,
        *,
        paths: Sequence[str] | None = None,
        dry_run: bool = False,
        on_conflict: OnConflict = "overwrite",
        on_progress: OnProgress | None = None,
    ) -> RestoreReport:
        """Restore the files of a checkpoint, and leave the conversation where it is.

        As `store.restore`, with the snapshot of the checkpoint, or of the last one before a point.
        """
        with self._look() as (reader, row):
            snapshot = snapshot_at(reader, row, to)
        return files_of(self._scope.outside("Session.restore_files()")).restore(
            snapshot, root, paths, on_conflict, dry_run=dry_run, on_progress=on_progress
        )

    def file_history(self, path: str) -> list[FileVersion]:
        """The checkpoints on the path at which a file was not as at the one before, oldest first."""
        from clew.core.conversation import checkpoints

        with self._look() as (reader, row):
            kept = [c for c in checkpoints.list_checkpoints(reader, row) if c.snapshot is not None]
            lies_there = checkpoints.on_path(reader, row.head)
            there = [checkpoint for checkpoint in kept if lies_there(checkpoint.head)]
        return files_of(self._scope.outside("Session.file_history()", waits=False)).history(
            path, sorted(there, key=lambda c: (c.position, c.snapshot or ""))
        )

    def _set_with_files(
        self,
        setting: Callable[..., Checkpoint],
        root: str | os.PathLike[str],
        include: Sequence[str],
        exclude: Sequence[str],
    ) -> Checkpoint:
        """Keep the files and set the checkpoint that names them, in one transaction."""
        from clew.files import records
        from clew.files.snapshot.take import rules_of

        access = self._access

        def put(tx: Transaction, snapshot: Snapshot, shelf: SnapshotCounters, signature: bytes) -> Checkpoint:
            row = admit(tx, access)
            records.put(tx, snapshot, shelf, sessions=row.tree, signature=signature)
            return setting(tx, access, snapshot=snapshot.id)

        keeper = files_of(self._scope.outside("Session.checkpoint(files=…)"))
        return keeper.snapshot(root, "checkpoint", rules_of(include, exclude, None), put)

    def _rewind_with_files(self, to: Point, files: WithFiles, on_conflict: OnConflict) -> Moved:
        keeper = files_of(self._scope.outside("Session.rewind(files=…)"))
        with self._look() as (reader, row):
            snapshot = snapshot_at(reader, row, to)
            branch, position = resolve(reader, row, to)
            head = Head(reader.get_branch(branch).uid if branch else "", position)
        root = None if isinstance(files, bool) else files
        restore = partial(keeper.restore, snapshot, root, None, on_conflict)
        return self._restore_and_move(restore, HeadMove(self._sid, self.id, "rewind", head))

    def _step_with_files(
        self, what: Literal["undo", "redo"], root: str | os.PathLike[str] | None, *, dry_run: bool
    ) -> Moved | None:
        """Undo or redo a move that changed files, which takes back exactly these; None: it did not."""
        from clew.core.conversation import moves

        with self._look() as (reader, row):
            files = moves.files_of(reader, row, what)
            there = moves.next_head(reader, row, what) if dry_run else None
        keeper = files_of(self._scope.outside(f"Session.{what}() of files")) if files is not None else None
        record = keeper.restore_of(files) if keeper is not None and files is not None else None
        if keeper is None or record is None:
            return None if there is None else moved_to(there)
        if there is not None:
            return moved_to(there, keeper.take_back(record, root, dry_run=True))
        back = partial(keeper.take_back, record, root)
        return self._restore_and_move(back, HeadMove(self._sid, self.id, what))

    def _restore_and_move(self, restore: Callable[..., RestoreReport], move: HeadMove) -> Moved:
        access, now = self._access, self._scope.now()
        moved: list[Head] = []

        def ending(tx: Transaction, files: FileMove) -> None:
            moved[:] = [carry_out(tx, access, move, now, files)]

        # Before any file is touched: whoever may not move the head may not move the files either.
        sessions = self._scope.run(lambda tx: admit(tx, access)).tree
        report = restore(move=encode_move(move), ending=ending, sessions=sessions)
        if report.failed:
            first = report.failed[0]
            raise RestoreFailedError(
                f"the head of {self.id!r} moved, but {len(report.failed)} files could not be restored,"
                f" as {first.path!r} ({first.reason}); undo() brings both back",
                report,
            )
        return moved_to(moved[0], report)


def moved_to(head: Head, files: RestoreReport | None = None) -> Moved:
    return Moved(head.branch, head.position, files)


def snapshot_at(reader: Reader, row: SessionRow, to: Point) -> str:
    """The snapshot of a checkpoint, or of the last checkpoint with files at or before a point."""
    from clew.core.conversation import checkpoints

    if isinstance(to, str):
        to = checkpoints.find_checkpoint(reader, row, to) or to
    if isinstance(to, Checkpoint):
        if to.snapshot is None:
            raise SnapshotNotFoundError(
                None, f"checkpoint {to.name!r} of session {row.id!r} has no files{NOT_BROUGHT}"
            )
        return to.snapshot
    lies_there = checkpoints.on_path(reader, tip_at(reader, *resolve(reader, row, to)))
    found = [
        checkpoint
        for checkpoint in checkpoints.list_checkpoints(reader, row)
        if checkpoint.snapshot is not None and lies_there(checkpoint.head)
    ]
    if not found:
        raise SnapshotNotFoundError(
            None, f"session {row.id!r} has no checkpoint with files at or before {to!r}{NOT_BROUGHT}"
        )
    newest = max(found, key=lambda checkpoint: (checkpoint.position, checkpoint.snapshot or ""))
    assert newest.snapshot is not None
    return newest.snapshot
