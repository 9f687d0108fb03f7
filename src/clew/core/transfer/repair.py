"""Making a whole store of a damaged one: a new one, beside it."""

from __future__ import annotations

from clew.core.engine.engine import Engine
from clew.core.transfer.copy import Copying, check_apart
from clew.core.transfer.salvage.source import SalvageSource
from clew.errors import ConflictError
from clew.model.transfer import CopyReport, LostRecord, OnCopyProgress, RepairReport


def repair(engine: Engine, target: Engine, on_progress: OnCopyProgress | None = None) -> RepairReport:
    """Bring all that can be read into the new store `target`."""
    lost: dict[LostRecord, None] = {}

    def note(record: LostRecord) -> None:
        lost[record] = None

    check_apart(engine, target)
    _refuse_used(target)
    reading = SalvageSource(engine.read, note)
    report = Copying(engine, target, "rename", on_progress, reading, note).run()
    for id in report.skipped:
        note(LostRecord(kind="session", session=id, reason="it contradicts another session"))
    return _report(target, report, tuple(lost))


def _refuse_used(target: Engine) -> None:
    with target.read() as reader:
        totals = reader.totals(0)
        used = totals.sessions or totals.deleted or totals.entries or reader.list_packs(0, 1)
    if used:
        raise ConflictError(f"{target.backend.location} is in use: a repair writes a new store")


def _report(target: Engine, report: CopyReport, lost: tuple[LostRecord, ...]) -> RepairReport:
    empty = sum(one.kind == "entry" and "is kept" not in one.reason for one in lost)
    return RepairReport(
        location=target.backend.location,
        sessions=report.sessions,
        entries=report.entries - empty,
        snapshots=report.snapshots,
        objects=report.objects,
        lost=lost,
    )
