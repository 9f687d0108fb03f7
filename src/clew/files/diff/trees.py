"""How two trees differ, and which of the files that went are those that came under another name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from clew.files.objects.format import FOLDER, LINK, TreeBudget, TreeEntry
from clew.model.files import DiffStatus

# -- what differs: what is equal by its hash is not entered

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


# -- which of the files that went are those that came, under another name

SIMILAR: Final = 0.5
"""How much of the larger file must be in the other one."""
MOST_TEXT: Final = 1024 * 1024
MOST_CANDIDATES: Final = 500
COMMON: Final = 50
"""A line that is in more files than this says nothing about where a file comes from."""


def exact_renames(removed: Sequence[Difference], added: Sequence[Difference]) -> dict[bytes, Difference]:
    """For the path of each added file that was moved as it is: where it was. Each file that went away is
    used once, for one of the same name before others. Empty files are all alike, so they tell nothing."""
    by_digest: dict[bytes, list[Difference]] = defaultdict(list)
    for gone in removed:
        if gone.old is not None and kind_of(gone.old) == 0 and gone.old.size:
            by_digest[gone.old.digest].append(gone)
    pairs: dict[bytes, Difference] = {}
    for same_name in (True, False):
        for come in added:
            if come.path in pairs or come.new is None or kind_of(come.new) != 0:
                continue
            candidates = by_digest.get(come.new.digest, [])
            for place, gone in enumerate(candidates):
                if not same_name or _name(gone.path) == _name(come.path):
                    pairs[come.path] = candidates.pop(place)
                    break
    return pairs


def similar_renames(removed: Mapping[bytes, bytes], added: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """For the path of each added text that is like a removed one: the path of that one.

    Both maps lead from paths to contents. The most alike come first; each path is used once.
    """
    old_lines = {path: _lines(content) for path, content in removed.items()}
    holders: dict[bytes, list[bytes]] = defaultdict(list)
    for path, lines in old_lines.items():
        for line in lines:
            holders[line].append(path)
    scores: list[tuple[float, bool, bytes, bytes]] = []
    for path, content in added.items():
        shared: dict[bytes, int] = defaultdict(int)
        for line, count in _lines(content).items():
            candidates = holders.get(line, ())
            if len(candidates) <= COMMON:
                for old in candidates:
                    shared[old] += len(line) * min(count, old_lines[old][line])
        for old, size in shared.items():
            score = size / max(len(content), len(removed[old]))
            if score >= SIMILAR:
                scores.append((-score, _name(old) != _name(path), path, old))
    pairs: dict[bytes, bytes] = {}
    used: set[bytes] = set()
    for _, _, path, old in sorted(scores):
        if path not in pairs and old not in used:
            pairs[path] = old
            used.add(old)
    return pairs


def is_text(content: bytes) -> bool:
    if b"\0" in content:
        return False
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _lines(content: bytes) -> dict[bytes, int]:
    counts: dict[bytes, int] = defaultdict(int)
    for line in content.splitlines(keepends=True):
        counts[line] += 1
    return counts
