"""S-52: a tree that is deep is drawn without a deep stack, and not wider than a terminal can show."""

from __future__ import annotations

import sys

import clew
from clew.cli.store import entries_of_tree
from clew.cli.views.graph import MOST_LANES, draw


def comb(depth: int) -> clew.Tree:
    """Each session goes on by itself, and is forked before its end: a lane within a lane within a lane."""
    branches, heads = [], {}
    parent: clew.Head | None = None
    for level in range(depth):
        branches.append(clew.Branch(f"b{level}", f"s{level}", parent, level, level + 1))
        heads[f"s{level}"] = clew.Head(f"b{level}", level + 1)
        parent = clew.Head(f"b{level}", level)
    return clew.Tree("s0", tuple(branches), heads, {}, ())


def test_s52_forks_within_forks_need_no_deep_stack() -> None:
    depth = sys.getrecursionlimit() + 100
    rows = draw(comb(depth))
    assert {row.entry for row in rows if row.entry} == {
        clew.Head(f"b{level}", position) for level in range(depth) for position in (level, level + 1)
    }
    assert {head for row in rows for head in row.heads} == {f"s{level}" for level in range(depth)}
    assert max(len(row.lanes) for row in rows) <= 2 * MOST_LANES + 1


def test_s52_a_few_forks_within_forks_have_a_lane_each() -> None:
    assert [row.lanes for row in draw(comb(3))] == ["●", "├─╮", "│ ○", "│ ├─╮", "│ │ ○", "│ │ ○", "│ ○", "●"]


def test_s52_every_entry_of_a_tree_is_read_once() -> None:
    with clew.open("memory:") as store:
        session = store.session("s")
        for number in range(20):
            session.append({"role": "user", "content": str(number)}, {"role": "user", "content": "on"})
            session = session.fork(f"fork-{number}", at=2 * number)
        found = [entry.id for entry in entries_of_tree(store, session.tree())]
        assert len(found) == len(set(found)) == 40
