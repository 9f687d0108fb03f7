"""The files of one store: what `Store` and `Session` ask for, over snapshot, restore, diff and upkeep."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.conversation import checkpoints, moves
from clew.core.conversation.moves import FileMove
from clew.core.engine.engine import Engine
from clew.core.log.ids import check_count
from clew.core.log.rows import SessionRow
from clew.core.runs.access import Access, require_write
from clew.errors import InvalidError, NotFoundError, RestoreFailedError, SnapshotNotFoundError
from clew.files import journal, records
from clew.files.browse import files_at
from clew.files.diff.diff import diff, history
from clew.files.diff.recorded import Looked, Recorded, Recording
from clew.files.journal import HeadMove
from clew.files.objects.format import FOLDER, find_entry
from clew.files.objects.store import ObjectReader, directories_of
from clew.files.records import MOST_BYTES, SnapshotCounters, retry_if_collected
from clew.files.restore import restore as restoring
from clew.files.restore.job import MovingHead, Restored, RestoreJob, Tools
from clew.files.restore.prepare import clean_paths, planned
from clew.files.roots import OwnWork, check_named, check_root, no_directory
from clew.files.snapshot.take import SnapshotRules, SnapshotTaker
from clew.files.snapshot.watch import Watch
from clew.files.upkeep.gc import gc
from clew.files.upkeep.verify import verify
from clew.model import Checkpoint, Head, Moved, utc
from clew.model.files import (
    FileDiff,
    FileVersion,
    GcReport,
    OnConflict,
    OnProgress,
    PendingRestore,
    RestoreReport,
    Snapshot,
    SnapshotFile,
    VerifyReport,
)

SetCheckpoint: TypeAlias = Callable[..., Checkpoint]
"""An operation that sets a checkpoint: of a transaction, an access, and `snapshot=`."""


class Files:
    """Snapshots and restores of one store. Safe from any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._objects = ObjectReader(engine.read)
        self._watches: dict[str, Watch] = {}
        self._taker = SnapshotTaker(engine, self._watches)
        self._own = OwnWork(engine.host)

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
        rules: SnapshotRules,
        *,
        force: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Snapshot:
        """Scan a tree, store what is new of it, and keep its record."""
        place = check_root(root, force=force)
        return retry_if_collected(self._engine, partial(self._snapshot, place, rules, on_progress))

    def _snapshot(
        self, place: str, rules: SnapshotRules, on_progress: OnProgress | None, counters: SnapshotCounters
    ) -> Snapshot:
        taken = self._taker.take(place, "snapshot", rules, counters, on_progress=on_progress)
        signature = self._own.sign_snapshot(taken.snapshot)
        put = partial(records.put, snapshot=taken.snapshot, seen=counters, signature=signature)
        taken.keep(put)
        return taken.snapshot

    def checkpoint(
        self,
        access: Access,
        set_checkpoint: SetCheckpoint,
        root: str | os.PathLike[str],
        rules: SnapshotRules,
    ) -> Checkpoint:
        """Keep the files of a directory and set the checkpoint that names them, in one transaction."""
        place = check_root(root, force=False)
        work = partial(self._checkpoint, access, set_checkpoint, place, rules)
        return retry_if_collected(self._engine, work)

    def _checkpoint(
        self,
        access: Access,
        set_checkpoint: SetCheckpoint,
        place: str,
        rules: SnapshotRules,
        counters: SnapshotCounters,
    ) -> Checkpoint:
        taken = self._taker.take(place, "checkpoint", rules, counters)
        signature = self._own.sign_snapshot(taken.snapshot)
        put = partial(records.put, snapshot=taken.snapshot, seen=counters, signature=signature)
        name = partial(set_checkpoint, access=access, snapshot=taken.snapshot.id)
        return taken.keep(partial(_put_and_name, access, put, name))

    # -- records

    def get(self, id: str) -> Snapshot:
        with self._engine.read() as reader:
            return records.get(reader, id)

    def snapshots(
        self, root: str | os.PathLike[str] | None, limit: int, before: str | None = None
    ) -> list[Snapshot]:
        if root is not None:
            check_named(root)
        place = None if root is None else os.path.realpath(root)
        with self._engine.read() as reader:
            return records.list_all(reader, place, limit, before)

    def sessions(self, id: str) -> list[SessionRow]:
        """Those whose checkpoints name a snapshot."""
        with self._engine.read() as reader:
            kept = records.find_record(reader, id)
            if kept is None:
                raise SnapshotNotFoundError(id)
            relatives = reader.tree_sessions(kept.sessions) if kept.sessions else []
            return [
                row
                for row in relatives
                if row.deleted is None
                and any(one.snapshot == id for one in checkpoints.list_checkpoints(reader, row))
            ]

    def files(
        self, snap: Snapshot | str, path: str, after: str | None, limit: int, *, deep: bool
    ) -> list[SnapshotFile]:
        snapshot = self._known(snap)
        (name,) = clean_paths([path])
        behind = None if after is None else clean_paths([after])[0]
        found = files_at(self._objects, bytes.fromhex(snapshot.tree), name, behind, limit, deep=deep)
        if found is None:
            raise NotFoundError(f"snapshot {snapshot.id} holds nothing at {path!r}")
        return found

    def read_file(
        self, snap: Snapshot | str, path: str, *, start: int, length: int | None, max_bytes: int
    ) -> bytes:
        check_count(max_bytes, "max_bytes")
        check_count(start, "start", most=MOST_BYTES)
        if length is not None:
            check_count(length, "length", most=MOST_BYTES)
        snapshot = self._known(snap)
        (name,) = clean_paths([path])
        entry = find_entry(bytes.fromhex(snapshot.tree), name, directories_of(self._objects))
        if entry is None:
            why = "" if name in Recorded(snapshot) else "; it was not recorded at this point"
            raise NotFoundError(f"snapshot {snapshot.id} holds no file {path!r}{why}")
        if entry.kind == FOLDER:
            raise NotFoundError(f"{path!r} is a directory in snapshot {snapshot.id}: name a file in it")
        end = entry.size if length is None else min(entry.size, start + length)
        if end - start > max_bytes:
            raise InvalidError(
                f"{path!r} has {entry.size:,} bytes, more than max_bytes={max_bytes:,}: restore it (paths=),"
                " or read it in parts (start=, length=)"
            )
        return b"".join(self._objects.slices(entry, start, end))

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
    ) -> RestoreReport:
        job = self._job(snap, root, paths, on_conflict, force=force)
        job = msgspec.structs.replace(job, dry_run=dry_run, on_progress=on_progress)
        return restoring.restore(self._tools, job).report

    def rewind(
        self,
        access: Access,
        snapshot: str,
        to: Head,
        root: str | os.PathLike[str] | None,
        on_conflict: OnConflict,
    ) -> Moved:
        """Restore a snapshot and move the head of a session to where it was taken: both, or neither."""
        head = self._moving(access, HeadMove(access.sid, access.id, "rewind", to))
        job = self._job(snapshot, root, None, on_conflict)
        return _moved(restoring.restore(self._tools, msgspec.structs.replace(job, head=head)), access)

    def step(
        self,
        access: Access,
        what: Literal["undo", "redo"],
        files: FileMove,
        root: str | os.PathLike[str] | None,
        dry_run_to: Head | None = None,
    ) -> Moved | None:
        """Undo or redo a move of a head that restored files, which takes back exactly these; None: it touched
        no file. `dry_run_to`: only say that the head would go there, and what would be done."""
        with self._engine.read() as reader:
            record = journal.find_by_safety(reader, files.safety)
        if record is None:
            return None
        if dry_run_to is not None:
            return moves.moved_to(dry_run_to, self._take_back(record, root, dry_run=True).report)
        head = self._moving(access, HeadMove(access.sid, access.id, what))
        return _moved(self._take_back(record, root, head=head), access)

    def undo(self, id: str, root: str | os.PathLike[str] | None, *, dry_run: bool = False) -> RestoreReport:
        """Bring back the state before a restore: of one that was cut off, by going back; else by
        restoring what was kept before it."""
        with self._engine.read() as reader:
            record = journal.get(reader, id)
        if record.state == "done":
            return self._take_back(record, root, dry_run=dry_run).report
        if record.state != "pending":
            raise InvalidError(f"restore {id} is {record.state}: there is nothing to undo")
        if dry_run:
            self._own.check_restore(record, root)
            return restoring.rest_of(self._objects, record, backwards=True)
        return restoring.roll_back(self._tools, id, root).report

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

    def finish(self, id: str, root: str | os.PathLike[str] | None, *, dry_run: bool = False) -> RestoreReport:
        """Go on with a restore that was cut off; the head that was to move with it moves too."""
        with self._engine.read() as reader:
            record = journal.get(reader, id)
        if dry_run:
            self._own.check_restore(record, root)
            return restoring.rest_of(self._objects, record)
        head = None
        if record.move:
            move = journal.decode_move(record.move)
            access = Access(move.sid, move.session, self._engine.host)
            head = MovingHead(access, move, self._engine.now())
        return restoring.finish(self._tools, id, root, head).report

    @property
    def _tools(self) -> Tools:
        return Tools(self._engine, self._objects, self._taker, self._own)

    def _job(
        self,
        snap: Snapshot | str,
        root: str | os.PathLike[str] | None,
        paths: Sequence[str] | None,
        on_conflict: OnConflict,
        *,
        force: bool = False,
    ) -> RestoreJob:
        """Make a directory what it was in a snapshot."""
        snapshot = self._known(snap)
        place = _place(self._own_root(snapshot) if root is None else root, force=force)
        with self._engine.read() as reader:
            last, last_id = _stands_there(reader, place)
        target = bytes.fromhex(snapshot.tree)
        is_whole = bool(snapshot.root)  # what came with an import are single files, not a directory
        return RestoreJob(
            root=place,
            snapshot=snapshot.id,
            target=target,
            last=last,
            last_id=last_id,
            known=target if paths is None and is_whole else None,
            rules=self._rules(snapshot),
            omitted_by=snapshot,
            paths=None if paths is None else clean_paths(paths),
            on_conflict=on_conflict,
            # Only what an import names is looked at: what is there of it, and was not there then, goes.
            clears=not is_whole or place == snapshot.root or last is not None,
            force=force,
        )

    def _take_back(
        self,
        record: journal.Restore,
        root: str | os.PathLike[str] | None,
        *,
        head: MovingHead | None = None,
        dry_run: bool = False,
    ) -> Restored:
        """Restore what was kept before a restore that is over, where it was. If another user began it, `root`
        has to name its directory."""
        self._own.check_restore(record, root)
        before = self.get(record.safety)
        job = RestoreJob(
            root=os.fsdecode(record.root),
            snapshot=before.id,
            target=record.now,
            last=record.target,
            last_id=record.snapshot,
            known=record.last,
            rules=self._rules(before),
            # Only what the restore touched: whatever else happened since is not its to take back.
            paths=tuple(step.path for step in planned(self._objects, record).steps),
            modes=self._own.modes(record, record.modes),
            head=head,
            force=True,
            dry_run=dry_run,
        )
        return restoring.restore(self._tools, job)

    def _moving(self, access: Access, move: HeadMove) -> MovingHead:
        """Asked before any file is touched: a handle that may not move the head may not move the files."""
        now = self._engine.now()
        row = self._engine.run(lambda tx: require_write(tx, access))
        return MovingHead(access, move, now, row.tree)

    # -- comparing, collecting

    def diff(
        self,
        a: Snapshot | str,
        b: Snapshot | str | os.PathLike[str] | None,
        *,
        text: bool,
        renames: bool,
        after: str | None,
        limit: int | None,
    ) -> list[FileDiff]:
        first = self._known(a)
        tree, recorded = self._tree_of(first, b)
        return diff(
            self._objects,
            bytes.fromhex(first.tree),
            tree,
            recorded=(Recorded(first), recorded),
            text=text,
            renames=renames,
            after=None if after is None else clean_paths([after])[0],
            limit=limit,
        )

    def _tree_of(
        self, first: Snapshot, other: Snapshot | str | os.PathLike[str] | None
    ) -> tuple[bytes, Recording]:
        """The tree of a snapshot, or of a directory as it is now, and which files it says something of."""
        if other is None:
            other = Path(self._own_root(first))
        if isinstance(other, str):
            with self._engine.read() as reader:
                other = records.find(reader, other) or other
        if isinstance(other, Snapshot):
            return bytes.fromhex(other.tree), Recorded(other)
        place = check_root(other, force=True)
        tree = bytes.fromhex(self._taker.look(place, self._rules(first)).snapshot.tree)
        return tree, Looked(place)

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
            raise no_directory(snapshot.id)
        if not self._is_own(snapshot):
            raise self._own.refusal(f"snapshot {snapshot.id}", os.fsencode(snapshot.root))
        return snapshot.root

    def _rules(self, snapshot: Snapshot) -> SnapshotRules:
        """By which a directory is looked at again. A snapshot of another user does not include what is
        ignored."""
        include = snapshot.include if snapshot.include and self._is_own(snapshot) else ()
        return SnapshotRules(include, snapshot.exclude, snapshot.max_file_bytes)

    def _known(self, snap: Snapshot | str) -> Snapshot:
        if isinstance(snap, Snapshot):
            return snap
        if not isinstance(snap, str):
            raise InvalidError(f"a snapshot, or its id, is wanted, not {type(snap).__name__}")
        return self.get(snap)


def _put_and_name(
    access: Access, put: Callable[..., None], name: Callable[[Transaction], Checkpoint], tx: Transaction
) -> Checkpoint:
    """Keep a snapshot and set the checkpoint that names it."""
    row = require_write(tx, access)
    put(tx, sessions=row.tree)
    return name(tx)


def _moved(restored: Restored, access: Access) -> Moved:
    head, report = restored.head, restored.report
    assert head is not None
    if report.failed:
        first = report.failed[0]
        raise RestoreFailedError(
            f"the head of {access.id!r} moved, but {len(report.failed)} files could not be restored,"
            f" as {first.path!r} ({first.reason}); undo() brings both back",
            report,
        )
    return moves.moved_to(head, report)


def _stands_there(reader: Reader, place: str) -> tuple[bytes | None, str | None]:
    """The tree that was last kept of a root, or restored to it, and the id of its snapshot. What differs
    from it was done by others."""
    last = records.latest(reader, place)
    restored = journal.newest_known(reader, os.fsencode(place))
    if restored is not None and (last is None or restored.id > last.id):
        return restored.known, None
    return (bytes.fromhex(last.tree), last.id) if last else (None, None)


def _place(root: str | os.PathLike[str], *, force: bool) -> str:
    """The real path; of one that is not there yet, for it is made."""
    check_named(root)
    return check_root(root, force=force) if os.path.lexists(root) else os.path.realpath(root)
