"""Copying a store into another one, of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from clew.backends.contract import STORE_WIDE, Transaction
from clew.core.check.scan import ChangedError
from clew.core.conversation.points import find
from clew.core.engine.commit import Pending
from clew.core.engine.engine import Engine, EngineLike
from clew.core.log.ids import check_id
from clew.core.transfer.salvage import RecordSalvage
from clew.core.transfer.source import Page, Source
from clew.core.transfer.untrusted.source import CheckedSource
from clew.core.transfer.write import Landed, Landing, prepare, transfer
from clew.errors import (
    ConflictError,
    CorruptError,
    CorruptSessionError,
    InvalidError,
    ObjectMissingError,
    SessionNotFoundError,
)
from clew.model.transfer import CopyProgress, CopyReport, LostRecord, OnCopyConflict, OnCopyProgress

if TYPE_CHECKING:
    from clew.core.transfer.source import TreeImage
    from clew.files.upkeep.transfer import FileTransfer

TREES: Final = 100
"""Trees of sessions in one transaction,"""
BYTES: Final = 4 * 1024 * 1024
"""and how large they may be together."""
CHOICES: Final = ("refuse", "skip", "rename")


def copy(
    source: Engine,
    target: Engine,
    *,
    sessions: Sequence[str] | None,
    on_conflict: OnCopyConflict,
    on_progress: OnCopyProgress | None,
) -> CopyReport:
    """Bring the sessions of a store, and the snapshots of its files, into another one."""
    check_apart(source, target)
    return Copying(source, target, on_conflict, on_progress).run(sessions)


def check_conflict(on_conflict: str) -> None:
    if on_conflict not in CHOICES:
        raise InvalidError(f"on_conflict is one of {', '.join(CHOICES)}; not {on_conflict!r}")


def check_apart(source: Engine, target: Engine) -> None:
    same = source.backend is target.backend
    if same or (source.backend.location == target.backend.location != "memory:"):
        raise InvalidError(f"{source.backend.location} cannot be copied into itself")


class Copying:
    """One copy, on its way."""

    def __init__(
        self,
        source: EngineLike,
        target: Engine,
        on_conflict: OnCopyConflict = "refuse",
        on_progress: OnCopyProgress | None = None,
        reading: Source | None = None,
        lost: Callable[[LostRecord], object] | None = None,
    ) -> None:
        """`lost`: for a damaged store, called with what cannot be brought over; `reading` reads what can."""
        self._source = source
        self._target = target
        self._on_conflict = on_conflict
        self._on_progress = on_progress
        self._reading = reading or CheckedSource(source.read, source)
        self._lost = lost
        self._files: FileTransfer | None = None
        self._undisturbed: Callable[[], AbstractContextManager[object]] = nullcontext
        self._waiting: dict[int, Landing] = {}
        self._trees: dict[int, int] = {}
        self._sids: dict[int, int] = {}
        self._sessions = self._unchanged = self._entries = self._events = self._calls = self._bytes = 0
        self._skipped: list[str] = []
        self._renamed: dict[str, str] = {}
        self._unsound: dict[int, CorruptError | ObjectMissingError] = {}
        """Trees that stay behind."""

    def run(self, sessions: Sequence[str] | None = None) -> CopyReport:
        """CorruptError: some sessions stayed behind; all others are copied."""
        report = self.bring(sessions)
        for error in self._unsound.values():
            raise CorruptError(
                f"{self.stayed_behind}; its sessions stay behind, all others are copied. `clew repair` makes "
                "a store of what is left of them"
            ) from error
        return report

    @property
    def stayed_behind(self) -> str:
        """What could not be copied, and why; empty: nothing."""
        first = next(iter(self._unsound.values()), "")
        more = len(self._unsound) - 1
        return f"{first} (and {more} more)" if more > 0 else str(first)

    def bring(self, sessions: Sequence[str] | None = None) -> CopyReport:
        """Copy what can be copied; `stayed_behind` says what could not."""
        from clew.files.upkeep.transfer import FileTransfer

        files = FileTransfer(self._source, self._target, on_bytes=self._stored, lost=self._lost)
        if self._lost is None:
            self._files, self._undisturbed = files, files.undisturbed
        self._copy_trees(self._reading.trees() if sessions is None else self._trees_of(sessions))
        files.copy_records(self._trees, self._sids, is_all=sessions is None)
        if sessions is None:
            copy_store_wide(self._source, self._target, self._lost)
        if self._lost is None and sessions is None:
            self._note_damaged()
        return CopyReport(
            sessions=self._sessions,
            unchanged=self._unchanged,
            entries=self._entries,
            events=self._events,
            calls=self._calls,
            snapshots=files.new_snapshots,
            objects=files.objects,
            bytes=self._bytes,
            skipped=tuple(self._skipped),
            renamed=tuple(self._renamed.items()),
        )

    def _note_damaged(self) -> None:
        """What looks like a copy, and is not whole, must not pass for one."""
        with self._source.read() as reader:
            for bad in reader.damaged_sessions():
                self._unsound[bad.row.tree] = CorruptSessionError(bad.row.id, bad.reason)

    def _trees_of(self, sessions: Sequence[str]) -> Iterator[int]:
        if isinstance(sessions, str):
            raise InvalidError(f"sessions is a sequence of ids, not {sessions!r}")
        trees: dict[int, None] = {}
        with self._source.read() as reader:
            for id in sessions:
                row = find(reader, check_id(id)) or reader.find_session(id, deleted=True)
                if row is None:
                    raise SessionNotFoundError(id)
                trees[row.tree] = None
        return iter(trees)

    def _copy_trees(self, trees: Iterable[int]) -> None:
        """What is in the way of one tree may be gone with the next: an id, or an alias, that went over
        from one session to another. So a conflict is one when nothing else is left to do."""
        conflicts: dict[int, ConflictError] = {}
        while True:
            before = len(self._trees)
            conflicts = {}
            for tree in trees:
                try:
                    self._begin_tree(tree, conflicts)
                except ConflictError as error:
                    conflicts[tree] = error
                except (CorruptError, ObjectMissingError) as error:
                    self._unsound[tree] = error
            self._write_waiting(conflicts)
            if not conflicts or len(self._trees) == before:
                break
            trees = tuple(conflicts)
        for tree, conflict in conflicts.items():
            self._settle(tree, conflict)

    def _begin_tree(self, tree: int, conflicts: dict[int, ConflictError]) -> None:
        """Small trees wait for others: a transaction has to wait for the disk, however little is in it."""
        try:
            ready = prepare(self._reading, self._target, tree, files=self._files)
        except (ChangedError, CorruptError):
            self._copy_tree(tree)
            return
        if isinstance(ready, Landed):
            self._note(tree, ready)
        elif ready is not None and ready.is_small:
            self._waiting[tree] = ready
            if len(self._waiting) >= TREES or sum(one.size for one in self._waiting.values()) >= BYTES:
                self._write_waiting(conflicts)
        elif ready is not None:
            self._end_tree(tree, ready, None)

    def _write_waiting(self, conflicts: dict[int, ConflictError]) -> None:
        waiting, self._waiting = self._waiting, {}
        group = {tree: Pending(ready.write_all) for tree, ready in waiting.items()}
        if group:
            self._target.committer.run_all(list(group.values()))
        for tree, pending in group.items():
            try:
                self._end_tree(tree, waiting[tree], pending)
            except ConflictError as error:
                conflicts[tree] = error
            except CorruptError as error:
                self._unsound[tree] = error

    def _end_tree(self, tree: int, ready: Landing, pending: Pending[None] | None) -> None:
        """`pending`: what was written with others; None: it is still to be written."""
        try:
            if pending is None:
                landed = ready.run(self._wrote)
            else:
                pending.outcome()
                landed = ready.landed(self._wrote)
            self._note(tree, landed)
        except (ChangedError, CorruptError):
            self._copy_tree(tree)

    def _copy_tree(self, tree: int, *, rename: bool = False) -> None:
        with self._undisturbed():
            landed = transfer(
                self._reading, self._target, tree, rename=rename, on_page=self._wrote, files=self._files
            )
        if landed is not None:
            self._note(tree, landed)

    def _settle(self, tree: int, error: ConflictError) -> None:
        if self._on_conflict == "refuse":
            raise error
        if self._on_conflict == "rename":
            try:
                self._copy_tree(tree, rename=True)
                return
            except ConflictError:
                pass  # it is there, and changed on both sides
        with self._source.read() as reader:
            self._skipped += [row.id for row in reader.tree_sessions(tree)]

    def _note(self, tree: int, landed: Landed) -> None:
        self._trees[tree] = landed.tree
        self._sids |= landed.sids
        if landed.verdict == "write":
            self._sessions += len(landed.sids)
        else:
            self._unchanged += len(landed.sids)
        self._renamed |= landed.ids
        self._tell("sessions", None)

    def _wrote(self, image: TreeImage, page: Page) -> None:
        self._entries += len(page.entries)
        self._events += len(page.events)
        self._calls += len(page.calls)
        self._bytes += page.size
        self._tell("sessions", image.sessions[0].row.id)

    def _stored(self, size: int) -> None:
        self._bytes += size
        self._tell("files", None)

    def _tell(self, phase: str, session: str | None) -> None:
        if self._on_progress is not None:
            self._on_progress(
                CopyProgress(
                    phase="files" if phase == "files" else "sessions",
                    session=session,
                    sessions=self._sessions + self._unchanged,
                    entries=self._entries,
                    bytes=self._bytes,
                )
            )


# -- what belongs to a store as a whole: rules of retention, the log of removals


def copy_store_wide(
    source: EngineLike, target: EngineLike, lost: Callable[[LostRecord], object] | None = None
) -> None:
    """Rules that the target has stay as they are, and so do its redaction policy and the key of its markers.
    Clocks and sweeps are of one store only.

    `lost`: called with what cannot be read; without it that raises.
    """
    reading = RecordSalvage(source.read, lost or _refuse)
    rules = [one for one in reading.scan(STORE_WIDE, "retention", None) if one[0] == "rules"]
    redaction = reading.scan(STORE_WIDE, "redaction", None)
    removals = reading.scan(STORE_WIDE, "removal", None)
    for name, value in rules:
        if reading.may_go("retention", name, value):
            target.run(lambda tx, value=value: _put_rules(tx, value))  # type: ignore[misc]
    for name, value in redaction:
        if reading.may_go("redaction", name, value):
            target.run(lambda tx, name=name, value=value: _put_new(tx, name, value))  # type: ignore[misc]
    fit = [(name, value) for name, value in removals if reading.may_go("removal", name, value)]
    if fit:
        target.run(lambda tx: _log(tx, fit))


def _put_rules(tx: Transaction, value: bytes) -> None:
    if tx.get_record(STORE_WIDE, "retention", "rules") is None:
        tx.put_record(STORE_WIDE, "retention", "rules", value)
        tx.set_due(None, 0)


def _put_new(tx: Transaction, name: str, value: bytes) -> None:
    if tx.get_record(STORE_WIDE, "redaction", name) is None:
        tx.put_record(STORE_WIDE, "redaction", name, value)


def _log(tx: Transaction, removals: list[tuple[str, bytes]]) -> None:
    for name, value in removals:
        if tx.get_record(STORE_WIDE, "removal", name) != value:
            tx.put_record(STORE_WIDE, "removal", name, value)


def _refuse(lost: LostRecord) -> None:
    raise CorruptError(f"the record {lost.name} is damaged: {lost.reason}")
