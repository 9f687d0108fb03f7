"""Take a snapshot: scan a tree under rules, with all that is known of it from before."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from typing import TypeVar

import msgspec

from clew.backends.contract import Transaction
from clew.core.engine.engine import Engine
from clew.core.log.ids import check_count
from clew.errors import ClewError, InvalidError, RootRefusedError, SnapshotFailedError
from clew.files.objects.store import ObjectWriter, Pack
from clew.files.records import SnapshotCounters, counters_of, next_id
from clew.files.roots import KeyRefusedError, key_path, servers_directory
from clew.files.snapshot.classify import Limits
from clew.files.snapshot.scan import scan
from clew.files.snapshot.statcache import StatCache, cache_directory
from clew.files.snapshot.watch import Watch, WatchedCache
from clew.model import utc
from clew.model.files import OnProgress, Snapshot, SnapshotKind

T = TypeVar("T")


class SnapshotRules(msgspec.Struct, frozen=True):
    """What a snapshot holds, beside what rule files and defaults leave out."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_file_bytes: int | None = None


def rules_of(include: Sequence[str], exclude: Sequence[str], max_file_bytes: int | None) -> SnapshotRules:
    """What a caller says of what a snapshot is to hold, checked."""
    for what, patterns in (("include", include), ("exclude", exclude)):
        if isinstance(patterns, str) or not all(isinstance(pattern, str) for pattern in patterns):
            raise InvalidError(f"{what} is a list of patterns, not {patterns!r}")
    if max_file_bytes is not None:
        check_count(max_file_bytes, "max_file_bytes")
    return SnapshotRules(tuple(include), tuple(exclude), max_file_bytes)


class PendingSnapshot:
    """A snapshot of which the record, and the last packs, are not in the store yet."""

    def __init__(
        self, engine: Engine, snapshot: Snapshot, writer: ObjectWriter, ignored: Sequence[bytes]
    ) -> None:
        self.snapshot = snapshot
        self.ignored = ignored
        """Listed for a safety snapshot only."""
        self._engine = engine
        self._writer = writer

    @property
    def packs(self) -> Sequence[Pack]:
        """Those that are not stored yet."""
        return self._writer.unstored

    def keep(self, put: Callable[[Transaction], T]) -> T:
        """Put the record, and store the packs, in one transaction."""
        try:
            return self._engine.run(partial(self._keep, put))
        except ClewError:
            self.store_packs()
            raise

    def _keep(self, put: Callable[[Transaction], T], tx: Transaction) -> T:
        result = put(tx)  # first: what it refuses, it refuses before anything is written
        self.add_packs(tx)
        return result

    def add_packs(self, tx: Transaction) -> None:
        for pack in self.packs:
            pack.add_to(tx)

    def store_packs(self) -> None:
        """Store them although no record names them: the cache already says that they are there, and would
        not be believed the next time. Not, if they are there after all: the tree comes last, or with them."""
        with suppress(ClewError):  # of two failures the first one matters
            tree = bytes.fromhex(self.snapshot.tree)
            with self._engine.read() as reader:
                is_there = tree in reader.find_objects([tree])
            if not is_there:
                self._writer.store_rest()


class SnapshotTaker:
    """Takes the snapshots of one store. Safe from any thread."""

    def __init__(self, engine: Engine, watches: Mapping[str, Watch]) -> None:
        self._engine = engine
        self._watches = watches

    def take(
        self,
        place: str,
        kind: SnapshotKind,
        rules: SnapshotRules,
        counters: SnapshotCounters,
        also: Collection[bytes] = (),
        on_progress: OnProgress | None = None,
    ) -> PendingSnapshot:
        """Scan a tree, with the counters as they were before."""
        limits = Limits() if rules.max_file_bytes is None else Limits(max_file_bytes=rules.max_file_bytes)
        writer = ObjectWriter(self._engine, holds_back=True)
        with self._known(place, rules, counters, also) as known:
            found = scan(
                place,
                writer,
                include=rules.include,
                exclude=rules.exclude,
                also=also,
                limits=limits,
                cache=known.cache,
                never=self._own_files(place),
                on_progress=on_progress,
                changed_dirs=known.changed,
                lists_ignored=kind == "safety",
            )
        broken = [one.path for one in found.skipped if one.reason == "read error"]
        if broken and kind != "safety":
            raise SnapshotFailedError(place, broken)
        now = self._engine.now()
        with self._engine.read() as reader:
            id = next_id(reader, now)
        snapshot = Snapshot(
            id=id,
            kind=kind,
            root=place,
            tree=found.tree.hex(),
            created_at=utc(now),
            files=found.files,
            links=found.links,
            directories=found.directories,
            bytes=found.bytes,
            new_bytes=writer.new_bytes,
            skipped=found.skipped,
            include=rules.include,
            exclude=rules.exclude,
            max_file_bytes=rules.max_file_bytes,
        )
        return PendingSnapshot(self._engine, snapshot, writer, found.ignored)

    def look(
        self, place: str, rules: SnapshotRules, also: Collection[bytes] = (), kind: SnapshotKind = "snapshot"
    ) -> PendingSnapshot:
        """The tree as it is now, without a record: what is new of it stays until the next gc."""
        with self._engine.read() as reader:
            counters = counters_of(reader)
        taken = self.take(place, kind, rules, counters, also)
        self._engine.run(taken.add_packs)
        return taken

    @contextmanager
    def _known(
        self, place: str, rules: SnapshotRules, counters: SnapshotCounters, also: Collection[bytes]
    ) -> Iterator[WatchedCache]:
        """What is known of a tree before it is scanned: by the cache, and by a watcher."""
        location = self._engine.backend.location
        # What a cache says holds for one store, and only until something was removed from that. Each
        # folder in it knows the rules that it was seen under; a watcher does not.
        key = msgspec.msgpack.encode((location, counters.collected))
        directory = cache_directory(location)

        def open_cache() -> StatCache:
            return StatCache() if directory is None else StatCache.open(directory, place, key)

        watch = None if also else self._watches.get(place)
        if watch is None:
            yield WatchedCache(open_cache())
            return
        known = watch.begin(msgspec.msgpack.encode((key, rules)), open_cache)
        try:
            yield known
        except BaseException:
            watch.fail(known)
            raise
        watch.end(known)

    def _own_files(self, place: str) -> list[str]:
        """The files of the store, or its whole directory, and the key of the user, if they can be below this
        root."""
        own = _key_below(place)
        parents: dict[str, str] = {}
        for path in map(os.fspath, self._engine.backend.own_paths()):
            # Links are followed on the way, but not the last one: it may be a file of the store.
            parent, name = os.path.split(path)
            if parent not in parents:
                parents[parent] = os.path.realpath(parent)
            real = os.path.join(parents[parent], name)
            if _is_below(place, real) and os.path.isdir(path):
                # What it keeps would be kept again, and again.
                raise RootRefusedError(place, f"it is part of the store {real!r}; keep the store elsewhere")
            if _is_below(real, place):
                own.append(real)
        return own


def _key_below(place: str) -> list[str]:
    """A store must not hold the key by which it is known to be ours, nor the tokens of servers."""
    try:
        kept = [_real_path(key_path()), _real_path(servers_directory())]
    except KeyRefusedError:
        return []
    return [path for path in kept if _is_below(path, place)]


@lru_cache(maxsize=8)
def _real_path(path: str) -> str:
    """Asked once: the key does not move while a process runs."""
    return os.path.realpath(path)


def _is_below(path: str, place: str) -> bool:
    """Whether it is that directory, or lies in it."""
    return f"{path}/".startswith(place.rstrip("/") + "/")
