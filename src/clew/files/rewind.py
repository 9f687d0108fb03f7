"""Files that move with the head of a session: kept with checkpoints, restored with rewinds."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.conversation import checkpoints, moves
from clew.core.conversation.history import look
from clew.core.conversation.moves import FileMove
from clew.core.conversation.points import Point, resolve, tip_at
from clew.core.engine.engine import Engine
from clew.core.log.rows import SessionRow
from clew.core.runs.access import Access, admit
from clew.errors import CorruptError, RestoreFailedError, SnapshotNotFoundError
from clew.files import records
from clew.files.records import SnapshotCounters
from clew.files.service import Ending, Files
from clew.files.snapshot.take import rules_of
from clew.model import Checkpoint, Head, Moved
from clew.model.files import FileVersion, OnConflict, OnProgress, RestoreReport, Snapshot

NOT_BROUGHT: Final = " (an export holds no files: those of an imported session stayed behind)"
WithFiles = bool | str | os.PathLike[str]
"""`files=` of a rewind: False, True, or the directory to restore in."""


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


def carry_out(tx: Transaction, access: Access, move: HeadMove, now: int, files: FileMove) -> Head:
    """Move the head, in the transaction that ends the restore."""
    match move.kind:
        case "undo":
            return moves.undo(tx, access, now, files)
        case "redo":
            return moves.redo(tx, access, now, files)
        case _:
            assert move.to is not None
            return moves.rewind(tx, access, move.to, now, files)


def checkpoint_with_files(
    engine: Engine,
    access: Access,
    setting: Callable[..., Checkpoint],
    root: str | os.PathLike[str],
    include: Sequence[str],
    exclude: Sequence[str],
) -> Checkpoint:
    """Keep the files and set the checkpoint that names them, in one transaction."""

    def put(tx: Transaction, snapshot: Snapshot, shelf: SnapshotCounters, signature: bytes) -> Checkpoint:
        row = admit(tx, access)
        records.put(tx, snapshot, shelf, sessions=row.tree, signature=signature)
        return setting(tx, access, snapshot=snapshot.id)

    return engine.service(Files).snapshot(root, "checkpoint", rules_of(include, exclude, None), put)


def restore_files(
    engine: Engine,
    access: Access,
    to: Point,
    root: str | os.PathLike[str] | None,
    paths: Sequence[str] | None,
    on_conflict: OnConflict,
    *,
    dry_run: bool,
    on_progress: OnProgress | None,
) -> RestoreReport:
    """Restore the files of a checkpoint, and leave the head where it is."""
    with look(engine, access.sid, access.id) as (reader, row):
        snapshot = snapshot_at(reader, row, to)
    return engine.service(Files).restore(
        snapshot, root, paths, on_conflict, dry_run=dry_run, on_progress=on_progress
    )


def file_history(engine: Engine, access: Access, path: str) -> list[FileVersion]:
    """The checkpoints on the path at which a file was not as at the one before, oldest first."""
    with look(engine, access.sid, access.id) as (reader, row):
        kept = [c for c in checkpoints.list_checkpoints(reader, row) if c.snapshot is not None]
        lies_there = checkpoints.on_path(reader, row.head)
        there = [checkpoint for checkpoint in kept if lies_there(checkpoint.head)]
    return engine.service(Files).history(path, sorted(there, key=lambda c: (c.position, c.snapshot or "")))


def rewind_with_files(
    engine: Engine, access: Access, to: Point, files: WithFiles, on_conflict: OnConflict
) -> Moved:
    with look(engine, access.sid, access.id) as (reader, row):
        snapshot = snapshot_at(reader, row, to)
        branch, position = resolve(reader, row, to)
        head = Head(reader.get_branch(branch).uid if branch else "", position)
    root = None if isinstance(files, bool) else files
    restore = partial(engine.service(Files).restore, snapshot, root, None, on_conflict)
    return _restore_and_move(engine, access, restore, HeadMove(access.sid, access.id, "rewind", head))


def step_with_files(
    engine: Engine,
    access: Access,
    what: Literal["undo", "redo"],
    files: FileMove,
    root: str | os.PathLike[str] | None,
    *,
    there: Head | None = None,
) -> Moved | None:
    """Undo or redo a move that changed files, which takes back exactly these; None: no file had to be
    touched. `there`: only say that the head would go there, and what would be done to the files."""
    service = engine.service(Files)
    record = service.restore_of(files)
    if record is None:
        return None
    if there is not None:
        return moves.moved_to(there, service.take_back(record, root, dry_run=True))
    back = partial(service.take_back, record, root)
    return _restore_and_move(engine, access, back, HeadMove(access.sid, access.id, what))


def finish_restore(
    engine: Engine, id: str, root: str | os.PathLike[str] | None, *, dry_run: bool
) -> RestoreReport:
    """Go on with a restore that was cut off; a head that was to move with it moves too."""

    def ending(move: bytes) -> Ending:
        head = decode_move(move)
        access, now = Access(head.sid, head.session, engine.here), engine.now()
        return lambda tx, files: carry_out(tx, access, head, now, files)

    return engine.service(Files).finish(id, root, ending, dry_run=dry_run)


def _restore_and_move(
    engine: Engine, access: Access, restore: Callable[..., RestoreReport], move: HeadMove
) -> Moved:
    now = engine.now()
    moved: list[Head] = []

    def ending(tx: Transaction, files: FileMove) -> None:
        moved[:] = [carry_out(tx, access, move, now, files)]

    # Before any file is touched: a handle that may not move the head may not move the files either.
    sessions = engine.run(lambda tx: admit(tx, access)).tree
    report = restore(move=encode_move(move), ending=ending, sessions=sessions)
    if report.failed:
        first = report.failed[0]
        raise RestoreFailedError(
            f"the head of {access.id!r} moved, but {len(report.failed)} files could not be restored,"
            f" as {first.path!r} ({first.reason}); undo() brings both back",
            report,
        )
    return moves.moved_to(moved[0], report)


def snapshot_at(reader: Reader, row: SessionRow, to: Point) -> str:
    """The snapshot of a checkpoint, or of the last checkpoint with files at or before a point."""
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
