"""What waits for the next pass is bounded."""

from __future__ import annotations

from clew.importers.follow.pending import MOST_LETTERS, MOST_PATHS, Pending


def test_each_path_waits_once_in_the_order_of_its_coming() -> None:
    pending = Pending()
    assert not pending
    pending.add(["b", "a", "b"])
    pending.add(["a", "c"])
    assert pending
    assert pending.take() == ["b", "a", "c"]
    assert not pending
    assert pending.take() == []


def test_too_many_paths_are_everything() -> None:
    pending = Pending()
    pending.add(map(str, range(MOST_PATHS)))
    assert len(pending.take() or ()) == MOST_PATHS
    pending.add(map(str, range(MOST_PATHS + 1)))
    pending.add(["more"])
    assert pending
    assert pending.take() is None
    pending.add(["a"])
    assert pending.take() == ["a"]


def test_too_long_names_are_everything() -> None:
    pending = Pending()
    pending.add(f"{number}{'x' * 4000}" for number in range(MOST_LETTERS // 4000 + 1))
    assert pending.take() is None
