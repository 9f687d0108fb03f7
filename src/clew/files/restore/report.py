"""What a restore tells: its report, and how far it has come."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from clew.files.objects.format import FOLDER, TreeEntry
from clew.files.restore.apply import Outcome
from clew.files.restore.plan import NEVER, Plan, Selection, Step, parents
from clew.model.files import (
    FileChange,
    FileFailure,
    FileProgress,
    KeptFile,
    KeptReason,
    OnProgress,
    RestoreReport,
)

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
