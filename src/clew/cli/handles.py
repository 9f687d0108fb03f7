"""What can be pasted behind a command: sessions by short ids, entries as `0b1c2d3e@9f3a.12`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import clew
from clew.cli.names import branch_names, entry_name
from clew.core.conversation.points import find
from clew.core.log.ids import parse_entry_id


def short_ids(store: clew.Store, ids: Sequence[str]) -> dict[str, str]:
    return {id: id for id in ids}


def handles(store: clew.Store, entries: Iterable[tuple[str, str]]) -> list[str]:
    """For each session and entry id the shortest text that `clew show` takes."""
    wanted = list(entries)
    short = short_ids(store, list(dict.fromkeys(session for session, _ in wanted)))
    names: dict[int, dict[str, str]] = {}
    trees: dict[str, int] = {}
    found = []
    with store._engine.read() as reader:
        for session, id in wanted:
            if session not in trees:
                row = find(reader, session)
                trees[session] = 0 if row is None else row.tree
                branches = reader.tree_branches(trees[session]) if row is not None else []
                names.setdefault(trees[session], branch_names(branch.uid for branch in branches))
            place = parse_entry_id(id)
            name = id if place is None else entry_name(names[trees[session]], place)
            found.append(f"{short[session]}@{name}")
    return found
