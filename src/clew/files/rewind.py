"""Files that move with the head of a session: kept with checkpoints, restored with rewinds."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final, Literal

from clew.backends.contract import Reader
from clew.core.conversation import checkpoints
from clew.core.conversation.history import look, standing_at
from clew.core.conversation.moves import FileMove, moved_to
from clew.core.conversation.points import Point, resolve
from clew.core.engine.engine import Engine
from clew.core.log.rows import SessionRow
from clew.core.runs.access import Access
from clew.errors import SnapshotNotFoundError
from clew.files.service import Files
from clew.files.snapshot.take import rules_of
from clew.model import Checkpoint, Head, Moved
from clew.model.files import FileVersion, OnConflict, OnProgress, RestoreReport

NOT_BROUGHT: Final = " (an export holds no files: those of an imported session stayed behind)"
WithFiles = bool | str | os.PathLike[str]
"""`files=` of a rewind: False, True, or the directory to restore in."""


def checkpoint_with_files(
    engine: Engine,
    access: Access,
    setting: Callable[..., Checkpoint],
    root: str | os.PathLike[str],
    include: Sequence[str],
    exclude: Sequence[str],
) -> Checkpoint:
    """Keep the files and set the checkpoint that names them, in one transaction."""
    return engine.service(Files).checkpoint(access, setting, root, rules_of(include, exclude, None))


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
        lies_there = checkpoints.on_path(reader, row.head)
        there = [one for one in _with_files(reader, row) if lies_there(one.head)]
    return engine.service(Files).history(path, sorted(there, key=_age))


def rewind_with_files(
    engine: Engine, access: Access, to: Point, files: WithFiles, on_conflict: OnConflict, *, dry_run: bool
) -> Moved:
    """Restore the files of a point, and move the head there; or only say what would be done."""
    with look(engine, access.sid, access.id) as (reader, row):
        snapshot = snapshot_at(reader, row, to)
        branch, position = resolve(reader, row, to)
        head = Head(reader.get_branch(branch).uid if branch else "", position)
    root = None if isinstance(files, bool) else files
    if dry_run:
        return moved_to(head, engine.service(Files).restore(snapshot, root, None, on_conflict, dry_run=True))
    return engine.service(Files).rewind(access, snapshot, head, root, on_conflict)


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
    return engine.service(Files).step(access, what, files, root, there)


def finish_restore(
    engine: Engine, id: str, root: str | os.PathLike[str] | None, *, dry_run: bool
) -> RestoreReport:
    """Go on with a restore that was cut off; a head that was to move with it moves too."""
    return engine.service(Files).finish(id, root, dry_run=dry_run)


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
    newest = checkpoints.newest_snapshot(reader, standing_at(reader, row, to))
    if newest is None:
        raise SnapshotNotFoundError(
            None, f"session {row.id!r} has no checkpoint with files at or before {to!r}{NOT_BROUGHT}"
        )
    return newest


def _with_files(reader: Reader, row: SessionRow) -> list[Checkpoint]:
    return [one for one in checkpoints.list_checkpoints(reader, row) if one.snapshot is not None]


def _age(checkpoint: Checkpoint) -> tuple[int, str]:
    """The newer one is larger: by where it stands, and by its snapshot."""
    return checkpoint.position, checkpoint.snapshot or ""
