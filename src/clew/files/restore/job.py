"""What a restore is to do, and what it does it with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, get_args

import msgspec

from clew.core.conversation import moves
from clew.errors import InvalidError
from clew.files.journal import HeadMove
from clew.files.snapshot.take import SnapshotRules
from clew.model.files import OnConflict, OnProgress, RestoreReport, Snapshot

if TYPE_CHECKING:
    from clew.backends.contract import Transaction
    from clew.core.conversation.moves import FileMove
    from clew.core.engine.engine import Engine
    from clew.core.runs.access import Access
    from clew.files.objects.store import ObjectReader
    from clew.files.roots import OwnWork
    from clew.files.snapshot.take import SnapshotTaker
    from clew.model import Head


class Tools(msgspec.Struct, frozen=True):
    """What the restores of one store work with."""

    engine: Engine
    objects: ObjectReader
    taker: SnapshotTaker
    own: OwnWork
    """Signs the journal, and tells the restores of this user from those that a store only claims."""


class MovingHead(msgspec.Struct, frozen=True):
    """The head that moves with the files, and by which right."""

    access: Access
    move: HeadMove
    now: int
    sessions: int = 0
    """The tree of its session."""

    def carry_out(self, tx: Transaction, files: FileMove) -> Head:
        """Move the head, in the transaction that ends the restore."""
        match self.move.kind:
            case "undo":
                return moves.undo(tx, self.access, self.now, files)
            case "redo":
                return moves.redo(tx, self.access, self.now, files)
            case "rewind":
                assert self.move.to is not None
                return moves.rewind(tx, self.access, self.move.to, self.now, files)


class RestoreJob(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a restore before the directory is looked at."""

    root: str
    """A real path; the directory is made if there is none."""
    snapshot: str
    """The id of the snapshot to go back to, and its tree."""
    target: bytes
    last: bytes | None
    """The tree that was last kept of this root, or restored to it; and the id of its snapshot."""
    last_id: str | None = None
    known: bytes | None = None
    """The tree that the next restore may take for what stands here by our own doing."""
    rules: SnapshotRules = SnapshotRules()
    """By which the present state is looked at."""
    omitted_by: Snapshot | None = None
    """What this snapshot left out may have been there without being in it, and is not deleted."""
    paths: tuple[bytes, ...] | None = None
    """Only these, and what is below them; None: everything."""
    on_conflict: OnConflict = "overwrite"
    clears: bool = False
    """What neither `target` nor `last` names is a conflict; else it is left alone."""
    modes: Mapping[bytes, int] | None = None
    """Permissions of what is made: those of a restore that this one undoes."""
    head: MovingHead | None = None
    force: bool = False
    dry_run: bool = False
    on_progress: OnProgress | None = None

    def __post_init__(self) -> None:
        if self.on_conflict not in get_args(OnConflict):
            raise InvalidError(f"on_conflict must be one of {get_args(OnConflict)}, not {self.on_conflict!r}")

    @property
    def overwrites(self) -> bool:
        return self.on_conflict == "overwrite"


class Restored(msgspec.Struct, frozen=True):
    """What became of a restore."""

    report: RestoreReport
    head: Head | None = None
    """Where the head is now that moved with it."""
