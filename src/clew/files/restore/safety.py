"""The safety snapshot of a restore, and what a restore spares.

The safety snapshot is the present state, kept in the transaction that begins the restore.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from clew.errors import ObjectMissingError
from clew.files import records
from clew.files.objects.format import CHUNKED, EMPTY, EMPTY_TREE, FOLDER, find_entry
from clew.files.objects.store import Overlay, directories_of
from clew.files.records import CollectedError, SnapshotCounters
from clew.files.restore.plan import Step, parents
from clew.files.roots import check_root
from clew.files.snapshot.ignore import GIT, NORMAL, RULE_FILES, Ignore, Rules

if TYPE_CHECKING:
    from clew.backends.contract import Transaction
    from clew.files.objects.format import Directory
    from clew.files.objects.store import ObjectReader
    from clew.files.restore.job import RestoreJob, Tools
    from clew.files.snapshot.take import PendingSnapshot
    from clew.model.files import KeptReason, Snapshot


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


# -- what a snapshot left out, and a restore therefore does not delete
#
# A snapshot leaves out what was ignored, and lists what it had to skip. A file of that kind may be older than
# the snapshot: a `.env` that the `.gitignore` of then ignored, and that of now does not. So the rules of the
# snapshot are asked, not only those of the present. A repository that came since stays whole, because its
# `.git` cannot be kept.


class SnapshotOmissions:
    """What one snapshot left out, or would have left out."""

    def __init__(self, snapshot: Snapshot, objects: ObjectReader) -> None:
        self._tree = bytes.fromhex(snapshot.tree)
        self._objects = objects
        self._directories = directories_of(objects)
        self._left_out: Collection[bytes] = ()
        self._ignore = Ignore(snapshot.include, snapshot.exclude)
        self._skipped = {os.fsencode(one.path): one.reason for one in snapshot.skipped}
        self._seen: dict[bytes, tuple[Rules, int] | None] = {}
        """By directory: the rules in it, and how it was looked at; None: not at all."""

    def among(self, deletions: Iterable[Step], left_out: Collection[bytes]) -> dict[bytes, KeptReason]:
        """Of the deletions of a plan: the paths that stay, or directories that stay with all that is in them,
        and why. `left_out`: what the safety snapshot does not hold."""
        self._left_out = left_out
        found: dict[bytes, KeptReason] = {}
        free = {b""}
        for step in deletions:
            is_folder = step.old is not None and step.old.kind == FOLDER
            way = [path for path in parents(step.path) if path not in free]
            for path in (*reversed(way), step.path):
                reason = self._reason(path, is_folder=is_folder or path != step.path)
                if reason is not None:
                    found[path] = reason
                    break
                free.add(path)
        return found

    def _reason(self, path: bytes, *, is_folder: bool) -> KeptReason | None:
        if path in self._skipped:
            return self._skipped[path]
        if is_folder:
            is_repository = path + b"/.git" in self._left_out
            if is_repository and find_entry(self._tree, path, self._directories) is None:
                return "nested repository"
            return "ignored" if self._inside(path) is None else None
        above, _, name = path.rpartition(b"/")
        place = self._inside(above)
        if place is None:
            return "ignored"
        takes = self._ignore.takes_file(*place, os.fsdecode(path), os.fsdecode(name))
        return None if takes else "ignored"

    def _inside(self, path: bytes) -> tuple[Rules, int] | None:
        """How the snapshot was taken in a directory, had it been there."""
        if path not in self._seen:
            self._seen[path] = self._look(path)
        return self._seen[path]

    def _look(self, path: bytes) -> tuple[Rules, int] | None:
        rules, mode = self._ignore.root, NORMAL
        if path:
            above, _, name = path.rpartition(b"/")
            place = self._inside(above)
            if place is None:
                return None
            rules = place[0]
            below = self._ignore.mode_below(*place, f"{os.fsdecode(path)}/", os.fsdecode(name))
            if below is None:
                return None
            mode = below
        prefix = f"{os.fsdecode(path)}/" if path else ""
        return rules.below(prefix, [*self._rule_files(path)]), mode

    def _rule_files(self, path: bytes) -> Iterator[tuple[str, bytes]]:
        found = find_entry(self._tree, path, self._directories)
        if found is None or found.kind != FOLDER:
            return
        folder = self._folder(found.digest)
        for name in RULE_FILES:
            entry = folder.get(name.encode())
            if entry is not None and entry.is_file and not entry.kind & CHUNKED:
                yield name, self._objects.get(entry.digest)

    def _folder(self, digest: bytes) -> Directory:
        return EMPTY if digest == EMPTY_TREE else self._directories([digest])[digest]
