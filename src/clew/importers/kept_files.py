"""Files that a program kept at points of a session, as snapshots for its checkpoints.

They are laid out in a directory of ours, only what differs from the checkpoint before, and a snapshot is
taken of that. Its rules name just these paths: a restore neither sees nor touches anything else.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeAlias

import msgspec

from clew.core.work_folder import make_work_folder, remove_work_folder
from clew.errors import CheckpointNotFoundError, ClewError
from clew.importers.contract import SourceCheckpoint
from clew.importers.reading.seen import doubt
from clew.importers.unpacking import Allowance, UnpackedTooMuchError, copy_file
from clew.model import Json

if TYPE_CHECKING:
    from clew.model import Checkpoint
    from clew.session import Session
    from clew.store import Store

Kept: TypeAlias = str | bytes | None
"""A file as a program kept it: where a copy lies, or its content; None: it was not there."""
_LONGEST_NAME: Final = 255
_MEANS_SOMETHING: Final = str.maketrans({letter: f"\\{letter}" for letter in "\\*?[]!# "})


class KeptFiles:
    """The snapshots for one session, on its way into a store.

    `session`: its id there, whether or not it is there already.
    """

    def __init__(self, store: Store, session: str, bench: Bench) -> None:
        self._store = store
        self._id = session
        self._bench = bench
        self._taken: dict[tuple[str, int], tuple[str, int]] = {}
        """Snapshots, and how many copies of files are in each."""
        self._new: list[str] = []
        self._asked: set[str] = set()
        self._lacking: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        """Files whose copies would unpack to too much, and what was said of them."""

    def take(self, checkpoints: Iterable[SourceCheckpoint]) -> list[SourceCheckpoint]:
        """Each with the snapshot that it has already, or gets now."""
        return [
            msgspec.structs.replace(self._with_snapshot(one), files={}) if one.files else one
            for one in checkpoints
        ]

    def look(self, checkpoints: Iterable[SourceCheckpoint]) -> list[SourceCheckpoint]:
        """Only look for files that are missing."""
        found = list(checkpoints)
        for one in found:
            if one.files and not _is_whole(self._stored(one.name), one):
                self._found(one.files)
        return found

    @property
    def lacking(self) -> str:
        """Which copies of files are missing or were left out; empty: none."""
        said = []
        if self._lacking:
            path = min(self._lacking.values())
            said.append(
                f"{len(self._lacking)} of {len(self._asked)} copies of files are missing, as one of {path!r};"
                " all else was kept"
            )
        if self._refused:
            path, reason = min(self._refused.items())
            said.append(f"{len(self._refused)} kept files were left out, as {path!r}: {reason}")
        return "; ".join(said)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Delete the snapshots that no checkpoint took: the load failed, another import was faster, or the
        name is in use."""
        with suppress(ClewError):  # one that stays does no harm
            for id in self._new:
                if self._store.get_snapshot(id).kind == "snapshot":
                    self._store.delete_snapshot(id)

    @cached_property
    def _session(self) -> Session | None:
        return self._store.find(self._id)

    def _stored(self, name: str) -> Checkpoint | None:
        try:
            return None if self._session is None else self._session.get_checkpoint(name)
        except CheckpointNotFoundError:
            return None

    def _with_snapshot(self, checkpoint: SourceCheckpoint) -> SourceCheckpoint:
        known = self._stored(checkpoint.name)
        if known is not None and _is_whole(known, checkpoint):
            return _as_it_is(checkpoint, known)
        files = self._found(checkpoint.files)
        count = _count(files)
        if known is not None and known.snapshot is not None and _kept(known) > count:
            return _as_it_is(checkpoint, known)  # what the program has cleaned up since is still here
        if not count and not checkpoint.is_complete:
            return checkpoint
        listing = _listing(checkpoint.files)
        key = listing, count
        if key not in self._taken:
            refused = self._bench.lay_out(files)
            self._refused |= refused
            taken = self._bench.snapshot(self._store, files), count - len(refused)
            self._taken[key] = taken
            self._new.append(taken[0])
        snapshot, kept = self._taken[key]
        state: Json = {**checkpoint.state, "kept": kept, "listing": listing}
        return msgspec.structs.replace(checkpoint, state=state, snapshot=snapshot)

    def _found(self, files: Mapping[str, Kept]) -> dict[str, Kept]:
        """Without those whose copies are gone, or whose paths cannot be laid out."""
        found: dict[str, Kept] = {}
        for path, copy in files.items():
            name = copy if isinstance(copy, str) else path
            if copy is not None:
                self._asked.add(name)
            if _is_path(path) and (not isinstance(copy, str) or _is_file(copy)):
                found[path] = copy
            else:
                self._lacking[name] = path
        return found


class Bench:
    """A directory in which files are laid out, made when there are some."""

    def __init__(self) -> None:
        self._laid: dict[str, str | bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if "_folder" in self.__dict__:
            remove_work_folder(self._folder)

    @cached_property
    def _folder(self) -> Path:
        return make_work_folder("import")

    def lay_out(self, files: Mapping[str, Kept]) -> dict[str, str]:
        """Put these files there and no others. Return those that the import may not unpack, and why."""
        wanted = {path: copy for path, copy in files.items() if copy is not None}
        for path in [path for path, copy in self._laid.items() if wanted.get(path) != copy]:
            self._take_away(path)
        refused = {}
        for path in sorted(wanted.keys() - self._laid.keys()):
            try:
                self._put(path, wanted[path])
            except UnpackedTooMuchError as error:
                doubt()  # the next import may allow more
                refused[path] = str(error)
        return refused

    def snapshot(self, store: Store, files: Mapping[str, Kept]) -> str:
        """Take a snapshot of those of the files that are laid out."""
        # What could not be laid out is not named: a name without a file says that the file was not there.
        known = [path for path, copy in files.items() if copy is None or path in self._laid]
        return store.snapshot(self._folder, include=_named(known), exclude=["*", *_ways(known)]).id

    def _take_away(self, path: str) -> None:
        """With the directories that are empty then: a snapshot would hold them."""
        del self._laid[path]
        (self._folder / path).unlink()
        self._drop_empty(path)

    def _drop_empty(self, path: str) -> None:
        with suppress(OSError):
            for above in (self._folder / path).parents[: path.count("/")]:
                above.rmdir()

    def _put(self, path: str, copy: str | bytes) -> None:
        target = self._folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(copy, bytes):
                Allowance(path).take(len(copy))
                target.write_bytes(copy)
            else:
                with open(copy, "rb", opener=_not_a_link) as source, target.open("wb") as file:
                    copy_file(source, file, path)
        except UnpackedTooMuchError:
            target.unlink(missing_ok=True)
            self._drop_empty(path)
            raise
        except OSError:
            return  # one of two paths of which one is a directory in the other, or a copy that just went
        self._laid[path] = copy


def _not_a_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _count(files: Mapping[str, Kept]) -> int:
    return sum(copy is not None for copy in files.values())


def _is_whole(known: Checkpoint | None, checkpoint: SourceCheckpoint) -> bool:
    """Whether a checkpoint of the store has a snapshot of just these copies, none of which was missing."""
    if known is None or known.snapshot is None:
        return False
    return _kept(known) >= _count(checkpoint.files) and _noted(known, "listing") == _listing(checkpoint.files)


def _kept(known: Checkpoint) -> float:
    """How many files it has; infinite for a checkpoint that no import made."""
    number = _noted(known, "kept")
    return number if isinstance(number, int) else math.inf


def _noted(known: Checkpoint, name: str) -> Json:
    return known.state.get(name) if isinstance(known.state, dict) else None


def _as_it_is(checkpoint: SourceCheckpoint, known: Checkpoint) -> SourceCheckpoint:
    return msgspec.structs.replace(checkpoint, state=known.state, snapshot=known.snapshot)


def _listing(files: Mapping[str, Kept]) -> str:
    """Names which copies are wanted, wherever they lie."""
    told = sorted((path, _mark(copy)) for path, copy in files.items())
    return blake2b(msgspec.json.encode(told), digest_size=12).hexdigest()


def _mark(copy: Kept) -> str | None:
    """Tells one copy of a file from another."""
    if isinstance(copy, bytes):
        return blake2b(copy, digest_size=16).hexdigest()
    return None if copy is None else os.path.basename(copy)


def _is_path(path: str) -> bool:
    names = path.split("/")
    return path.isprintable() and all(
        name not in ("", ".", "..") and len(name.encode()) <= _LONGEST_NAME for name in names
    )


def _is_file(place: str) -> bool:
    return os.path.isfile(place) and not os.path.islink(place)


def _named(files: Iterable[str]) -> list[str]:
    return [f"/{path.translate(_MEANS_SOMETHING)}" for path in sorted(files)]


def _ways(files: Collection[str]) -> list[str]:
    """Let these paths be seen, and the directories that lead to them."""
    above = {f"{folder}/" for path in files for folder in map(str, Path(path).parents) if folder != "."}
    return [f"!/{path.translate(_MEANS_SOMETHING)}" for path in [*sorted(above), *sorted(files)]]
