"""Entries that no session's path leads to: what a rewind or a replacement left behind.

A session shows its path; every branch that it wrote is in its export, line by line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import clew
from clew.cli.places import left_behind, path_to
from clew.core import lines
from clew.core.rows import KIND_NAMES, NOT_HUMAN, REPLACED
from clew.exporters import jsonl


def entries_of_tree(store: clew.Store, tree: clew.Tree) -> Iterator[clew.Entry]:
    """Every entry that a session of the tree wrote or needs, each once."""
    seen: set[str] = set()
    left = {branch.session for branch in left_behind(tree) if branch.session in tree.heads}
    for id in tree.heads:
        found = exported(store, id) if id in left else store.get(id).entries(damaged="skip")
        for entry in found:
            if entry.id not in seen:
                seen.add(entry.id)
                yield entry


def path_entries(
    store: clew.Store, tree: clew.Tree, place: clew.Head, first: int, last: int
) -> list[clew.Entry]:
    """The entries between two positions of the path to any place of the tree, be it left behind or not."""
    runs = path_to(tree, place)
    wanted = {
        (branch, position)
        for branch, begin, end in runs
        for position in range(max(first, begin), min(last, end) + 1)
    }
    owners = {branch.id: branch.session for branch in tree.branches}
    sessions = dict.fromkeys(owners.get(branch) or tree.session for branch, _ in wanted)
    found: dict[int, clew.Entry] = {}
    for entry in _each(store, sessions):
        branch, _, position = entry.id.rpartition(".")
        if (branch, int(position)) in wanted:
            found[entry.position] = entry
    return [found[position] for position in sorted(found)]


def _each(store: clew.Store, sessions: Iterable[str]) -> Iterator[clew.Entry]:
    for id in sessions:
        if store.find(id) is not None:
            yield from exported(store, id)


def exported(store: clew.Store, id: str) -> Iterator[clew.Entry]:
    """Every entry that a session wrote or needs, on whatever branch; in bounded memory."""
    branches: dict[int, str] = {}
    for text in jsonl.pieces(store, id):
        line = lines.decode(lines.open_line(text.rstrip(b"\n"))[1])
        if isinstance(line, lines.BranchLine):
            branches[line.row.branch] = line.row.uid
        elif isinstance(line, lines.EntryLine):
            row = lines.entry_row(line)
            yield clew.Entry(
                f"{branches[line.branch]}.{row.position}",
                row.position,
                KIND_NAMES[row.kind],
                row.body,
                row.time,
                row.digest,
                bool(row.flags & REPLACED),
                epoch=row.epoch,
                injected=bool(row.flags & NOT_HUMAN),
            )
