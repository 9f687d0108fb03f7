"""Points in time of a session: names for them, going back to them, branching off."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from clew.core.conversation.points import Point
from clew.core.log.ids import check_id
from clew.core.log.rows import SessionRow
from clew.core.messages.codec import encode_json
from clew.errors import CheckpointNotFoundError
from clew.model import Checkpoint, Json, Moved, Tree
from clew.session_files import SessionFiles, WithFiles, moved_to

if TYPE_CHECKING:
    from clew.model.files import OnConflict
    from clew.session import Session


class Points(SessionFiles):
    """The part of `Session` that knows where it was."""

    def _sibling(self, row: SessionRow) -> Session:
        """A handle on another session of the same store."""
        raise NotImplementedError

    def checkpoint(
        self,
        name: str,
        *,
        state: Json = None,
        files: str | os.PathLike[str] | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> Checkpoint:
        """Name the head, to come back to; again: move the name.

        Args:
            name: Unique in the session.
            state: Any JSON value, kept beside it.
            files: A directory: its content is kept with the checkpoint, for `rewind(files=True)`.
            include: With `exclude` as for `store.snapshot`.

        SnapshotFailedError: the system failed to read a file, and no checkpoint was set. What else the
        snapshot does not hold is in `store.get_snapshot(checkpoint.snapshot).skipped`.
        """
        from clew.core.conversation import checkpoints

        check_id(name, "checkpoint name")
        encoded = encode_json(state, what="state")
        setting = partial(checkpoints.set_checkpoint, name=name, state=encoded, now=self._scope.now())
        if files is None:
            return self._write(setting)
        return self._set_with_files(setting, files, include, exclude)

    def checkpoints(self) -> list[Checkpoint]:
        """Oldest first. Reads no messages."""
        from clew.core.conversation import checkpoints

        with self._look() as (reader, row):
            return checkpoints.list_checkpoints(reader, row)

    def get_checkpoint(self, name: str) -> Checkpoint:
        from clew.core.conversation import checkpoints

        check_id(name, "checkpoint name")
        with self._look() as (reader, row):
            found = checkpoints.find_checkpoint(reader, row, name)
        if found is None:
            raise CheckpointNotFoundError(self.id, name, f"session {self.id!r} has no checkpoint {name!r}")
        return found

    def delete_checkpoint(self, name: str) -> bool:
        """Forget the name; False if there was none. The entries stay."""
        from clew.core.conversation import checkpoints

        return self._write(checkpoints.delete_checkpoint, check_id(name, "checkpoint name"))

    def rewind(self, to: Point, *, files: WithFiles = False, on_conflict: OnConflict = "overwrite") -> Moved:
        """Go back to a checkpoint (or its name), an entry (or its id) or a position.

        What came after stays reachable; `undo()` goes back there.

        Args:
            to: Where to.
            files: True: also make the directory of the checkpoint (or of the last one with files before
                that point) what it was, if this user took it there, on this machine; or the directory to
                restore its files in. Head and files move together, and `undo()` brings both back.
            on_conflict: What to do with files that changed since the last snapshot, as for
                `store.restore`.

        What comes back is the new head; its `files` says what was restored, deleted and kept.
        RestoreFailedError if single files could not be restored: its `report` names them.
        """
        from clew.core.conversation import moves

        if files is False:
            return moved_to(self._write(moves.rewind, to, self._scope.now()))
        return self._rewind_with_files(to, files, on_conflict)

    def undo(self, *, root: str | os.PathLike[str] | None = None, dry_run: bool = False) -> Moved:
        """Take back the last operation that was not an append: rewind, clear, replace, truncate,
        compact or set_summary; files that a rewind restored come back too. Survives restarts;
        NothingToUndoError at the end.

        Args:
            root: The directory of these files. It has to be named if somebody else restored them, or this
                user on another machine; else that is refused (RootNotNamedError).
            dry_run: Only say where it would go, and what would be done to the files.
        """
        from clew.core.conversation import moves

        with_files = self._step_with_files("undo", root, dry_run=dry_run)
        return with_files or moved_to(self._write(moves.undo, self._scope.now()))

    def redo(self, *, root: str | os.PathLike[str] | None = None, dry_run: bool = False) -> Moved:
        """Take back the last undo. `root` and `dry_run` as for `undo`."""
        from clew.core.conversation import moves

        with_files = self._step_with_files("redo", root, dry_run=dry_run)
        return with_files or moved_to(self._write(moves.redo, self._scope.now()))

    def fork(self, id: str | None = None, *, at: Point | None = None) -> Session:
        """A new session that shares every entry up to `at` (the head): it costs the same however many.

        The checkpoints on the way there, and the variables, are copied: they are its own from now on.
        Without an id it is called `<this id>#fork-<n>`. It starts pending, with its own runs and usage.
        """
        from clew.core.conversation import fork

        new_id = None if id is None else check_id(id)
        return self._sibling(self._write(fork.fork, new_id, at, self._scope.now()))

    def tree(self) -> Tree:
        """Every branch, fork, checkpoint and head of this session and its relatives."""
        from clew.core.conversation import fork as trees

        with self._look() as (reader, row):
            return trees.tree(reader, row)
