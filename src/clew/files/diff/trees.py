"""How two trees differ: directory by directory, and what is equal by its hash is not entered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from clew.files.objects.format import FOLDER, LINK, TreeBudget, TreeEntry
from clew.model.files import DiffStatus

ListDirectory: TypeAlias = Callable[[bytes], Sequence[TreeEntry]]
_Pair: TypeAlias = tuple[TreeEntry | None, TreeEntry | None]


class Difference(msgspec.Struct, frozen=True, gc=False):
    """A path that is not the same in two trees. At least one of `old` and `new` is there."""

    path: bytes
    old: TreeEntry | None
    new: TreeEntry | None

    @property
    def status(self) -> DiffStatus:
        if self.old is None:
            return "added"
        if self.new is None:
            return "removed"
        if kind_of(self.old) != kind_of(self.new):
            return "type"
        return "mode" if self.old.digest == self.new.digest else "modified"


def kind_of(entry: TreeEntry) -> int:
    """FILE, LINK or FOLDER: whether a file can be executed, or lies in chunks, is no matter of kind."""
    return entry.kind if entry.kind in (LINK, FOLDER) else 0


def differences(old: bytes | None, new: bytes | None, directory: ListDirectory) -> Iterator[Difference]:
    """What differs between two trees, named by their roots; None: there is nothing on that side.

    In the order of a walk: names by their bytes, a directory before what is in it. A directory that is
    on both sides differs only by what is in it; one that is on one side only is reported if it is empty,
    else what is in it is. CorruptError: there are more paths than any snapshot has.
    """
    if old == new:
        return
    budget = TreeBudget()
    # The walk keeps the rest of each directory on the way down: memory is depth times width.
    below: list[tuple[bytes, Iterator[_Pair]]] = [(b"", _pairs(old, new, directory))]
    while below:
        prefix, pairs = below[-1]
        pair = next(pairs, None)
        if pair is None:
            below.pop()
            continue
        was, now = pair
        entry = now or was
        assert entry is not None
        path = prefix + entry.name
        budget.spend(path)
        old_folder, new_folder = _folder(was), _folder(now)
        inside = list(_pairs(old_folder, new_folder, directory)) if old_folder or new_folder else []
        is_folder_on_both = old_folder is not None and new_folder is not None
        is_told_by_content = bool(inside) and (was is None or now is None)
        if not is_folder_on_both and not is_told_by_content:
            yield Difference(path, was, now)
        if inside:
            below.append((path + b"/", iter(inside)))


def _folder(entry: TreeEntry | None) -> bytes | None:
    return entry.digest if entry is not None and entry.kind == FOLDER else None


def _pairs(old: bytes | None, new: bytes | None, directory: ListDirectory) -> Iterator[_Pair]:
    """The entries of two directories, those of one name together, unless they are equal."""
    was = {entry.name: entry for entry in directory(old)} if old is not None else {}
    now = {entry.name: entry for entry in directory(new)} if new is not None else {}
    for name in sorted(was.keys() | now.keys()):
        before, after = was.get(name), now.get(name)
        if before is None or after is None or (before.kind, before.digest) != (after.kind, after.digest):
            yield before, after
