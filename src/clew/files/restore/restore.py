"""Make a directory what a snapshot says.

    restore     look at the directory, plan, keep the present state, write the journal, apply, close
    finish      go on with a restore that was cut off; what is done already stays
    roll_back   take back what was done of it

All three carry out steps that follow from the trees in the journal, so each can be cut off and repeated.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from clew.core.conversation.moves import FileMove
from clew.errors import ClewError, RestoreConflictError, RestoreFailedError
from clew.files import journal
from clew.files.journal import Restore
from clew.files.objects.format import FOLDER, TreeEntry
from clew.files.records import SnapshotCounters, next_id, retry_if_collected
from clew.files.restore.apply import Applier, Outcome
from clew.files.restore.job import MovingHead, Restored, RestoreJob, Tools
from clew.files.restore.plan import NEVER, Plan, Selection, Step, parents, reverse
from clew.files.restore.prepare import (
    RestorePlan,
    check_all_is_there,
    check_room,
    open_root,
    planned,
    prepare,
)
from clew.files.restore.root import Root
from clew.files.restore.safety import SafetySnapshot
from clew.model.files import (
    FileChange,
    FileFailure,
    FileProgress,
    KeptFile,
    KeptReason,
    OnProgress,
    RestoreReport,
)

if TYPE_CHECKING:
    from clew.backends.contract import Transaction
    from clew.files.objects.store import ObjectReader
    from clew.model import Head


def restore(tools: Tools, job: RestoreJob) -> Restored:
    """Do a job; all over again if `gc` removed meanwhile what it had seen in the store."""
    return retry_if_collected(tools.engine, partial(_restore, tools, job))


def _restore(tools: Tools, job: RestoreJob, counters: SnapshotCounters) -> Restored:
    with SafetySnapshot(tools, job, counters) as safety:
        return restore_once(tools, job, safety)


def restore_once(tools: Tools, job: RestoreJob, safety: SafetySnapshot) -> Restored:
    """The whole restore, from top to bottom. `safety` looks at the present state, and keeps it."""
    engine, root = tools.engine, os.fsencode(job.root)
    with engine.read() as reader:
        journal.check_free(reader, root, tools.own.is_in_the_way)
        now = engine.host.now()
        id = next_id(reader, now)
    if not job.dry_run:
        open_root(job.root, make=True).close()

    prepared = prepare(job, safety)
    steps, conflicts = prepared.plan.steps, prepared.plan.conflicts
    if job.on_conflict == "refuse" and conflicts:
        raise RestoreConflictError(job.root, [os.fsdecode(path) for path in conflicts])
    report = _report_of_job(job, prepared, id if steps else None, safety.id)
    if job.dry_run:
        return Restored(report.of(steps))
    if not steps:
        return Restored(report.of(()), engine.run(partial(_keep_only, job=job, safety=safety)))
    check_all_is_there(safety.objects, steps)
    check_room(job.root, steps)

    record = Restore(
        id=id,
        root=root,
        snapshot=job.snapshot,
        target=job.target,
        last=job.last,
        last_id=job.last_id,
        safety=safety.id or "",
        now=prepared.now,
        paths=job.paths,
        overwrite=job.overwrites,
        clears=job.clears,
        folders=tuple(sorted(prepared.present.folders)),
        blocked=tuple(sorted(prepared.present.blocked)),
        modes=prepared.modes,
        new_modes=None if job.modes is None else dict(job.modes),
        move=b"" if job.head is None else journal.encode_move(job.head.move),
        known=job.known,
        created=now,
        token=secrets.token_hex(8),
        holder=engine.host.me,
    )
    record = msgspec.structs.replace(record, signature=tools.own.sign_restore(record))
    with journal.Working(id):
        engine.run(partial(_begin, tools=tools, record=record, safety=safety))
        work = _Work(record, steps, safety.objects, report, "done", job.head, job.on_progress)
        return _carry_out(tools, work)


def finish(
    tools: Tools, id: str, root: str | os.PathLike[str] | None = None, head: MovingHead | None = None
) -> Restored:
    """Go on with a restore that was cut off, with the plan that it had. One that another user began is
    refused unless `root` names its directory."""
    with journal.Working(id):
        record = _claim(tools, id, root)
        plan = planned(tools.objects, record)
        report = _report_of_record(record, plan)
        work = _Work(record, plan.steps, tools.objects, report, "done", head, is_repeated=True)
        return _carry_out(tools, work)


def roll_back(tools: Tools, id: str, root: str | os.PathLike[str] | None = None) -> Restored:
    """Take back what was done by a restore that was cut off. `root` as for `finish`."""
    with journal.Working(id):
        record = _claim(tools, id, root)
        plan = planned(tools.objects, record)
        report = _report_of_record(record, plan)
        steps = reverse(plan.steps)
        work = _Work(record, steps, tools.objects, report, "rolled back", is_repeated=True)
        return _carry_out(tools, work)


def rest_of(reader: ObjectReader, record: Restore, *, backwards: bool = False) -> RestoreReport:
    """What `finish`, or `roll_back`, would do; also what of it is done already."""
    plan = planned(reader, record)
    steps = reverse(plan.steps) if backwards else plan.steps
    return msgspec.structs.replace(_report_of_record(record, plan).of(steps), dry_run=True)


# -- transactions


def _keep_only(tx: Transaction, *, job: RestoreJob, safety: SafetySnapshot) -> Head | None:
    """Nothing has to be changed: there is no journal."""
    head = None
    if job.head is not None:
        files = FileMove(os.fsencode(job.root), safety.id or "", job.snapshot)
        head = job.head.carry_out(tx, files)
    safety.put(tx)
    return head


def _begin(tx: Transaction, *, tools: Tools, record: Restore, safety: SafetySnapshot) -> None:
    """The journal and the safety snapshot become durable at once, before the first change."""
    journal.begin(tx, record, tools.own.is_in_the_way)
    safety.put(tx)


def _claim(tools: Tools, id: str, root: str | os.PathLike[str] | None) -> Restore:
    check = partial(tools.own.check_restore, named=root)
    record = tools.engine.run(lambda tx: journal.claim(tx, id, tools.engine.host, check))
    return msgspec.structs.replace(
        record,
        modes=tools.own.modes(record, record.modes),
        new_modes=tools.own.modes(record, record.new_modes),
    )


def _close(tx: Transaction, *, work: _Work, whole: bool) -> Head | None:
    """The journal is closed and the head moves: both, or neither."""
    record = work.record
    journal.close(tx, record.id, work.state, whole=whole)
    if work.head is None:
        return None
    return work.head.carry_out(tx, FileMove(record.root, record.safety, record.snapshot))


# -- carrying out


class _Work(msgspec.Struct, frozen=True):
    """Steps to carry out, under a journal."""

    record: Restore
    steps: Sequence[Step]
    objects: ObjectReader
    report: ReportMaker
    state: journal.RestoreState
    """What the restore is when they are done."""
    head: MovingHead | None = None
    on_progress: OnProgress | None = None
    is_repeated: bool = False
    """An earlier attempt may have left something half-written."""


def _carry_out(tools: Tools, work: _Work) -> Restored:
    try:
        outcome = _apply(work)
        head = tools.engine.run(partial(_close, work=work, whole=not outcome.failed))
    except Exception:
        _give_up(tools, work.record.id)
        raise
    return Restored(work.report.of(work.steps, outcome), head)


def _apply(work: _Work) -> Outcome:
    record, steps = work.record, work.steps
    modes = record.new_modes if work.state == "done" else record.modes
    tell = Teller(work.on_progress, steps)
    place = os.fsdecode(record.root)
    outcome = Outcome(set(), {}, set())
    try:
        with Root(place) as root:
            applier = Applier(root, work.objects, steps, record.token, modes, tell.of_file)
            outcome = applier.outcome
            if work.is_repeated:
                applier.clean()
            applier.run()
    except OSError as exc:
        done = f"{len(outcome.done)} of {len(steps)} paths"
        message = f"restore {record.id} of {place} stopped after {done}: {exc.strerror or exc}"
        raise RestoreFailedError(message, work.report.of(steps, outcome)) from exc
    tell.of_end()
    return outcome


def _give_up(tools: Tools, id: str) -> None:
    try:
        tools.engine.run(lambda tx: journal.give_up(tx, id))
    except ClewError:
        pass  # the store cannot be written: this process, or its end, lets others take over


# -- what a restore tells: its report, and how far it has come

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


def _report_of_job(job: RestoreJob, prepared: RestorePlan, id: str | None, safety: str | None) -> ReportMaker:
    return ReportMaker(
        None if job.dry_run else id,
        job.snapshot,
        job.root,
        safety,
        prepared.plan,
        overwrite=job.overwrites,
        dry_run=job.dry_run,
        left_out=prepared.left_out,
        selection=Selection(job.paths),
    )


def _report_of_record(record: Restore, plan: Plan) -> ReportMaker:
    """Of a restore that is gone on with: what it left out is not looked for again."""
    root = os.fsdecode(record.root)
    return ReportMaker(
        record.id, record.snapshot, root, record.safety, plan, overwrite=record.overwrite,
        selection=Selection(record.paths),
    )  # fmt: skip
