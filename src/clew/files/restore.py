"""Make a directory what a snapshot says: plan, safety snapshot, journal, apply, report.

    restore     from the beginning
    finish      go on with one that was cut off; what is done already stays
    roll_back   take back what was done of it

All three carry out steps that follow from the trees in the journal, so each can be cut off and repeated.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

import msgspec
from uuid_utils import uuid7

from clew.backends.contract import Transaction
from clew.core.objects import CHUNKED, FOLDER, TreeEntry, check_name, decode_chunks
from clew.core.restoring import EMPTY_TREE, Plan, Present, Selection, Step, find_entry, make_plan, reverse
from clew.errors import ClewError, InvalidError, ObjectMissingError, RestoreConflictError, RestoreFailedError
from clew.files import journal
from clew.files.applying import Applier, Outcome
from clew.files.journal import Restore
from clew.files.rooted import Root
from clew.files.survey import survey, unusual_modes
from clew.model.files import FileChange, FileFailure, FileProgress, OnConflict, OnProgress, RestoreReport

if TYPE_CHECKING:
    from clew.files.objects import ObjectReader
    from clew.work.sweep import Machinery

Finishing: TypeAlias = Callable[[Transaction], object]

ASKED_AT_ONCE: Final = 500
TOLD_EVERY: Final = 64
"""Files between two calls of `on_progress`."""


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
    on_conflict: OnConflict = "keep",
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
    move: bytes = b"",
    finishing: Finishing | None = None,
    last_id: str | None = None,
    modes: Mapping[bytes, int] | None = None,
) -> RestoreReport:
    """Make `root` (a real path) what the tree `target` says.

    Args:
        last: The tree of the newest snapshot of this root that is no safety one; `last_id` its id.
        take_safety: Keeps the present state, with these paths whatever is ignored: (id, tree).
        look: The same for a dry run: only the tree, no record.
        move: Kept in the journal for whoever finishes the restore.
        finishing: Called in the transaction that closes the journal.
        modes: Permissions of what is made, those of a restore that this one undoes.
    """
    if on_conflict not in get_args(OnConflict):
        raise InvalidError(f"on_conflict must be one of {get_args(OnConflict)}, not {on_conflict!r}")
    if isinstance(paths, str):
        raise InvalidError(f"paths must be a sequence of paths, not the text {paths!r}")
    wanted = None if paths is None else tuple(dict.fromkeys(map(_clean_path, paths)))
    place = os.fsencode(root)
    with engine.read() as store:
        journal.check_free(store, place)
    if not dry_run:
        os.makedirs(root, exist_ok=True)
    draft = _Draft(reader, target, last, wanted, overwrite=on_conflict == "overwrite")
    safety = draft.look_at(root, look if dry_run else None, take_safety)
    if on_conflict == "refuse" and draft.plan.conflicts:
        raise RestoreConflictError(root, [os.fsdecode(path) for path in draft.plan.conflicts])
    report = _Report(None, snapshot_id, root, safety, draft.plan, dry_run=dry_run)
    if dry_run:
        return report.of(draft.plan.steps)
    if not draft.plan.steps:
        if finishing is not None:
            engine.run(finishing)
        return report.of(())
    _check_all_is_there(engine, reader, draft.plan.steps)
    record = Restore(
        id=uuid7().hex,
        root=place,
        snapshot=snapshot_id,
        target=target,
        last=last,
        last_id=last_id,
        safety=safety or "",
        now=draft.now,
        paths=wanted,
        overwrite=draft.overwrite,
        folders=tuple(sorted(draft.present.folders)),
        blocked=tuple(sorted(draft.present.blocked)),
        modes=draft.modes,
        new_modes=None if modes is None else dict(modes),
        move=move,
        created=engine.here.now(),
        token=secrets.token_hex(8),
        holder=engine.here.me,
    )
    with journal.Working(record.id):
        engine.run(lambda tx: journal.begin(tx, record))
        work = _Work(engine, reader, record, draft.plan, draft.plan.steps, on_progress)
        return work.carry_out("done", record.new_modes, finishing)


def finish(
    engine: Machinery,
    reader: ObjectReader,
    id: str,
    *,
    finishing: Finishing | None = None,
    on_progress: OnProgress | None = None,
) -> RestoreReport:
    """Go on with a restore that was cut off, with the plan that it had."""
    record = engine.run(lambda tx: journal.claim(tx, id, engine.here))
    with journal.Working(id):
        plan = _planned(reader, record)
        work = _Work(engine, reader, record, plan, plan.steps, on_progress)
        return work.carry_out("done", record.new_modes, finishing, is_repeated=True)


def roll_back(
    engine: Machinery,
    reader: ObjectReader,
    id: str,
    *,
    finishing: Finishing | None = None,
    on_progress: OnProgress | None = None,
) -> RestoreReport:
    """Take back what was done by a restore that was cut off."""
    record = engine.run(lambda tx: journal.claim(tx, id, engine.here))
    with journal.Working(id):
        plan = _planned(reader, record)
        work = _Work(engine, reader, record, plan, reverse(plan.steps), on_progress)
        return work.carry_out("rolled back", record.modes, finishing, is_repeated=True)


class _Draft:
    """A plan in the making: the disk may hold what the trees do not show."""

    def __init__(
        self,
        reader: ObjectReader,
        target: bytes,
        last: bytes | None,
        wanted: tuple[bytes, ...] | None,
        *,
        overwrite: bool,
    ) -> None:
        self._reader = reader
        self._target = target
        self._last = last
        self._wanted = wanted
        self.overwrite = overwrite
        self.now = EMPTY_TREE
        self.present = Present()
        self.modes: dict[bytes, int] = {}
        self.plan: Plan

    def look_at(
        self,
        root: str,
        look: Callable[[Collection[bytes]], bytes] | None,
        take_safety: Callable[[Collection[bytes]], tuple[str, bytes]],
    ) -> str | None:
        """Plan for the present state; the id of its snapshot."""

        def save(also: Collection[bytes]) -> str | None:
            if look is None:
                id, self.now = take_safety(also)
                return id
            self.now = look(also)
            return None

        if not os.path.isdir(root):  # of a dry run
            self._check_paths()
            self._make()
            return None
        safety = save(())
        self._check_paths()
        with Root(root) as opened:
            self._make()
            seen = survey(opened, self.plan)
            if seen.unsaved:
                safety = save(seen.unsaved)
                self._make()
                seen = survey(opened, self.plan)
            self.present = Present(seen.folders, seen.unsaved | seen.foreign)
            if self.present != Present():
                self._make()
            if look is None:
                self.modes = unusual_modes(opened, self.plan)
        return safety

    def _make(self) -> None:
        self.plan = make_plan(
            self._target,
            self._last,
            self.now,
            self._reader.directory,
            selection=Selection(self._wanted),
            overwrite=self.overwrite,
            present=self.present,
        )

    def _check_paths(self) -> None:
        trees = [tree for tree in (self._target, self._last, self.now) if tree is not None]
        unknown = [
            os.fsdecode(path)
            for path in self._wanted or ()
            if not any(find_entry(tree, path, self._reader.directory) for tree in trees)
        ]
        if unknown:
            raise InvalidError(f"no snapshot knows {', '.join(map(repr, unknown))}")


def _planned(reader: ObjectReader, record: Restore) -> Plan:
    return make_plan(
        record.target,
        record.last,
        record.now,
        reader.directory,
        selection=Selection(record.paths),
        overwrite=record.overwrite,
        present=Present(frozenset(record.folders), frozenset(record.blocked)),
    )


class _Work:
    """One attempt to carry out steps, under a journal."""

    def __init__(
        self,
        engine: Machinery,
        reader: ObjectReader,
        record: Restore,
        plan: Plan,
        steps: Sequence[Step],
        on_progress: OnProgress | None,
    ) -> None:
        self._engine = engine
        self._reader = reader
        self._record = record
        self._steps = steps
        self._root = os.fsdecode(record.root)
        self._report = _Report(record.id, record.snapshot, self._root, record.safety, plan)
        self._tell = _Teller(on_progress, steps)

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
            self._engine.run(lambda tx: self._close(tx, state, finishing))
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

    def _close(self, tx: Transaction, state: journal.RestoreState, finishing: Finishing | None) -> None:
        journal.close(tx, self._record.id, state)
        if finishing is not None:
            finishing(tx)

    def _give_up(self) -> None:
        try:
            self._engine.run(lambda tx: journal.give_up(tx, self._record.id))
        except ClewError:
            pass  # the store is not to be written: this process, or its end, lets others take over


class _Report:
    def __init__(
        self,
        id: str | None,
        snapshot: str,
        root: str,
        safety: str | None,
        plan: Plan,
        *,
        dry_run: bool = False,
    ) -> None:
        self._empty = RestoreReport(
            id=id,
            dry_run=dry_run,
            snapshot=snapshot,
            root=root,
            safety=safety,
            changes=(),
            conflicts=tuple(map(os.fsdecode, plan.conflicts)),
            kept=tuple(map(os.fsdecode, plan.kept)),
            failed=(),
        )

    def of(self, steps: Iterable[Step], outcome: Outcome | None = None) -> RestoreReport:
        """What was done; without an outcome: what would be done."""
        done = [step for step in steps if outcome is None or step.path in outcome.done]
        failed = sorted(outcome.failed.items()) if outcome else ()
        return msgspec.structs.replace(
            self._empty,
            changes=tuple(map(_change, done)),
            failed=tuple(FileFailure(os.fsdecode(path), reason) for path, reason in failed),
        )


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


class _Teller:
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


def _check_all_is_there(engine: Machinery, reader: ObjectReader, steps: Iterable[Step]) -> None:
    """P13: before the first change, all that will be written, and all that will go, is in the store."""
    leaves = [entry for step in steps for entry in (step.new, step.old) if entry and entry.kind != FOLDER]
    names = dict.fromkeys(entry.digest for entry in leaves)
    for entry in leaves:
        if entry.kind & CHUNKED:
            names.update(dict.fromkeys(chunk.digest for chunk in decode_chunks(reader.get(entry.digest))))
    asked = list(names)
    for first in range(0, len(asked), ASKED_AT_ONCE):
        some = asked[first : first + ASKED_AT_ONCE]
        with engine.read() as store:
            found = store.find_objects(some)
        for name in some:
            if name not in found:
                raise ObjectMissingError(name.hex())


def _clean_path(path: str) -> bytes:
    """A path below the root, as trees have it; empty for the root."""
    if not isinstance(path, str):
        raise InvalidError(f"paths must be text, not {type(path).__name__}: {path!r}")
    names = [name for name in os.fsencode(path).split(b"/") if name not in (b"", b".")]
    try:
        if path.startswith("/"):
            raise ValueError("it must be relative to the root")
        for name in names:
            check_name(name)
    except ValueError as exc:
        raise InvalidError(f"{path!r} is no path below the root: {exc}") from exc
    return b"/".join(names)
