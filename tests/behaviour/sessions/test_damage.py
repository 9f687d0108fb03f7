"""A damaged session among others: what it costs, and what it does not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import msgspec
import pytest

from clew.backends.contract import STORE_WIDE, Backend
from clew.errors import CorruptError
from clew.session import Session
from clew.store import Store, copy
from clew.store import open as open_store
from clew.testing.backend.base import say, user


def harm(backend: Backend, session: Session) -> None:
    """Give it a status that there is none."""
    with backend.write() as tx:
        row = tx.get_session(session._sid)
        assert row is not None
        tx.set_session(msgspec.structs.replace(row, status=99))


def _attempt(work: Callable[[], object]) -> str | None:
    """What the error said, if there was one."""
    try:
        work()
    except CorruptError as error:
        return str(error)
    return None


class TestDamage:
    """One damaged session costs itself."""

    def test_s51_purging_a_relative_of_a_damaged_session_says_which_goes_first(
        self, store: Store, backend: Backend, s: Session
    ) -> None:
        """Nobody can tell what a damaged session needs of the history that both have. A backend that keeps
        nothing between two processes need not look at what it holds."""
        say(s, "a")
        fork = s.fork("fork")
        say(fork, "b")
        harm(backend, fork)

        if backend.capabilities.durability != "memory":
            with pytest.raises(CorruptError, match="Purge 'fork' first"):
                store.delete("s", purge=True)
            assert s.messages() == [user("a")]
        assert store.delete("fork", purge=True)
        assert [info.id for info in store.list()] == ["s"]
        assert store.stats().entries == 1
        assert store.delete("s", purge=True)
        assert len(store.list()) == 0
        assert store.stats().entries == 0

    def test_p18_nothing_beside_the_entries_of_a_damaged_session_outlives_it(
        self, store: Store, backend: Backend, s: Session
    ) -> None:
        """Annotations, their notes and their labels go with it, on all of its branches."""
        say(s, "a", "b")
        s.annotate(1, note="word", label="l")
        s.rewind(0)
        say(s, "c")
        s.annotate(1, note="word", label="l")
        harm(backend, s)

        assert store.delete("s", purge=True)
        with backend.read() as reader:
            for kind in ("annotation", "note", "label"):
                assert reader.scan_records(STORE_WIDE, kind) == []
        assert store.verify().ok

    def test_s51_a_backup_of_a_store_with_a_damaged_session_holds_all_others(
        self, store: Store, backend: Backend, s: Session, tmp_path: Path
    ) -> None:
        """And what is not whole says so: it is a copy of a file, with all that is in it, or CorruptError."""
        say(s, "a")
        say(store.session("other"), "b")
        harm(backend, s)
        said = _attempt(lambda: store.backup(tmp_path / "backup.db"))
        assert said is None or ("'s'" in said and "holds all others" in said)
        with open_store(tmp_path / "backup.db") as found:
            assert found.get("other").messages() == [user("b")]
            assert [info.id for info in found.list() if not info.damaged] == ["other"]

    def test_s51_a_backup_that_is_not_whole_replaces_none(
        self, store: Store, backend: Backend, s: Session, tmp_path: Path
    ) -> None:
        """The older one may hold what is damaged now."""
        say(s, "a")
        store.backup(tmp_path / "backup.db")
        harm(backend, s)
        said = _attempt(lambda: store.backup(tmp_path / "backup.db", overwrite=True))
        if said is not None:
            assert "stays as it is" in said
            with open_store(tmp_path / "backup.db") as found:
                assert found.get("s").messages() == [user("a")]

    def test_s51_a_repaired_store_is_sound_and_can_be_copied(
        self, store: Store, backend: Backend, s: Session, tmp_path: Path
    ) -> None:
        """Hashes that do not fit and sums that are wrong are made anew, with what follows from them."""
        say(s, "a", "b", "c")
        for tokens in (1, 2, 3):
            s.add_usage(model="m", input_tokens=tokens)
        with backend.write() as tx:
            row = tx.get_session(s._sid)
            assert row is not None
            branch = row.head.branch
            (call,) = tx.read_usage(s._sid, 2, 1)
            tx.add_usage(s._sid, msgspec.structs.replace(call, number=4, id=None))
            entries = tx.read_entries(branch, 0, 2)
            tx.drop_entries(branch, 0)
            tx.add_entries(branch, [msgspec.structs.replace(entries[1], digest=b"x" * 32), entries[2]])
        store.repair(to=tmp_path / "whole.db")
        with open_store(tmp_path / "whole.db") as whole, open_store("memory:") as copied:
            assert whole.verify(full=True).problems == ()
            assert whole.get("s").messages() == [user("a"), user("b"), user("c")]
            assert copy(whole, copied).sessions == 1


class TestListsOfDamage:
    """What is damaged beside a session costs what it was good for."""

    def test_a_damaged_call_costs_its_sums_and_hides_no_session(self, tmp_path: Path) -> None:
        """The list is whole, whatever one record says."""
        path = tmp_path / "clew.db"
        with open_store(path) as store:
            for id, parent in (("p", None), ("c", "p"), ("d", "p")):
                store.create(id, metadata={"parent": parent} if parent else None).add_usage(cost=1)
        with closing(apsw.Connection(str(path))) as connection:
            connection.execute("UPDATE usage SET all_cost = -1 WHERE key >> 32 = 2")
        with open_store(path) as store:
            page = store.list(usage=True)
            costs = {info.id: int(used.cost) for info, used in zip(page, page.usage, strict=True)}
            assert costs == {"p": 2, "c": 0, "d": 1}
            assert [info.id for info in store.list(min_cost=1)] == ["d", "p"]

    def test_damaged_facets_are_not_counted_and_hide_none(self, tmp_path: Path) -> None:
        """The other values are counted all the same."""
        path = tmp_path / "clew.db"
        with open_store(path) as store:
            for id, model in (("a", "m"), ("b", "n"), ("c", "m")):
                store.create(id, model=model, workspace="/w/x", metadata={"agent": f"of-{id}", "parent": "a"})
        with closing(apsw.Connection(str(path))) as connection:
            connection.execute(
                "UPDATE facets SET value = CAST(x'ff22' AS TEXT) WHERE name = ':model' AND sid = 2"
            )
            connection.execute("UPDATE facets SET value = 'no json' WHERE name = 'agent' AND sid = 3")
            connection.execute(
                "UPDATE facets SET value = CAST(x'ff' AS TEXT) WHERE name = 'parent' AND sid = 2"
            )
        with open_store(path) as store:
            found = store.facets()
            assert [(one.value, one.sessions) for one in found.models] == [("m", 2)]
            assert [one.value for one in found.agents] == ["of-a", "of-b"]
            page = store.list(usage=True, limit=9)
            assert {info.id: used.subagents for info, used in zip(page, page.usage, strict=True)}["a"] == 1
