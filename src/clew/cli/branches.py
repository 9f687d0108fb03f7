"""Entries of a whole tree, those too that no session's path leads to: what a rewind left behind."""

from __future__ import annotations

from collections.abc import Iterator

import clew
from clew.cli.places import path_to
from clew.core.conversation.history import branch_pages


def entries_of_tree(store: clew.Store, tree: clew.Tree) -> Iterator[clew.Entry]:
    """Every entry of the tree, each once, branch by branch; a damaged one is left out."""
    for branch in tree.branches:
        yield from _run(store, branch.id, branch.first, branch.last)


def path_entries(
    store: clew.Store, tree: clew.Tree, place: clew.Head, first: int, last: int
) -> list[clew.Entry]:
    """The entries between two positions of the path to any place of the tree, be it left behind or not."""
    return [
        entry
        for branch, begin, end in path_to(tree, place)
        if begin <= last and end >= first
        for entry in _run(store, branch, max(first, begin), min(last, end))
    ]


def _run(store: clew.Store, branch: str, first: int, last: int) -> Iterator[clew.Entry]:
    for page in branch_pages(store._engine.read, branch, first, last):
        yield from page
