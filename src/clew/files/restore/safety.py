"""The safety snapshot of a restore: the present state, kept in the transaction that begins the restore."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from clew.errors import ObjectMissingError
from clew.files import records
from clew.files.objects.store import Overlay
from clew.files.records import CollectedError, SnapshotCounters
from clew.files.restore.omissions import SnapshotOmissions
from clew.files.roots import check_root
from clew.files.snapshot.ignore import GIT

if TYPE_CHECKING:
    from clew.backends.contract import Transaction
    from clew.files.restore.job import RestoreJob, Tools
    from clew.files.restore.plan import Step
    from clew.files.snapshot.take import PendingSnapshot
    from clew.model.files import KeptReason


class SafetySnapshot:
    """Taken before the plan is made, put when it is known that there is something to do."""

    def __init__(self, tools: Tools, job: RestoreJob, counters: SnapshotCounters) -> None:
        self.objects = Overlay(tools.objects)
        """Reads what is stored, and what was taken."""
        self._tools = tools
        self._job = job
        self._counters = counters
        snapshot = job.omitted_by
        self._omissions = None if snapshot is None else SnapshotOmissions(snapshot, self.objects)
        self._taken: PendingSnapshot | None = None

    def __enter__(self) -> SafetySnapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(exc, Exception) and self._taken is not None:
            self._taken.store_packs()
        if isinstance(exc, ObjectMissingError):
            self._refuse_if_collected(exc)

    def _refuse_if_collected(self, exc: ObjectMissingError) -> None:
        """No record names yet what was taken: `gc` may have removed it before the plan was made."""
        with self._tools.engine.read() as reader:
            if records.counters_of(reader).collected != self._counters.collected:
                raise CollectedError(f"objects were removed while {self._job.root} was looked at") from exc

    @property
    def id(self) -> str | None:
        """None: no record is kept of it, because nothing will be changed."""
        return None if self._taken is None or self._job.dry_run else self._taken.snapshot.id

    def look(self, also: Collection[bytes]) -> bytes:
        """The tree of the present state, with these paths whatever is ignored."""
        taker, job = self._tools.taker, self._job
        if job.dry_run:
            self._taken = taker.look(job.root, job.rules, also, "safety")
            return bytes.fromhex(self._taken.snapshot.tree)
        if self._taken is not None:
            self._taken.store_packs()  # the next scan asks the store for them
        check_root(job.root, force=job.force)  # once more: it may have been made just now
        self._taken = taker.take(job.root, "safety", job.rules, self._counters, also)
        self.objects.lay(self._taken.packs)
        return bytes.fromhex(self._taken.snapshot.tree)

    def left_out(self) -> dict[bytes, KeptReason]:
        """What is there and was not taken, and why; empty if there is no such directory yet."""
        if self._taken is None:
            return {}
        ignored = {path: _reason(path) for path in self._taken.ignored}
        return {**ignored, **{os.fsencode(one.path): one.reason for one in self._taken.snapshot.skipped}}

    def spared(self, deletions: Iterable[Step]) -> dict[bytes, KeptReason]:
        """Of the deletions of a plan: what stays, because it may be older than the snapshot, and why."""
        return self._omissions.among(deletions, self.left_out()) if self._omissions else {}

    def put(self, tx: Transaction) -> None:
        """Keep it: in the transaction that begins the journal, so that both are durable at once."""
        assert self._taken is not None
        head = self._job.head
        snapshot = self._taken.snapshot
        signature = self._tools.own.sign_snapshot(snapshot)
        sessions = 0 if head is None else head.sessions
        records.put(tx, snapshot, self._counters, sessions=sessions, signature=signature)
        self._taken.add_packs(tx)


def _reason(path: bytes) -> KeptReason:
    return "repository" if path == os.fsencode(GIT) else "ignored"
