"""Make a directory what a snapshot says."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

import msgspec

from clew.backends.contract import Transaction
from clew.errors import ClewError, InvalidError, ObjectMissingError, RestoreConflictError, RestoreFailedError
from clew.files import journal, records
from clew.files.journal import Restore
from clew.files.objects.format import FOLDER, TreeEntry
from clew.files.objects.store import Overlay
from clew.files.records import CollectedError, SnapshotCounters, next_id
from clew.files.restore.apply import Applier, Outcome
from clew.files.restore.plan import NEVER, Plan, Selection, Step, parents, reverse
from clew.files.restore.prepare import (
    RestorePlan,
    Spare,
    check_all_is_there,
    check_room,
    clean_paths,
    open_root,
    planned,
)
from clew.files.restore.root import Root
from clew.files.roots import check_root
from clew.files.snapshot.ignore import GIT
from clew.model.files import (
    FileChange,
    FileFailure,
    FileProgress,
    KeptFile,
    KeptReason,
    OnConflict,
    OnProgress,
    RestoreReport,
)

if TYPE_CHECKING:
    from clew.core.engine.engine import Engine
    from clew.core.retention.sweep import Machinery
    from clew.files.objects.store import ObjectReader
    from clew.files.signatures import OwnWork
    from clew.files.snapshot.take import PendingSnapshot, Rules, SnapshotTaker

# ── What a restore tells: its report, and how far it has come ─────────────────────────────────────

TOLD_EVERY: Final = 64
"""Files between two calls of `on_progress`."""


class ReportMaker:
    """Makes the report of a restore, at whatever point it has come to."""

    def __init__(
        self,
        id: str | None,
        snapshot: str,
        root: str,
        safety: str | None,
        plan: Plan,
        *,
        overwrite: bool,
        dry_run: bool = False,
        left_out: Mapping[bytes, KeptReason] | None = None,
        selection: Selection | None = None,
    ) -> None:
        """`left_out`: what the plan has no step for, because no snapshot holds it, and why."""
        self._inhabited = {above for path in left_out or () for above in parents(path)}
        self._empty = RestoreReport(
            id=id,
            dry_run=dry_run,
            snapshot=snapshot,
            root=root,
            safety=safety,
            changes=(),
            conflicts=tuple(map(os.fsdecode, plan.conflicts)),
            kept=_kept(plan, left_out or {}, selection or Selection(None), overwrite=overwrite),
            failed=(),
        )

    def of(self, steps: Iterable[Step], outcome: Outcome | None = None) -> RestoreReport:
        """What was done; without an outcome: what would be done."""
        done = [step for step in steps if self._is_done(step, outcome)]
        failed = sorted(outcome.failed.items()) if outcome else ()
        return msgspec.structs.replace(
            self._empty,
            changes=tuple(map(_change, done)),
            failed=tuple(FileFailure(os.fsdecode(path), reason) for path, reason in failed),
        )

    def _is_done(self, step: Step, outcome: Outcome | None) -> bool:
        if outcome is None:  # a directory stays if it holds what stays
            return step.new is not None or step.path not in self._inhabited
        return step.path in outcome.done


def _kept(
    plan: Plan, left_out: Mapping[bytes, KeptReason], selection: Selection, *, overwrite: bool
) -> tuple[KeptFile, ...]:
    found = {
        path: reason
        for path, reason in left_out.items()
        if selection.is_everything or not selection.paths.isdisjoint([path, *parents(path)])
    }
    for path in plan.unknown:
        found.setdefault(path, "unknown")
    for path in plan.kept:
        is_git = path.rpartition(b"/")[2].lower() == NEVER
        found.setdefault(path, "repository" if is_git else "in the way" if overwrite else "changed")
    return tuple(KeptFile(os.fsdecode(path), reason) for path, reason in sorted(found.items()))


def _change(step: Step) -> FileChange:
    return FileChange(
        path=os.fsdecode(step.path),
        verb=step.verb,
        kind=step.kind,
        size=_file_size(step.new),
        old_size=_file_size(step.old),
        conflict=step.conflict,
    )


def _file_size(entry: TreeEntry | None) -> int:
    return entry.size if entry is not None and entry.is_file else 0


class Teller:
    """Tells how far a restore has come, from time to time."""

    def __init__(self, on_progress: OnProgress | None, steps: Sequence[Step]) -> None:
        self._on_progress = on_progress
        self._total = sum(step.new is not None and step.new.kind != FOLDER for step in steps)
        self._files = 0
        self._bytes = 0

    def of_file(self, size: int) -> None:
        self._files += 1
        self._bytes += size
        if self._files % TOLD_EVERY == 0:
            self.of_end()

    def of_end(self) -> None:
        if self._on_progress is not None:
            self._on_progress(
                FileProgress(phase="restore", files=self._files, bytes=self._bytes, total_files=self._total)
            )


# ── Safety ────────────────────────────────────────────────────────────────────────────────────────
# The safety snapshot of a restore: the present state, kept in the transaction that begins the restore.


class Safety:
    """Taken before the plan is made, put when it is known that there is something to do."""

    def __init__(
        self,
        engine: Engine,
        taker: SnapshotTaker,
        objects: ObjectReader,
        place: str,
        rules: Rules,
        shelf: SnapshotCounters,
        *,
        own: OwnWork,
        sessions: int,
        force: bool,
    ) -> None:
        """`own` signs it. `sessions`: the tree of the session whose head moves with the restore."""
        self.objects = Overlay(objects)
        """Reads what is stored, and what was taken."""
        self._engine = engine
        self._taker = taker
        self._place = place
        self._rules = rules
        self._shelf = shelf
        self._own = own
        self._sessions = sessions
        self._force = force
        self._taken: PendingSnapshot | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(exc, Exception) and self._taken is not None:
            self._taken.store_packs()
        if isinstance(exc, ObjectMissingError):
            self._refuse_if_collected(exc)

    def _refuse_if_collected(self, exc: ObjectMissingError) -> None:
        """No record names yet what was taken: `gc` may have removed it before the plan was made."""
        with self._engine.read() as reader:
            if records.counters_of(reader).collected != self._shelf.collected:
                raise CollectedError(f"objects were removed while {self._place} was looked at") from exc

    @property
    def id(self) -> str:
        assert self._taken is not None
        return self._taken.snapshot.id

    def take(self, also: Collection[bytes]) -> tuple[str, bytes]:
        """Look at the present state, with these paths whatever is ignored: (id, tree)."""
        if self._taken is not None:
            self._taken.store_packs()  # the next scan asks the store for them
        check_root(self._place, force=self._force)  # once more: it may have been made just now
        self._taken = self._taker.take(self._place, "safety", self._rules, self._shelf, also)
        self.objects.lay(self._taken.packs)
        return self.id, bytes.fromhex(self._taken.snapshot.tree)

    def look(self, also: Collection[bytes]) -> bytes:
        """The tree of the present state, for a dry run: no record will be kept of it."""
        self._taken = self._taker.look(self._place, self._rules, also, "safety")
        return bytes.fromhex(self._taken.snapshot.tree)

    def left_out(self) -> dict[bytes, KeptReason]:
        """What is there and was not taken, and why; empty if there is no such directory yet."""
        if self._taken is None:
            return {}
        skipped = {os.fsencode(one.path): one.reason for one in self._taken.snapshot.skipped}
        ignored = {path: _reason(path) for path in self._taken.ignored}
        return {**ignored, **skipped}

    def put(self, tx: Transaction) -> None:
        assert self._taken is not None
        taken = self._taken.snapshot
        signature = self._own.sign_snapshot(taken)
        records.put(tx, taken, self._shelf, sessions=self._sessions, signature=signature)
        self._taken.add_packs(tx)


def _reason(path: bytes) -> KeptReason:
    return "repository" if path == os.fsencode(GIT) else "ignored"


# ── Make a directory what a snapshot says: plan, safety snapshot, journal, apply, report ──────────
#     restore     from the beginning
#     finish      go on with one that was cut off; what is done already stays
#     roll_back   take back what was done of it
#
# All three carry out steps that follow from the trees in the journal, so each can be cut off and repeated.

Finishing: TypeAlias = Callable[[Transaction], object]


def restore(
    engine: Machinery,
    reader: ObjectReader,
    *,
    snapshot_id: str,
    target: bytes,
    last: bytes | None,
    root: str,
    take_safety: Callable[[Collection[bytes]], tuple[str, bytes]],
    look: Callable[[Collection[bytes]], bytes],
    paths: Sequence[str] | None = None,
    on_conflict: OnConflict = "overwrite",
    clears: bool = False,
    spare: Spare | None = None,
    left_out: Callable[[], Mapping[bytes, KeptReason]] = dict,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
    move: bytes = b"",
    finishing: Finishing | None = None,
    keeping: Finishing | None = None,
    last_id: str | None = None,
    modes: Mapping[bytes, int] | None = None,
    known: bytes | None = None,
    own: OwnWork | None = None,
) -> RestoreReport:
    """Make `root` (a real path) what the tree `target` says.

    Args:
        last: The tree of the newest snapshot of this root that is no safety one; `last_id` its id.
        take_safety: Looks at the present state, with these paths whatever is ignored: (id, tree).
        keeping: Puts what that found, unless it is there already: called in the transaction that begins
            the journal, so that both are durable at once. `reader` knows it before.
        look: The same for a dry run: only the tree, no record.
        clears: What neither `target` nor `last` names is a conflict; else it is left alone.
        spare: Which of the files that would be deleted stay.
        left_out: What the last look did not take, and what was spared, with the reasons.
        move: Kept in the journal for whoever finishes the restore.
        finishing: Called in the transaction that closes the journal.
        modes: Permissions of what is made, those of a restore that this one undoes.
        known: The tree that the next restore may take for what stands here by our own doing.
        own: Signs the journal; without it nobody goes on with this restore but by naming its root.
    """
    if on_conflict not in get_args(OnConflict):
        raise InvalidError(f"on_conflict must be one of {get_args(OnConflict)}, not {on_conflict!r}")
    wanted = None if paths is None else clean_paths(paths)
    place = os.fsencode(root)
    is_in_the_way: journal.IsInTheWay = own.is_in_the_way if own is not None else lambda _: True
    with engine.read() as store:
        journal.check_free(store, place, is_in_the_way)
        now = engine.here.now()
        id = next_id(store, now)
    if not dry_run:
        open_root(root, make=True).close()
    overwrite = on_conflict == "overwrite"
    draft = RestorePlan(reader, target, last, wanted, overwrite=overwrite, clears=clears, spare=spare)
    safety = draft.look_at(root, look if dry_run else None, take_safety)
    if on_conflict == "refuse" and draft.plan.conflicts:
        raise RestoreConflictError(root, [os.fsdecode(path) for path in draft.plan.conflicts])
    report = partial(
        ReportMaker,
        snapshot=snapshot_id,
        root=root,
        safety=safety,
        plan=draft.plan,
        overwrite=overwrite,
        dry_run=dry_run,
        left_out=left_out(),
        selection=Selection(wanted),
    )
    if dry_run:
        return report(None).of(draft.plan.steps)
    if not draft.plan.steps:
        _run_all(engine, finishing, keeping)
        return report(None).of(())
    check_all_is_there(reader, draft.plan.steps)
    check_room(root, draft.plan.steps)
    record = Restore(
        id=id,
        root=place,
        snapshot=snapshot_id,
        last_id=last_id,
        safety=safety or "",
        new_modes=None if modes is None else dict(modes),
        move=move,
        known=known,
        created=now,
        token=secrets.token_hex(8),
        holder=engine.here.me,
        **draft.essence(),
    )
    if own is not None:
        record = msgspec.structs.replace(record, signature=own.sign_restore(record))
    with journal.Working(record.id):
        _run_all(engine, lambda tx: journal.begin(tx, record, is_in_the_way), keeping)
        work = _Work(engine, reader, record, draft.plan.steps, report(record.id), on_progress)
        return work.carry_out("done", record.new_modes, finishing)


def _run_all(engine: Machinery, *works: Finishing | None) -> None:
    """In one transaction, in this order."""

    def all_of_them(tx: Transaction) -> None:
        for work in works:
            if work is not None:
                work(tx)

    if any(works):
        engine.run(all_of_them)


def finish(
    engine: Machinery,
    reader: ObjectReader,
    id: str,
    *,
    own: OwnWork | None = None,
    root: str | os.PathLike[str] | None = None,
    finishing: Finishing | None = None,
    on_progress: OnProgress | None = None,
) -> RestoreReport:
    """Go on with a restore that was cut off, with the plan that it had. `own` refuses one that somebody else
    began, unless `root` names its directory."""
    with journal.Working(id):
        record = _claim(engine, id, own, root)
        plan = planned(reader, record)
        work = _Work(engine, reader, record, plan.steps, _report_of(record, plan), on_progress)
        return work.carry_out("done", record.new_modes, finishing, is_repeated=True)


def roll_back(
    engine: Machinery,
    reader: ObjectReader,
    id: str,
    *,
    own: OwnWork | None = None,
    root: str | os.PathLike[str] | None = None,
    finishing: Finishing | None = None,
    on_progress: OnProgress | None = None,
) -> RestoreReport:
    """Take back what was done by a restore that was cut off. `own` and `root` as for `finish`."""
    with journal.Working(id):
        record = _claim(engine, id, own, root)
        plan = planned(reader, record)
        steps = reverse(plan.steps)
        work = _Work(engine, reader, record, steps, _report_of(record, plan), on_progress)
        return work.carry_out("rolled back", record.modes, finishing, is_repeated=True)


def _claim(engine: Machinery, id: str, own: OwnWork | None, root: str | os.PathLike[str] | None) -> Restore:
    if own is None:
        return engine.run(lambda tx: journal.claim(tx, id, engine.here))
    check = partial(own.check_restore, named=root)
    record = engine.run(lambda tx: journal.claim(tx, id, engine.here, check))
    return msgspec.structs.replace(
        record,
        modes=own.modes(record, record.modes),
        new_modes=own.modes(record, record.new_modes),
    )


def rest_of(reader: ObjectReader, record: Restore, *, backwards: bool = False) -> RestoreReport:
    """What `finish`, or `roll_back`, would do; also what of it is done already."""
    plan = planned(reader, record)
    steps = reverse(plan.steps) if backwards else plan.steps
    return msgspec.structs.replace(_report_of(record, plan).of(steps), dry_run=True)


def _report_of(record: Restore, plan: Plan) -> ReportMaker:
    """Of a restore that is gone on with: nobody looks again at what it left out."""
    root = os.fsdecode(record.root)
    return ReportMaker(
        record.id, record.snapshot, root, record.safety, plan, overwrite=record.overwrite,
        selection=Selection(record.paths),
    )  # fmt: skip


class _Work:
    """One attempt to carry out steps, under a journal."""

    def __init__(
        self,
        engine: Machinery,
        reader: ObjectReader,
        record: Restore,
        steps: Sequence[Step],
        report: ReportMaker,
        on_progress: OnProgress | None,
    ) -> None:
        self._engine = engine
        self._reader = reader
        self._record = record
        self._steps = steps
        self._root = os.fsdecode(record.root)
        self._report = report
        self._tell = Teller(on_progress, steps)

    def carry_out(
        self,
        state: journal.RestoreState,
        modes: Mapping[bytes, int] | None,
        finishing: Finishing | None,
        *,
        is_repeated: bool = False,
    ) -> RestoreReport:
        try:
            outcome = self._apply(modes, is_repeated=is_repeated)
            whole = not outcome.failed
            self._engine.run(lambda tx: self._close(tx, state, finishing, whole=whole))
        except Exception:
            self._give_up()
            raise
        return self._report.of(self._steps, outcome)

    def _apply(self, modes: Mapping[bytes, int] | None, *, is_repeated: bool) -> Outcome:
        outcome = Outcome(set(), {}, set())
        try:
            with Root(self._root) as root:
                applier = Applier(
                    root, self._reader, self._steps, self._record.token, modes, self._tell.of_file
                )
                outcome = applier.outcome
                if is_repeated:
                    applier.clean()
                applier.run()
        except OSError as exc:
            done = f"{len(outcome.done)} of {len(self._steps)} paths"
            message = f"restore {self._record.id} of {self._root} stopped after {done}: {exc.strerror or exc}"
            raise RestoreFailedError(message, self._report.of(self._steps, outcome)) from exc
        self._tell.of_end()
        return outcome

    def _close(
        self, tx: Transaction, state: journal.RestoreState, finishing: Finishing | None, *, whole: bool
    ) -> None:
        journal.close(tx, self._record.id, state, whole=whole)
        if finishing is not None:
            finishing(tx)

    def _give_up(self) -> None:
        try:
            self._engine.run(lambda tx: journal.give_up(tx, self._record.id))
        except ClewError:
            pass  # the store is not to be written: this process, or its end, lets others take over
