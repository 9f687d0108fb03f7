"""Trees as nested dicts, on disk and in a store, for the tests of restores."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from clew.backends.contract import Transaction
from clew.backends.memory import MemoryBackend
from clew.core.conversation.moves import FileMove
from clew.core.engine.engine import Engine
from clew.core.runs.access import Access
from clew.files import journal
from clew.files.journal import HeadMove
from clew.files.objects.format import (
    Directory,
    GetDirectories,
    object_name,
)
from clew.files.objects.store import ObjectReader, ObjectWriter
from clew.files.records import SnapshotCounters
from clew.files.restore.job import MovingHead, RestoreJob, Tools
from clew.files.restore.plan import Step
from clew.files.restore.prepare import clean_paths
from clew.files.restore.restore import finish, restore_once, roll_back
from clew.files.restore.safety import SafetySnapshot
from clew.files.roots import OwnWork
from clew.files.snapshot.take import SnapshotTaker
from clew.model import Head
from clew.model.files import KeptReason, OnConflict, RestoreReport
from tests.files.trees import Link, Program, encode, on_disk

CHUNK = 1000
"""Files of at least this size are stored in chunks here."""


Tree: TypeAlias = dict[bytes, Any]
"""Names lead to contents (bytes), programs, links, or trees."""


def in_memory(*trees: Tree) -> tuple[list[bytes], GetDirectories]:
    """The names of trees, and the way to look into them."""
    objects: dict[bytes, bytes] = {}

    def put(content: bytes) -> bytes:
        name = object_name(content)
        objects[name] = content
        return name

    return [encode(tree, put, chunk=CHUNK).digest for tree in trees], reading(objects)


def reading(objects: Mapping[bytes, bytes]) -> GetDirectories:
    return lambda names: {name: Directory(objects[name]) for name in names}


def read(root: Path, ignored: Collection[bytes] = (), also: Collection[bytes] = (), at: bytes = b"") -> Tree:
    """What is on disk, but for what has an ignored name and is not in `also`."""
    tree: Tree = {}
    for name in sorted(os.listdir(os.fsencode(root))):
        path = os.fsencode(root) + b"/" + name
        below = at + name
        leads = any(one == below or one.startswith(below + b"/") for one in also)
        if name in ignored and not leads:
            continue
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            tree[name] = Link(os.readlink(path))
        elif stat.S_ISDIR(mode):
            tree[name] = read(Path(os.fsdecode(path)), ignored, also, below + b"/")
            if name in ignored:
                inside = read(Path(os.fsdecode(path)), ignored, also, below + b"/")
                tree[name] = {k: v for k, v in inside.items() if any(
                    one == below + b"/" + k or one.startswith(below + b"/" + k + b"/") for one in also
                )}  # fmt: skip
        elif stat.S_ISREG(mode):
            content = Path(os.fsdecode(path)).read_bytes()
            tree[name] = Program(content) if mode & 0o111 else content
    return tree


class Work(MovingHead, frozen=True, kw_only=True):
    """Anything that a test wants done where a head would move."""

    work: Callable[[Transaction], object]

    @classmethod
    def of(cls, work: Callable[[Transaction], object], session: str = "s") -> Work:
        move = HeadMove(0, session, "undo")
        return cls(Access(0, session, Engine(MemoryBackend()).host), move, 0, work=work)

    def carry_out(self, tx: Transaction, files: FileMove) -> Head:
        self.work(tx)
        return Head("", 0)


class WorkshopSafety(SafetySnapshot):
    """Looks at the disk as the tests do, and keeps no record unless it is told how."""

    def __init__(self, shop: Workshop, tools: Tools, job: RestoreJob) -> None:
        super().__init__(tools, job, SnapshotCounters())
        self.shop = shop
        self.taken: str | None = None

    @property
    def id(self) -> str | None:
        return self.taken

    def look(self, also: Collection[bytes]) -> bytes:
        if self._job.dry_run:
            return self.shop.look(also)
        self.taken, tree = self.shop.take_safety(also)
        return tree

    def spared(self, deletions: Iterable[Step]) -> dict[bytes, KeptReason]:
        return dict.fromkeys(self.shop.spares, "ignored")

    def left_out(self) -> dict[bytes, KeptReason]:
        return {}

    def put(self, tx: Transaction) -> None:
        self.shop.keep(tx)


class Workshop:
    """A directory, a store, and restores from one into the other."""

    def __init__(self, root: Path, engine: Engine | None = None, ignored: Collection[bytes] = ()) -> None:
        self.root = root
        self.engine = engine or Engine(MemoryBackend())
        self.reader = ObjectReader(self.engine.read)
        self.ignored = ignored
        self.safeties: list[bytes] = []
        self.spares: Collection[bytes] = ()
        self.keep: Callable[[Transaction], object] = lambda tx: None
        """Called where the safety snapshot is put."""

    def put(self, tree: Tree) -> bytes:
        writer = ObjectWriter(self.engine)
        name = encode(tree, writer.put, chunk=CHUNK).digest
        writer.flush()
        return name

    def look(self, also: Collection[bytes]) -> bytes:
        return self.put(read(self.root, self.ignored, also))

    def take_safety(self, also: Collection[bytes]) -> tuple[str, bytes]:
        self.safeties.append(self.look(also))
        return f"safety-{len(self.safeties)}", self.safeties[-1]

    def restore(
        self, target: Tree, last: Tree | None = None, *, on_conflict: OnConflict = "overwrite", **more: Any
    ) -> RestoreReport:
        before = None if last is None else self.put(last)
        return self.restore_tree(self.put(target), before, on_conflict=on_conflict, **more)

    def restore_tree(
        self,
        target: bytes,
        last: bytes | None = None,
        *,
        reader: ObjectReader | None = None,
        paths: Sequence[str] | None = None,
        spares: Collection[bytes] = (),
        finishing: Callable[[Transaction], object] | None = None,
        **more: Any,
    ) -> RestoreReport:
        """`spares`: what is not deleted; `finishing`: done in the transaction that closes the journal."""
        job = RestoreJob(
            root=str(self.root),
            snapshot="snapshot-1",
            target=target,
            last=last,
            paths=None if paths is None else clean_paths(paths),
            head=None if finishing is None else Work.of(finishing),
            **more,
        )
        self.spares = spares
        tools = self.tools(reader or ObjectReader(self.engine.read))
        with WorkshopSafety(self, tools, job) as safety:
            return restore_once(tools, job, safety).report

    def tools(self, reader: ObjectReader | None = None) -> Tools:
        return Tools(
            self.engine, reader or self.reader, SnapshotTaker(self.engine, {}), OwnWork(self.engine.host)
        )

    def finish(self, id: str, finishing: Callable[[Transaction], object] | None = None) -> RestoreReport:
        head = None if finishing is None else Work.of(finishing)
        return finish(self.tools(), id, head=head).report

    def roll_back(self, id: str) -> RestoreReport:
        return roll_back(self.tools(), id).report

    def pending(self) -> list[journal.Restore]:
        with self.engine.read() as reader:
            return journal.pending(reader)

    def state(self) -> Tree:
        return on_disk(self.root)


def paths_kept(report: RestoreReport) -> tuple[str, ...]:
    return tuple(kept.path for kept in report.kept)
