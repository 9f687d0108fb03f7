"""S-52: a sweep looks at a tree of many sessions once, not once for each batch of them."""

from __future__ import annotations

from typing import cast

import pytest

from clew.backends.contract import Backend
from clew.backends.memory import MemoryBackend
from clew.model import Retention
from clew.store import Store
from tests.support.storage import Counting
from tests.support.stores import forks_of_forks


@pytest.mark.parametrize("rules", [Retention(max_messages=3), Retention(max_messages=10_000)])
@pytest.mark.parametrize("of_the_store", [True, False])
def test_s52_a_sweep_in_many_batches_looks_at_a_large_tree_once(
    monkeypatch: pytest.MonkeyPatch, rules: Retention, of_the_store: bool
) -> None:
    monkeypatch.setattr("clew.core.retention.sweep.BATCH", 5)
    costs = []
    for depth in (100, 200):
        counting = Counting(MemoryBackend())
        with Store(cast("Backend", counting)) as store:
            forks_of_forks(store, depth)
            if of_the_store:
                store.set_retention(rules)
            before = counting.count
            store.sweep(rules=None if of_the_store else rules)
            costs.append(counting.count - before)
    assert costs[1] < 2.5 * costs[0]
