"""The files of one store: what the public objects ask for, over scan, restore, diff, gc and verify."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from clew.backends.contract import Reader, Transaction
from clew.core.conversation.moves import FileMove
from clew.core.engine.engine import Engine
from clew.errors import InvalidError, NotFoundError
from clew.files import journal, records
from clew.files.diff.diff import diff, history
from clew.files.objects.format import FOLDER
from clew.files.objects.store import ObjectReader
from clew.files.records import SnapshotCounters, keep
from clew.files.restore import restore as restoring
from clew.files.restore.plan import find_entry
from clew.files.restore.prepare import SnapshotOmissions, clean_paths, directories_of, planned
from clew.files.restore.restore import Safety
from clew.files.roots import check_named, check_root
from clew.files.signatures import NAME_IT, OwnWork
from clew.files.snapshot.take import Rules, SnapshotTaker
from clew.files.snapshot.watch import Watch
from clew.files.upkeep.gc import gc
from clew.files.upkeep.verify import verify
from clew.model import Checkpoint, utc
from clew.model.files import (
    FileDiff,
    FileVersion,
    GcReport,
    KeptReason,
    OnConflict,
    OnProgress,
    PendingRestore,
    RestoreReport,
    Snapshot,
    SnapshotKind,
    VerifyReport,
)

T = TypeVar("T")

Put = Callable[[Transaction, Snapshot, SnapshotCounters, bytes], T]
"""Keeps the record of a snapshot with its signature, and whatever goes with it, in one transaction."""
Ending = Callable[[Transaction, FileMove], object]
"""Called in the transaction that ends a restore."""


class Files:
    """Snapshots and restores of one store. Safe from any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._objects = ObjectReader(engine.read)
        self._watches: dict[str, Watch] = {}
        self._taker = SnapshotTaker(engine, self._watches)
        self._own = OwnWork(engine.here)

    def stop(self) -> None:
        for watch in self._watches.values():
            watch.stop()

    def after_fork(self) -> None:
        self._objects = ObjectReader(self._engine.read)
        for watch in self._watches.values():
            watch.after_fork()
        self._watches.clear()

    def watch(self, root: str | os.PathLike[str], *, force: bool) -> Watch:
        """Watch a tree, so that the next snapshots of it need not look at all of it."""
        place = check_root(root, force=force)
        known = self._watches.get(place)
        if known is None or not known.is_running:
            known = self._watches[place] = Watch(place)
        return known

    # -- taking

    def snapshot(
        self,
        root: str | os.PathLike[str],
        kind: SnapshotKind,
        rules: Rules,
        put: Put[T],
        *,
        force: bool = False,
        on_progress: OnProgress | None = None,
    ) -> T:
        """Scan a tree, store what is new of it, and keep its record by `put`."""
        place = check_root(root, force=force)

        def attempt(shelf: SnapshotCounters) -> T:
            taken = self._taker.take(place, kind, rules, shelf, on_progress=on_progress)
            signature = self._own.sign_snapshot(taken.snapshot)
            return taken.keep(lambda tx: put(tx, taken.snapshot, shelf, signature))

        return keep(self._engine, attempt)

    # -- records

    def get(self, id: str) -> Snapshot:
        with self._engine.read() as reader:
            return records.get(reader, id)

    def snapshots(self, root: str | os.PathLike[str] | None, limit: int) -> list[Snapshot]:
        if root is not None:
            check_named(root)
        place = None if root is None else os.path.realpath(root)
        with self._engine.read() as reader:
            return records.list_all(reader, place, limit)

    def read_file(self, snap: Snapshot | str, path: str, *, max_bytes: int) -> bytes:
        if type(max_bytes) is not int or max_bytes < 0:
            raise InvalidError(f"max_bytes is a number from 0 on, not {max_bytes!r}")
        snapshot = self._known(snap)
        (name,) = clean_paths([path])
        entry = find_entry(bytes.fromhex(snapshot.tree), name, directories_of(self._objects))
        if entry is None:
            raise NotFoundError(f"snapshot {snapshot.id} holds no file {path!r}")
        if entry.kind == FOLDER:
            raise NotFoundError(f"{path!r} is a directory in snapshot {snapshot.id}: name a file in it")
        if entry.size > max_bytes:
            raise InvalidError(
                f"{path!r} has {entry.size:,} bytes, more than max_bytes={max_bytes:,}: restore it (paths=)"
            )
        return b"".join(self._objects.pieces(entry))

    def delete(self, id: str) -> bool:
        return self._engine.run(lambda tx: records.delete(tx, id))

    def history(self, path: str, checkpoints: Sequence[Checkpoint]) -> list[FileVersion]:
        return history(self._engine, self._objects, path, checkpoints)

    # -- restoring

    def restore(
        self,
        snap: Snapshot | str,
        root: str | os.PathLike[str] | None,
        paths: Sequence[str] | None,
        on_conflict: OnConflict,
        *,
        dry_run: bool = False,
        force: bool = False,
        on_progress: OnProgress | None = None,
        move: bytes = b"",
        ending: Ending | None = None,
        sessions: int = 0,
    ) -> RestoreReport:
        """`sessions`: the tree of the session whose head moves with it."""
        snapshot = self._known(snap)
        place = _place(self._own_root(snapshot) if root is None else root, force=force)
        with self._engine.read() as reader:
            last, last_id = _stands_there(reader, place)
        target = bytes.fromhex(snapshot.tree)
        is_whole = bool(snapshot.root)  # what came with an import are single files, not a directory
        return self._restore(
            snapshot.id,
            target,
            place,
            self._rules(snapshot),
            last=last,
            last_id=last_id,
            known=target if paths is None and is_whole else None,
            clears=is_whole and (place == snapshot.root or last is not None),
            of=snapshot,
            paths=paths,
            on_conflict=on_conflict,
            dry_run=dry_run,
            force=force,
            on_progress=on_progress,
            move=move,
            ending=ending,
            sessions=sessions,
        )

    def _restore(
        self,
        id: str,
        target: bytes,
        place: str,
        rules: Rules,
        *,
        last: bytes | None,
        last_id: str | None,
        paths: Sequence[str] | None,
        on_conflict: OnConflict,
        dry_run: bool = False,
        force: bool = False,
        on_progress: OnProgress | None = None,
        move: bytes = b"",
        ending: Ending | None = None,
        modes: dict[bytes, int] | None = None,
        sessions: int = 0,
        known: bytes | None = None,
        clears: bool = False,
        of: Snapshot | None = None,
    ) -> RestoreReport:
        """`of`: the snapshot by whose rules it is told what may have been there without being in it."""

        def attempt(shelf: SnapshotCounters) -> RestoreReport:
            parts = self._engine, self._taker, self._objects
            safety = Safety(*parts, place, rules, shelf, own=self._own, sessions=sessions, force=force)

            def finishing(tx: Transaction) -> None:
                if ending is not None:
                    ending(tx, FileMove(os.fsencode(place), safety.id, id))

            spare = None if of is None else SnapshotOmissions(of, safety.objects, safety.left_out)

            def left_out() -> dict[bytes, KeptReason]:
                return {**safety.left_out(), **(spare.reasons if spare is not None else {})}

            with safety:
                return restoring.restore(
                    self._engine,
                    safety.objects,
                    snapshot_id=id,
                    target=target,
                    last=last,
                    last_id=last_id,
                    root=place,
                    take_safety=safety.take,
                    keeping=safety.put,
                    look=safety.look,
                    clears=clears,
                    spare=spare,
                    left_out=left_out,
                    paths=paths,
                    on_conflict=on_conflict,
                    dry_run=dry_run,
                    on_progress=on_progress,
                    move=move,
                    finishing=finishing,
                    modes=modes,
                    known=known,
                    own=self._own,
                )

        return keep(self._engine, attempt)

    def restore_of(self, move: FileMove) -> journal.Restore | None:
        """The restore that went with a move of a head; None: no file had to be touched."""
        with self._engine.read() as reader:
            return journal.find_by_safety(reader, move.safety)

    def undo(self, id: str, root: str | os.PathLike[str] | None, *, dry_run: bool = False) -> RestoreReport:
        """Bring back the state before a restore: of one that was cut off, by going back; else by
        restoring what was kept before it."""
        with self._engine.read() as reader:
            record = journal.get(reader, id)
        if record.state == "pending":
            if dry_run:
                self._own.check_restore(record, root)
                return restoring.rest_of(self._objects, record, backwards=True)
            return restoring.roll_back(self._engine, self._objects, id, own=self._own, root=root)
        if record.state != "done":
            raise InvalidError(f"restore {id} is {record.state}: there is nothing to undo")
        return self.take_back(record, root, dry_run=dry_run)

    def take_back(
        self,
        record: journal.Restore,
        root: str | os.PathLike[str] | None,
        *,
        dry_run: bool = False,
        move: bytes = b"",
        ending: Ending | None = None,
        sessions: int = 0,
    ) -> RestoreReport:
        """Restore what was kept before a restore that is over, where it was. `root`: who names it need not
        have begun it."""
        self._own.check_restore(record, root)
        before = self.get(record.safety)
        return self._restore(
            before.id,
            record.now,
            os.fsdecode(record.root),
            self._rules(before),
            last=record.target,
            last_id=record.snapshot,
            # Only what the restore touched: whatever else happened since is not its to take back.
            paths=[os.fsdecode(step.path) for step in planned(self._objects, record).steps],
            on_conflict="overwrite",
            dry_run=dry_run,
            force=True,
            move=move,
            ending=ending,
            modes=self._own.modes(record, record.modes),
            sessions=sessions,
            known=record.last,
        )

    def pending(self) -> list[PendingRestore]:
        with self._engine.read() as reader:
            found = journal.pending(reader)
        return [
            PendingRestore(
                id=one.id,
                root=os.fsdecode(one.root),
                snapshot=one.snapshot,
                safety=one.safety,
                at=utc(one.created),
                session=journal.moved_by(one).session,
            )
            for one in found
        ]

    def finish(
        self,
        id: str,
        root: str | os.PathLike[str] | None,
        ending: Callable[[bytes], Ending | None],
        *,
        dry_run: bool = False,
    ) -> RestoreReport:
        """Go on with a restore that was cut off; `ending` makes of its `move` what ends it."""
        with self._engine.read() as reader:
            record = journal.get(reader, id)
        if dry_run:
            self._own.check_restore(record, root)
            return restoring.rest_of(self._objects, record)
        last_step = ending(record.move) if record.move else None

        def finishing(tx: Transaction) -> None:
            if last_step is not None:
                last_step(tx, FileMove(record.root, record.safety, record.snapshot))

        return restoring.finish(
            self._engine, self._objects, id, own=self._own, root=root, finishing=finishing
        )

    # -- comparing, collecting

    def diff(
        self, a: Snapshot | str, b: Snapshot | str | os.PathLike[str] | None, *, text: bool, renames: bool
    ) -> list[FileDiff]:
        first = self._known(a)
        return diff(
            self._objects,
            bytes.fromhex(first.tree),
            self._tree_of(first, b),
            text=text,
            renames=renames,
        )

    def _tree_of(self, first: Snapshot, other: Snapshot | str | os.PathLike[str] | None) -> bytes:
        if other is None:
            other = Path(self._own_root(first))
        if isinstance(other, Snapshot):
            return bytes.fromhex(other.tree)
        if isinstance(other, str):
            with self._engine.read() as reader:
                known = records.find(reader, other)
            if known is not None:
                return bytes.fromhex(known.tree)
        place = check_root(other, force=True)
        return bytes.fromhex(self._taker.look(place, self._rules(first)).snapshot.tree)

    def gc(self, *, dry_run: bool, thorough: bool, merge: bool, on_progress: OnProgress | None) -> GcReport:
        return gc(self._engine, dry_run=dry_run, thorough=thorough, merge=merge, on_progress=on_progress)

    def verify(self, *, full: bool, time_limit: float | None, on_progress: OnProgress | None) -> VerifyReport:
        return verify(self._engine, full=full, time_limit=time_limit, on_progress=on_progress)

    def _is_own(self, snapshot: Snapshot) -> bool:
        with self._engine.read() as reader:
            kept = records.find_record(reader, snapshot.id)
        if kept is None or (kept.root, kept.tree.hex()) != (os.fsencode(snapshot.root), snapshot.tree):
            return False
        return self._own.has_snapshot(snapshot.id, kept)

    def _own_root(self, snapshot: Snapshot) -> str:
        """Where a snapshot was taken, if that was by this user on this machine."""
        if not snapshot.root:
            raise InvalidError(f"the files of {snapshot.id} came with an import: {NAME_IT}")
        if not self._is_own(snapshot):
            raise self._own.refusal(f"snapshot {snapshot.id}", os.fsencode(snapshot.root))
        return snapshot.root

    def _rules(self, snapshot: Snapshot) -> Rules:
        """By which a directory is looked at again. What is ignored is taken for nobody else's snapshot."""
        include = snapshot.include if self._is_own(snapshot) else ()
        return Rules(include, snapshot.exclude, snapshot.max_file_bytes)

    def _known(self, snap: Snapshot | str) -> Snapshot:
        if isinstance(snap, Snapshot):
            return snap
        if not isinstance(snap, str):
            raise InvalidError(f"a snapshot, or its id, is wanted, not {type(snap).__name__}")
        return self.get(snap)


def put_record(tx: Transaction, snapshot: Snapshot, shelf: SnapshotCounters, signature: bytes) -> Snapshot:
    records.put(tx, snapshot, shelf, signature=signature)
    return snapshot


def _stands_there(reader: Reader, place: str) -> tuple[bytes | None, str | None]:
    """The tree that was last kept of a root, or restored to it, and the id of its snapshot. What differs
    from it was done by somebody else."""
    last = records.latest(reader, place)
    restored = journal.newest_known(reader, os.fsencode(place))
    if restored is not None and (last is None or restored.id > last.id):
        return restored.known, None
    return (bytes.fromhex(last.tree), last.id) if last else (None, None)


def _place(root: str | os.PathLike[str], *, force: bool) -> str:
    """The real path; of one that is not there yet, for it is made."""
    check_named(root)
    return check_root(root, force=force) if os.path.lexists(root) else os.path.realpath(root)
