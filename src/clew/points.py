"""Points in time of a session: names for them, going back to them, branching off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import clew.work as work
from clew.core.ids import check_id
from clew.core.rows import SessionRow
from clew.errors import CheckpointNotFoundError
from clew.handle import Handle
from clew.model import Checkpoint, Head, Json, Tree
from clew.work.places import Point

if TYPE_CHECKING:
    from clew.session import Session


class Points(Handle):
    """The part of `Session` that knows where it was."""

    def _sibling(self, row: SessionRow) -> Session:
        """A handle on another session of the same store."""
        raise NotImplementedError

    def checkpoint(self, name: str, *, state: Json = None) -> Checkpoint:
        """Name the head, to come back to; again: move the name. `state` is kept beside it."""
        return self._write(work.checkpoints.set_checkpoint, name, state, self._engine.now())

    def checkpoints(self) -> list[Checkpoint]:
        """Oldest first; those of the base that a fork inherits too. Reads no messages."""
        with self._look() as (reader, row):
            return work.checkpoints.list_checkpoints(reader, row)

    def get_checkpoint(self, name: str) -> Checkpoint:
        check_id(name, "checkpoint name")
        with self._look() as (reader, row):
            found = work.checkpoints.find_checkpoint(reader, row, name)
        if found is None:
            raise CheckpointNotFoundError(self.id, name)
        return found

    def delete_checkpoint(self, name: str) -> bool:
        """Forget the name; False if there was none. The entries stay."""
        return self._write(work.checkpoints.delete_checkpoint, check_id(name, "checkpoint name"))

    def rewind(self, to: Point) -> Head:
        """Go back to a checkpoint (or its name), an entry (or its id) or a position.

        What came after stays reachable; `undo()` goes back there.
        """
        return self._write(work.moves.rewind, to, self._engine.now())

    def undo(self) -> Head:
        """Take back the last operation that was not an append: rewind, clear, replace, truncate,
        compact or set_summary. Survives restarts; NothingToUndoError at the end."""
        return self._write(work.moves.undo, self._engine.now())

    def redo(self) -> Head:
        """Take back the last undo."""
        return self._write(work.moves.redo, self._engine.now())

    def fork(self, id: str | None = None, *, at: Point | None = None) -> Session:
        """A new session that shares everything up to `at` (the head). Nothing is copied.

        Without an id it is called `<this id>#fork-<n>`. It starts pending, with its own runs and usage.
        """
        return self._sibling(self._write(work.forks.fork, id, at, self._engine.now()))

    def tree(self) -> Tree:
        """Every branch, fork, checkpoint and head of this session and its relatives."""
        with self._look() as (reader, row):
            return work.trees.tree(reader, row)
