"""The purge of a large session: few entries in each transaction, and nothing to be seen of it in between."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends.contract import STORE_WIDE
from clew.core.conversation import leftovers
from clew.errors import CheckpointNotFoundError, ConflictError, SessionNotFoundError
from clew.model import Retention
from clew.store import Store
from clew.testing.backend.base import said, say, user
from clew.testing.chain import check_store
from tests.support.purges import MOST, counted, cut_off, grow, leftovers_of

LARGE = 2500


class TestLargePurges:
    """Others write in between; whoever is cut off leaves what the next one removes."""

    def test_the_purge_of_a_large_session_removes_few_entries_in_a_transaction(self, store: Store) -> None:
        """Others wait for each of them; when the purge returns all entries are gone."""
        session = store.create("large")
        grow(session, LARGE)
        session.rewind(LARGE // 2)
        grow(session, 700)
        say(store.create("small"), "stays")

        with counted(store) as removed:
            assert store.delete("large", purge=True)

        assert sum(removed) == LARGE + 700
        assert max(removed) <= MOST
        assert (store.stats().entries, leftovers_of(store)) == (1, 0)
        check_store(store)

    def test_large_messages_are_removed_few_at_a_time(self, store: Store) -> None:
        """SQLite writes over what it removes."""
        grow(store.create("large"), 10)
        store.get("large").append(*(user("x" * 200_000) for _ in range(20)))

        with counted(store) as removed:
            store.delete("large", purge=True)

        assert sum(removed) == 30
        assert max(removed[:-2]) <= 6

    def test_a_purging_clear_removes_few_entries_in_a_transaction(self, store: Store) -> None:
        """Of all sessions together, forks among them."""
        for number in range(4):
            grow(store.create(f"s{number}"), 600)
        grow(store.get("s0").fork("fork"), 900)
        store.delete("s1")

        with counted(store) as removed:
            assert store.clear(confirm=True, purge=True) == 5

        assert sum(removed) == 4 * 600 + 900
        assert max(removed) <= MOST
        assert store.stats().entries == leftovers_of(store) == 0

    def test_a_sweep_of_the_trash_removes_few_entries_in_a_transaction(self, store: Store) -> None:
        """And says what it purged, as ever."""
        grow(store.create("large"), LARGE)
        store.delete("large")

        with counted(store) as removed:
            report = store.sweep(rules=Retention(purge_after=timedelta(microseconds=1)))

        assert [(action.verb, action.session) for action in report.actions] == [("purge", "large")]
        assert sum(removed) == LARGE
        assert max(removed) <= MOST
        assert store.stats().entries == leftovers_of(store) == 0

    def test_a_fork_keeps_its_part_of_a_large_session(self, store: Store) -> None:
        """And when the fork goes too, nothing is left."""
        base = store.create("base")
        grow(base, LARGE)
        fork = base.fork("fork", at=1499)

        store.delete("base", purge=True)

        assert len(fork.messages()) == 1500
        assert store.stats().entries == 1500
        check_store(store)

        with counted(store) as removed:
            store.delete("fork", purge=True)
        assert sum(removed) == 1500
        assert max(removed) <= MOST
        assert store.stats().entries == leftovers_of(store) == 0

    def test_nothing_is_to_be_seen_of_a_purge_that_was_cut_off(self, store: Store, tmp_path: Path) -> None:
        """Neither by reading, searching, counting nor copying; and nobody calls it damaged."""
        large = store.create("large")
        grow(large, LARGE)
        large.annotate(large.head, note="a note there", label="marked")
        head = large.head
        say(store.create("small"), "stays")
        store.search("word")

        cut_off(store, lambda: store.delete("large", purge=True))

        assert leftovers_of(store) == LARGE - MOST
        assert (store.stats().sessions, store.stats().messages, store.stats().entries) == (1, 1, 1)
        with pytest.raises(SessionNotFoundError):
            store.get("large")
        assert [*store.list(deleted=True)] == []
        assert store.search("word").hits == store.search("note").hits == ()
        with store._engine.read() as reader:
            assert all(leftovers.leftover_trees(reader))
        with pytest.raises(CheckpointNotFoundError):
            store.get("small").fork("other", at=head)
        assert store.verify(full=True).problems == ()
        check_store(store)
        with clew.open("memory:") as other:
            clew.copy(store, other)
            assert (other.stats().entries, leftovers_of(other)) == (1, 0)
        repaired = store.repair(to=tmp_path / "repaired.db")
        assert repaired.ok
        assert repaired.lost == ()
        with clew.open(tmp_path / "repaired.db") as other:
            assert (other.stats().entries, leftovers_of(other)) == (1, 0)

    @pytest.mark.parametrize("work", ["sweep", "purge", "vacuum"])
    def test_the_next_one_finishes_a_purge_that_was_cut_off(self, store: Store, work: str) -> None:
        """A sweep, a purge of the same id or of another, or a vacuum."""
        grow(store.create("large"), LARGE)
        say(store.create("small"), "stays")
        cut_off(store, lambda: store.delete("large", purge=True), batches=2)
        again: dict[str, Callable[[], Any]] = {
            "sweep": store.sweep,
            "purge": lambda: store.delete("large", purge=True),
            "vacuum": store.vacuum,
        }

        again[work]()

        assert leftovers_of(store) == 0
        assert store.verify(full=True).problems == ()
        assert said(store.get("small")) == ["stays"]

    def test_a_session_of_the_same_id_can_be_made_while_it_is_purged(self, store: Store) -> None:
        """It has nothing to do with what is being removed."""
        grow(store.create("large"), LARGE)
        cut_off(store, lambda: store.delete("large", purge=True))
        say(store.create("large"), "anew")

        store.sweep()

        assert said(store.get("large")) == ["anew"]
        assert leftovers_of(store) == 0
        check_store(store)

    def test_a_copy_does_not_join_what_is_being_removed(self, store: Store) -> None:
        """It says what to do; then all of it comes back, because it is asked for."""
        grow(store.create("large"), LARGE)
        with clew.open("memory:") as backup:
            clew.copy(store, backup)
            cut_off(store, lambda: store.delete("large", purge=True))

            with pytest.raises(ConflictError, match="clew sweep"):
                clew.copy(backup, store)
            store.sweep()
            clew.copy(backup, store)

        assert len(store.get("large").messages()) == LARGE
        check_store(store)

    def test_entries_that_a_session_has_are_not_removed(self, store: Store) -> None:
        """Whatever the mark says: nothing is lost by a mark that is wrong."""
        session = store.create("s")
        say(session, "stays")
        with store._engine.read() as reader:
            row = reader.find_session("s")
        assert row is not None
        store._engine.run(lambda tx: tx.put_record(STORE_WIDE, "unscrubbed", f"tree-{row.tree}", b""))

        store.sweep()

        assert said(session) == ["stays"]
        with store._engine.read() as reader:
            assert leftovers.leftover_trees(reader) == []
