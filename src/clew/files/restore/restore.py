"""Make a directory what a snapshot says: plan, safety snapshot, journal, apply, report.

    restore     from the beginning
    finish      go on with one that was cut off; what is done already stays
    roll_back   take back what was done of it

All three carry out steps that follow from the trees in the journal, so each can be cut off and repeated.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, get_args

import msgspec

from clew.backends.contract import Transaction
from clew.errors import ClewError, InvalidError, RestoreConflictError, RestoreFailedError
from clew.files import journal
from clew.files.journal import Restore
from clew.files.records import next_id
from clew.files.restore.applying import Applier, Outcome
from clew.files.restore.plan import Plan, Selection, Step, reverse
from clew.files.restore.planning import Draft, Spare, clean_paths, open_root, planned
from clew.files.restore.presence import check_all_is_there, check_room
from clew.files.restore.reporting import ReportMaker, Teller
from clew.files.restore.rooted import Root
from clew.model.files import KeptReason, OnConflict, OnProgress, RestoreReport

if TYPE_CHECKING:
    from clew.core.retention.sweep import Machinery
    from clew.files.objects.store import ObjectReader
    from clew.files.signatures import OwnWork

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
    draft = Draft(reader, target, last, wanted, overwrite=overwrite, clears=clears, spare=spare)
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
