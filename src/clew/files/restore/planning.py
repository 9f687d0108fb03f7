"""The plan of a restore: made of trees, of what the disk holds beside them, of the paths asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from clew.errors import CorruptError, InvalidError, RootRefusedError
from clew.files.journal import Restore
from clew.files.objects.format import Directory, check_name
from clew.files.restore.plan import (
    EMPTY_TREE,
    GetDirectories,
    Plan,
    Present,
    Selection,
    Step,
    find_entry,
    make_plan,
)
from clew.files.restore.rooted import Root
from clew.files.restore.survey import survey, unusual_modes

if TYPE_CHECKING:
    from clew.files.objects.store import ObjectReader

Spare: TypeAlias = Callable[[Sequence[Step]], frozenset[bytes]]
"""Of the deletions of a plan, the paths that stay, or the directories that stay with all in them."""


class Draft:
    """A plan in the making: the disk may hold what the trees do not show."""

    def __init__(
        self,
        reader: ObjectReader,
        target: bytes,
        last: bytes | None,
        wanted: tuple[bytes, ...] | None,
        *,
        overwrite: bool,
        clears: bool = False,
        spare: Spare | None = None,
    ) -> None:
        """`spare`: which of the paths that would be deleted stay."""
        self._directories = directories_of(reader)
        self._target = target
        self._last = last
        self._wanted = wanted
        self.overwrite = overwrite
        self._clears = clears
        self._spare = spare or (lambda steps: frozenset())
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
        with open_root(root) as opened:
            self._make_sparing()
            seen = survey(opened, self.plan)
            if seen.unsaved:
                safety = save(seen.unsaved)
                self._make_sparing()
                seen = survey(opened, self.plan)
            spared = self.present.blocked
            self.present = Present(seen.folders, seen.unsaved | seen.foreign | spared)
            if self.present != Present(blocked=spared):
                self._make()
            if look is None:
                self.modes = unusual_modes(opened, self.plan)
        return safety

    def essence(self) -> dict[str, Any]:
        """The fields of a journal from which `planned` makes the same plan."""
        return {
            "target": self._target,
            "last": self._last,
            "now": self.now,
            "paths": self._wanted,
            "overwrite": self.overwrite,
            "clears": self._clears,
            "folders": tuple(sorted(self.present.folders)),
            "blocked": tuple(sorted(self.present.blocked)),
            "modes": self.modes,
        }

    def _make_sparing(self) -> None:
        self.present = Present()
        self._make()
        spared = self._spare([step for step in self.plan.steps if step.new is None])
        if spared:
            self.present = Present(blocked=spared)
            self._make()

    def _make(self) -> None:
        self.plan = make_plan(
            self._target,
            self._last,
            self.now,
            self._directories,
            selection=Selection(self._wanted),
            overwrite=self.overwrite,
            clears=self._clears,
            present=self.present,
        )

    def _check_paths(self) -> None:
        trees = [tree for tree in (self._target, self._last, self.now) if tree is not None]
        unknown = [
            os.fsdecode(path)
            for path in self._wanted or ()
            if not any(find_entry(tree, path, self._directories) for tree in trees)
        ]
        if unknown:
            raise InvalidError(f"no snapshot knows {', '.join(map(repr, unknown))}")


def directories_of(reader: ObjectReader) -> GetDirectories:
    """How plans read trees: a directory that was read is not read again."""
    read: dict[bytes, Directory] = {}

    def get(names: Collection[bytes]) -> dict[bytes, Directory]:
        missing = [name for name in names if name not in read]
        for name, content in reader.get_many(missing) if missing else ():
            try:
                read[name] = Directory(content)
            except ValueError as exc:
                raise CorruptError(f"the object {name.hex()} is no directory of a snapshot: {exc}") from exc
        return read

    return get


def open_root(root: str, *, make: bool = False) -> Root:
    try:
        if make:
            os.makedirs(root, exist_ok=True)
        return Root(root)
    except OSError as exc:
        raise RootRefusedError(root, exc.strerror or str(exc)) from exc


def planned(reader: ObjectReader, record: Restore) -> Plan:
    """The plan that a restore had: from the same trees, the same steps."""
    return make_plan(
        record.target,
        record.last,
        record.now,
        directories_of(reader),
        selection=Selection(record.paths),
        overwrite=record.overwrite,
        clears=record.clears,
        present=Present(frozenset(record.folders), frozenset(record.blocked)),
    )


def clean_paths(paths: Sequence[str]) -> tuple[bytes, ...]:
    if isinstance(paths, str):
        raise InvalidError(f"paths must be a sequence of paths, not the text {paths!r}")
    return tuple(dict.fromkeys(map(_clean_path, paths)))


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
