"""Where two paths part: found by hashes, in forks, branches, copies and imports alike."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import clew
from clew.errors import SessionNotFoundError
from clew.model import Comparison
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import assistant, user


def shape(found: Comparison) -> tuple[int, int, int, bool]:
    return found.common.position, found.a.entries_after, found.b.entries_after, found.same


def test_a_fork_and_its_base(store: Store, s: Session) -> None:
    """They share what was there when the fork was made."""
    s.append(*(user(f"{number}") for number in range(9)))
    for at in range(9):
        fork = s.fork(f"fork-{at}", at=at)
        assert shape(store.compare(s.id, fork.id)) == (at, 8 - at, 0, at == 8)
        fork.append(user("more"), user("again"))
        assert shape(store.compare(fork.id, s.id)) == (at, 2, 8 - at, False)
    entries = list(s.entries())
    found = store.compare(s.id, "fork-4")
    assert found.common.id == found.a.shared == found.b.shared == entries[4].id
    assert found.common.entries == 5
    assert (found.a.session, found.a.head, found.b.session) == (s.id, s.head, "fork-4")


def test_sessions_that_share_nothing(store: Store, s: Session) -> None:
    """The common part is empty, and both are told whole."""
    other = store.session("other")
    assert shape(store.compare(s.id, other.id)) == (-1, 0, 0, True)
    s.append(user("a"))
    assert shape(store.compare(s.id, other.id)) == (-1, 1, 0, False)
    other.append(user("b"))
    found = store.compare(s.id, other.id)
    assert shape(found) == (-1, 1, 1, False)
    assert found.common.id is None
    assert found.a.shared is None


def test_two_branches_of_one_session(store: Store, s: Session) -> None:
    """A rewind leaves a branch that can be compared with the present one."""
    s.append(user("0"), assistant("1"), user("2"))
    s.checkpoint("old")
    s.rewind(0)
    s.append(assistant("x"))
    assert shape(store.compare(s.id, s.id, b_at="old")) == (0, 1, 2, False)
    assert shape(store.compare(s.id, s.id, a_at=0)) == (0, 0, 1, False)


def test_a_copy_in_another_tree_is_recognised(store: Store, s: Session) -> None:
    """One history that was brought over twice, as an importer brings it: two trees, the same hashes."""
    copy = store.session("copy")
    for one in (s, copy):
        for number in range(3):
            one.append(user(f"{number}"), at=datetime(2026, 1, 1, number, tzinfo=UTC))
    copy.append(user("only there"))
    s.append(user("only here"), user("and this"))
    found = store.compare(s.id, copy.id)
    assert shape(found) == (2, 2, 1, False)
    ids = {entry.id for entry in copy.entries()}
    assert found.b.shared in ids
    assert found.a.shared not in ids


def test_the_newest_snapshot_of_each_path_is_named(store: Store, s: Session, tmp_path: Path) -> None:
    """Files of both sides can be compared from there."""
    place = tmp_path / "work"
    place.mkdir()
    (place / "f").write_text("1")
    s.append(user("0"))
    first = s.checkpoint("first", files=place)
    s.append(user("1"))
    (place / "f").write_text("2")
    second = s.checkpoint("second", files=place)
    found = store.compare(s.id, s.id, b_at=0)
    assert (found.a.snapshot, found.b.snapshot) == (second.snapshot, first.snapshot)
    assert store.compare(s.id, s.id, a_at=clew.Head("", -1)).a.snapshot is None


def test_an_unknown_session_is_refused(store: Store, s: Session) -> None:
    """The error names the session that there is not."""
    with pytest.raises(SessionNotFoundError):
        store.compare(s.id, "nobody")


def test_it_is_part_of_a_transaction(store: Store, s: Session) -> None:
    """What the transaction wrote is compared, too."""
    s.append(user("a"))
    assert store.read(lambda inside: inside.compare(s.id, s.id)).same
