"""Everything that is kept beside the log, computed again from the log alone.

J4: positions have no gap. J5: what is continued exists, and was there before. J10: the chain of hashes
holds. J11: all counters equal a rebuild. Call it at the end of any test: it finds what the test forgot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from clew.backends.contract import STORE_WIDE, Reader
from clew.core.log.digest import entry_digest
from clew.core.log.rows import EMPTY, KIND_NAMES, MESSAGE, EntryRow, HeadRow, SessionQuery, SessionRow
from clew.core.messages.codec import decode_json
from clew.core.messages.dialects import is_human_turn
from clew.model import Json
from clew.session import Session
from clew.store import Store

Tips: TypeAlias = dict[tuple[int, int], HeadRow]
"""The place of every entry of a tree, by branch and position."""


def check_store(store: Store) -> None:
    """Check every session of a store, those in the trash too, and the totals (J4, J5, J10, J11)."""
    with store._engine.read() as reader:
        found = [one.row for one in reader.list_sessions(SessionQuery(limit=1_000_000))]
        trash = [one.row for one in reader.list_sessions(SessionQuery(limit=1_000_000, deleted=True))]
        entries = [
            entry for tree in {row.tree for row in (*found, *trash)} for entry in _check_tree(reader, tree)
        ]
        _check_beside(reader, [*found, *trash])
    for row in found:
        check_info(store.get(row.id))
    messages = [entry for entry in entries if entry.kind == MESSAGE]
    stats = store.stats()

    assert (len(found), len(trash)) == (stats.sessions, stats.deleted)
    assert (len(messages), len(entries)) == (stats.messages, stats.entries)
    assert sum(len(entry.body) for entry in messages) == stats.bytes


def check_chain(store: Store, session: Session) -> None:
    """Check the tree of a session: every branch, and where each session stands (J4, J5, J10, J11)."""
    with store._engine.read() as reader:
        row = reader.get_session(session._sid)
        assert row is not None, f"there is no session behind {session!r}"
        _check_tree(reader, row.tree)
    check_info(session)


def check_info(session: Session) -> None:
    """What `info` says without reading must be what reading shows (J4, J10, J11)."""
    info = session.info
    entries = list(session.entries())
    messages = [entry for entry in entries if entry.kind == "message"]

    assert list(range(len(entries))) == [entry.position for entry in entries]
    assert [entry.message for entry in messages] == session.messages()
    assert len(entries) == info.entries
    assert len(messages) == info.messages
    assert sum(len(entry.raw) for entry in messages) == info.bytes
    assert (entries[-1].hash if entries else EMPTY.digest.hex()) == info.hash
    assert (entries[-1].id if entries else "(empty)") == str(info.head)
    assert info.head == session.head


def _check_tree(reader: Reader, tree: int) -> list[EntryRow]:
    entries: list[EntryRow] = []
    tips: Tips = {(0, -1): EMPTY}
    numbers: dict[str, int] = {"": 0}
    for branch in reader.tree_branches(tree):  # a branch is younger than the one that it continues
        parent = (branch.parent, branch.fork)
        assert parent in tips, f"branch {branch.uid} continues an entry that does not exist"
        rows = reader.read_entries(branch.branch, branch.fork + 1, reader.last_position(branch.branch))
        assert rows, f"branch {branch.uid} is empty"
        for row, tip in zip(rows, _rebuilt(tips[parent], branch.branch, rows), strict=True):
            assert tip == row.tip(branch.branch)
            tips[branch.branch, row.position] = tip
        numbers[branch.uid] = branch.branch
        entries += rows
    for session in reader.tree_sessions(tree):
        _check_session(reader, session, tips, numbers)
    return entries


def _check_beside(reader: Reader, sessions: list[SessionRow]) -> None:
    """What is kept beside the store leads to what exists: nothing of a purged session is left (P18)."""
    labels: dict[str, set[str]] = {}
    notes: dict[str, list[Json]] = {}
    for name, value in reader.scan_records(STORE_WIDE, "annotation"):
        tree, label, note = _annotated(reader, name, value)
        if note is not None:
            notes[name] = note
        if label is not None:
            labels.setdefault(f"{tree}:{label}", set()).add(name)
    assert labels == {name: set(decode_json(v)) for name, v in reader.scan_records(STORE_WIDE, "label")}
    for row in sessions:
        own: set[str] = set()
        for name, value in reader.scan_records(row.sid, "annotation"):
            tree, label, note = _annotated(reader, name, value)
            assert tree == row.tree, f"{row.id!r} noted something at {name}, which is of another tree"
            if note is not None:
                notes[f"{row.sid}@{name}"] = note
            if label is not None:
                own.add(f"{label}:{name}")
        assert own == {name for name, _ in reader.scan_records(row.sid, "label")}
    assert notes == {name: decode_json(value) for name, value in reader.scan_records(STORE_WIDE, "note")}
    for alias, sid in reader.scan_records(STORE_WIDE, "alias"):
        holder = reader.get_session(int(sid))
        assert holder is not None, f"the alias {alias!r} leads nowhere"
        assert alias in reader.get_details(holder.sid).aliases


def _annotated(reader: Reader, name: str, value: bytes) -> tuple[int, str | None, list[Json] | None]:
    """The tree of an entry that has an annotation, with its label and what is kept of its note."""
    uid, _, position = name.rpartition(".")
    branch = reader.find_branch(uid)
    assert branch is not None, f"{name} is annotated and does not exist"
    entry = reader.get_entry(branch.branch, int(position))
    assert entry is not None, f"{name} is annotated and not there"
    label, note = (decode_json(value).get(field) for field in ("label", "note"))
    is_note = isinstance(note, str) and bool(note)
    return branch.tree, label, [entry.time, branch.branch, note] if is_note else None


def _rebuilt(tip: HeadRow, branch: int, rows: list[EntryRow]) -> Iterator[HeadRow]:
    """The places that these entries must have behind `tip`."""
    for row in rows:
        position = tip.position + 1
        changes: dict[str, int] = {}
        match KIND_NAMES[row.kind]:
            case "message":
                changes = {"messages": tip.messages + 1, "size": tip.size + len(row.body)}
                if is_human_turn(decode_json(row.body), row.flags):
                    changes |= {"turns": tip.turns + 1, "last_user_turn": position}
            case "compaction" | "truncation":
                changes = {"view_start": position}
            case "summary":
                changes = {"summary": position}
            case "turns":
                changes = {"turns": decode_json(row.body)["user_turns"]}
        digest = entry_digest(tip.digest, position, row.kind, row.time, row.flags, row.body)
        tip = msgspec.structs.replace(tip, branch=branch, position=position, digest=digest, **changes)
        yield tip


def _check_session(reader: Reader, row: SessionRow, tips: Tips, numbers: dict[str, int]) -> None:
    place = (row.head.branch, row.head.position)
    is_last = (place[0], place[1] + 1) not in tips
    owned = bool(place[0]) and reader.get_branch(place[0]).owner == row.sid

    assert tips.get(place) == row.head, f"the head of {row.id!r} is not the place that it names"
    assert row.grows == (is_last and owned), f"{row.id!r} would append to the wrong branch"
    for uid, position in _points(reader, row.sid):
        where = (numbers.get(uid, -1), position)
        assert where in tips, f"{row.id!r} cannot come back to {uid}.{position}"


def _points(reader: Reader, sid: int) -> Iterator[tuple[str, int]]:
    """Every place that a session's moves and checkpoints lead to."""
    for _, value in reader.scan_records(sid, "move"):
        move = decode_json(value)
        yield from ((move[end]["branch"], move[end]["position"]) for end in ("came_from", "went_to"))
    for _, value in reader.scan_records(sid, "checkpoint"):
        checkpoint = decode_json(value)
        if checkpoint is not None:
            yield checkpoint["uid"], checkpoint["position"]
