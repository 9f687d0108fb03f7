"""Numbers that this process makes: none comes twice, and none needs the database."""

from __future__ import annotations

import pytest

import clew
from clew.backends.postgres.rows import PLACE_BITS, TREES, Ids, home_of

MANY = 20_000


def test_thousands_of_sessions_of_one_tree_have_numbers_of_their_own() -> None:
    """Random places would collide: a transaction that makes 5,000 forks could never be committed."""
    ids = Ids()
    tree = ids.root()
    made = [ids.within(tree) for _ in range(MANY)]

    assert len({tree, *made}) == MANY + 1
    assert {home_of(number) for number in made} == {home_of(tree)}


def test_places_go_round_and_leave_out_that_of_the_first_session() -> None:
    ids = Ids()
    tree = ids.root()
    ids._places[home_of(tree)] = (1 << PLACE_BITS) - 2

    assert [ids.within(tree) - tree for _ in range(3)] == [(1 << PLACE_BITS) - 1, 1, 2]


def test_after_a_collision_another_run_of_places_begins() -> None:
    ids = Ids()
    tree = ids.root()
    before = ids.within(tree)
    starts = set()
    for _ in range(8):
        ids.change_lane()
        starts.add(ids.within(tree))

    assert starts != {before + 1}


def test_no_more_trees_are_remembered_than_need_be() -> None:
    ids = Ids()
    for tree in range(1, TREES + 10):
        ids.within(tree << PLACE_BITS)

    assert len(ids._places) <= TREES


def test_a_transaction_forks_a_session_whatever_chance_says(
    postgres_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: of thousands of random places some are equal. Here all of them are."""
    monkeypatch.setattr(Ids, "_random", lambda self, bits: 5)
    with clew.open(postgres_place) as store:
        store.session("s").append({"role": "user", "content": "hi"})

        def work(tx: clew.Store) -> None:
            s = tx.get("s")
            for number in range(20):
                s.fork(f"f{number}").append({"role": "user", "content": "hi"})

        store.transact(work)
        assert store.stats().sessions == 21
