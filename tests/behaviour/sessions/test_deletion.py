"""Deleting: the trash, the way back, and removal for good."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import (
    InvalidError,
    LeaseHeldError,
    SessionDeletedError,
    SessionExistsError,
    SessionNotFoundError,
)
from clew.model import utc
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, assistant, said, say, state, user
from clew.testing.chain import check_store
from tests.behaviour.calls import READS, WRITES, everything, furnish
from tests.support.rows import named


class TestDeletion:
    """A deleted session can be brought back; a purged one is gone; its forks never notice."""

    # -- the trash

    def test_delete_says_whether_there_was_something(self, store: Store, s: Session) -> None:
        """It is idempotent."""
        assert store.delete("s") is True
        assert store.delete("s") is False
        assert store.delete("never") is False

    def test_a_deleted_session_is_found_in_the_trash_only(
        self, store: Store, s: Session, clock: Ticking
    ) -> None:
        """Not by `get`, `find` or `list`; `list(deleted=True)` shows it with the time of its deletion."""
        say(s, "a")
        before = s.info
        store.delete("s")
        (found,) = store.list(deleted=True)

        assert store.find("s") is None
        with pytest.raises(SessionNotFoundError):
            store.get("s")
        assert len(store.list()) == 0
        assert (found.id, found.messages, found.deleted_at) == ("s", 1, utc(clock.now))
        assert found.hash == before.hash

    def test_the_trash_is_listed_last_deleted_first(self, store: Store) -> None:
        """And in pages, as other lists."""
        for id in "abc":
            store.create(id)
        for id in "bca":
            store.delete(id)
        page = store.list(deleted=True, limit=2)

        assert [info.id for info in page] == ["a", "c"]
        assert [info.id for info in store.list(deleted=True, cursor=page.cursor)] == ["b"]

    def test_a_session_comes_back_from_the_trash_as_it_was(self, store: Store, s: Session) -> None:
        """History, undo, checkpoints, variables, documents, events, usage, keys: all of it; the old handle
        works again."""
        _furnish_beside(furnish(s))
        s.rewind(0)
        before = everything(s)
        store.delete("s")
        restored = store.restore_deleted("s")

        assert restored == s == store.get("s") == store.get("alias of s")
        assert everything(s) == before
        assert s.info.deleted_at is None
        s.undo()
        assert len(s.append(user("a"), user("b"), key="k")) == 2
        assert said(s) == ["a", "b", "c"]
        assert len(store.list(deleted=True)) == 0

    @pytest.mark.parametrize("purge", [False, True])
    def test_an_id_can_be_used_again_at_once(self, store: Store, s: Session, purge: bool) -> None:
        """The new session has nothing of the old one, and its keys and ids are free."""
        _furnish_beside(furnish(s))
        store.delete("s", purge=purge)
        new = store.session("s")
        unused = store.create("unused")

        assert new != s
        assert (new.info.title, new.info.aliases, new.head) == (None, (), unused.head)
        for read in (Session.checkpoints, Session.vars, Session.documents, Session.events, Session.usage):
            assert read(new) == read(unused)
        new.append(user("new"), key="k")
        assert said(new) == ["new"]
        assert new.add_event("e", "other data", id="1").cursor == 1
        assert new.add_usage(input_tokens=6, id="1").number == 1

    def test_restoring_needs_a_free_id(self, store: Store, s: Session) -> None:
        """SessionExistsError while another session, or an alias, has it; nothing is changed."""
        say(s, "old")
        store.delete("s")
        with pytest.raises(SessionNotFoundError):
            store.restore_deleted("never")
        new = store.create("s")
        with pytest.raises(SessionExistsError):
            store.restore_deleted("s")
        assert store.get("s") == new
        store.delete("s", purge=False)
        other = store.create("other")
        other.add_alias("s")
        with pytest.raises(SessionExistsError):
            store.restore_deleted("s")
        assert store.get("s") == other

    def test_the_one_deleted_last_comes_back_first(self, store: Store) -> None:
        """Several sessions of one id may be in the trash."""
        for text in ("first", "second"):
            say(store.create("a"), text)
            store.delete("a")
        assert said(store.restore_deleted("a")) == ["second"]
        store.delete("a")
        assert [info.preview for info in store.list(deleted=True)] == ["second", "first"]

    def test_an_alias_in_the_trash_is_free(self, store: Store, s: Session) -> None:
        """Another session may take it; the restored one comes back without it, and leads nobody astray."""
        s.add_alias("x")
        s.add_alias("y")
        store.delete("s")
        assert store.find("x") is None
        other = store.create("other")
        other.add_alias("x")
        taken = store.create("y")
        store.restore_deleted("s")

        assert store.get("x") == other
        assert store.get("y") == taken
        assert s.info.aliases == ()
        store.delete("y")
        assert store.find("y") is None

    @pytest.mark.parametrize("how", ["deleted", "purged", "re-created"])
    def test_a_handle_on_a_deleted_session_raises(self, store: Store, s: Session, how: str) -> None:
        """S-30: SessionDeletedError from every call, even if the id is in use again by another session."""
        say(s, "a")
        s.checkpoint("c")
        store.delete("s", purge=how != "deleted")
        new = store.create("s") if how == "re-created" else None
        for name, use in (READS | WRITES).items():
            with named(name), pytest.raises(SessionDeletedError) as caught:
                use(s)
            assert caught.value.session == "s", name

        if new is not None:
            assert (said(new), new.checkpoints(), new.info.title) == ([], [], None)

    # -- purging

    def test_a_purged_session_is_gone(self, store: Store, s: Session) -> None:
        """From the trash too, with everything of that id; it says whether there was something."""
        say(s, "old")
        store.delete("s")
        new = store.create("s")
        say(new, "new")
        new.add_alias("alias")
        new.annotate(0, label="l")

        assert store.delete("alias", purge=True) is True
        assert store.delete("s", purge=True) is False
        assert store.find("s") is store.find("alias") is None
        assert len(store.list(deleted=True)) == 0
        with pytest.raises(SessionNotFoundError):
            store.restore_deleted("s")
        totals = store.stats()
        assert (totals.sessions, totals.deleted, totals.entries, totals.messages, totals.bytes) == (0,) * 5
        assert store.create("alias").info.aliases == ()

    def test_what_is_in_the_trash_is_found_by_its_alias(self, store: Store, s: Session) -> None:
        """To come back, and to be purged; whoever is in use under the alias by then is not touched."""
        say(s, "a")
        s.add_alias("alias")
        store.delete("alias")
        assert said(store.restore_deleted("alias")) == ["a"]
        store.delete("alias")

        say(store.create("alias"), "another")
        assert store.delete("alias", purge=True) is True
        assert said(store.restore_deleted("s")) == ["a"]
        s.add_alias("alias")
        store.delete("alias")
        assert store.delete("alias", purge=True) is True
        assert store.stats().entries == 0

    def test_a_purge_of_the_trash_leaves_what_is_in_use(self, store: Store, s: Session) -> None:
        """Two of one id are in the trash, and a third one lives."""
        for text in ("old", "older"):
            say(store.session("s"), text)
            store.delete("s")
        say(store.create("s"), "living")

        with pytest.raises(InvalidError, match="purge=True"):
            store.delete("s", deleted=True)
        assert store.delete("s", purge=True, deleted=True) is True
        assert store.delete("s", purge=True, deleted=True) is False
        assert said(store.get("s")) == ["living"]
        assert (store.stats().entries, store.stats().deleted) == (1, 0)

    @pytest.mark.parametrize("how", ["deleted", "purged", "deleted, then purged"])
    def test_a_fork_outlives_its_base(self, store: Store, s: Session, how: str) -> None:
        """P11: it keeps all that it shares, its checkpoints, undo, annotations, and can go on."""
        a, b, c = s.append(*map(user, "abc"))
        s.rewind(b)
        s.checkpoint("shared", state=1)
        s.annotate(a, label="l")
        s.annotate(c, label="l")
        say(s, "lost")
        s.rewind(b)
        fork = s.fork("fork")
        fork.append(user("d"), key="k")
        fork.rewind("shared")
        say(fork, "e")
        second = fork.fork("second", at=0)
        before = [state(session) for session in (fork, second)]
        checkpoints = _checkpoints(fork)
        if how != "purged":
            store.delete("s")
        if how != "deleted":
            store.delete("s", purge=True)

        assert [state(session) for session in (fork, second)] == before
        assert _checkpoints(fork) == checkpoints
        assert [entry.id for entry in fork.entries(label="l")] == [a.id]
        fork.undo()
        assert said(fork) == ["a", "b", "d"]
        assert len(fork.append(user("d"), key="k")) == 1
        assert said(fork) == ["a", "b", "d"]
        fork.rewind("shared")
        say(fork, "f")
        say(second, "g")
        assert (said(fork), said(second)) == (["a", "b", "f"], ["a", "g"])
        check_store(store)

    def test_a_purge_takes_what_nobody_else_reaches(self, store: Store, s: Session) -> None:
        """Entries after the last fork and on branches of its own; those shared stay."""
        say(s, *"abcdef")
        fork = s.fork("fork", at=2)
        s.rewind(1)
        say(s, "g")
        store.delete("s", purge=True)

        assert said(fork) == ["a", "b", "c"]
        assert store.stats().messages == 3
        store.delete("fork", purge=True)
        assert store.stats().entries == 0

    def test_a_purged_fork_leaves_its_base_alone(self, store: Store, s: Session) -> None:
        """Also where the base had gone to entries of the fork."""
        say(s, "a")
        fork = s.fork("fork")
        b, c = fork.append(user("b"), user("c"))
        s.rewind(b)
        s.undo()
        store.delete("fork", purge=True)
        assert said(s) == ["a"]
        s.redo()
        assert said(s) == ["a", "b"]
        say(s, "d")
        assert said(s) == ["a", "b", "d"]
        assert c.id not in {entry.id for entry in s.entries()}
        check_store(store)

    @pytest.mark.parametrize("order", ["base first", "middle first", "leaf first"])
    def test_generations_can_be_purged_in_any_order(self, store: Store, s: Session, order: str) -> None:
        """Whoever is left has its whole history and the checkpoints that it saw."""
        say(s, "a")
        s.checkpoint("in base")
        middle = s.fork("middle")
        say(middle, "b")
        middle.checkpoint("in middle")
        leaf = middle.fork("leaf")
        say(leaf, "c")
        seen = _checkpoints(leaf)
        names = {"base first": ["s", "middle"], "middle first": ["middle", "s"], "leaf first": ["leaf"]}[
            order
        ]
        for id in names:
            store.delete(id, purge=True)
            check_store(store)

        left = store.get("middle" if order == "leaf first" else "leaf")
        assert said(left) == (["a", "b"] if order == "leaf first" else ["a", "b", "c"])
        assert _checkpoints(left) == seen
        left.rewind("in base")
        assert said(left) == ["a"]

    # -- subagents

    @pytest.mark.parametrize("purge", [False, True])
    def test_subagents_go_along_with_the_session_that_they_work_for(self, store: Store, purge: bool) -> None:
        """Theirs too; a fork, a subagent of another session and one that was trashed before stay as they are.
        Those that went into the trash come back with the session."""
        say(store.create("p"), "a")
        store.get("p").fork("p#fork-1")
        for id, parent in (("p/1", "p"), ("p/2", "p/1"), ("p/3", "p"), ("other/1", "other")):
            say(store.create(id, metadata={"parent": parent}), "work")
        store.delete("p/3")

        assert store.delete("p", purge=purge) is True
        assert {info.id for info in store.list()} == {"p#fork-1", "other/1"}
        trashed = {info.id for info in store.list(deleted=True)}
        assert trashed == (set() if purge else {"p", "p/1", "p/2", "p/3"})
        if not purge:
            store.restore_deleted("p")
            assert {info.id for info in store.list()} == {
                "p", "p/1", "p/2", "p/3", "p#fork-1", "other/1",
            }  # fmt: skip
            assert said(store.get("p/2")) == ["work"]
        check_store(store)

    def test_a_session_in_the_trash_is_purged_with_its_subagents(self, store: Store) -> None:
        """With `deleted` those stay that may be those of a session that took the id."""
        for id, parent in (("p", None), ("p/1", "p")):
            store.create(id, metadata={"parent": parent} if parent else None)
        store.delete("p")
        store.create("p")
        assert store.delete("p", purge=True, deleted=True) is True
        assert [info.id for info in store.list(deleted=True)] == ["p/1"]
        store.delete("p")
        assert store.delete("p", purge=True) is True
        assert list(store.list(deleted=True)) == []

    def test_no_session_is_deleted_while_a_worker_holds_its_subagent(self, store: Store) -> None:
        """P9: all of them go, or none."""
        store.create("p")
        worker = store.create("p/1", metadata={"parent": "p"})
        with worker.run(lease=30):
            for purge in (False, True):
                with pytest.raises(LeaseHeldError):
                    store.delete("p", purge=purge)
            assert {info.id for info in store.list()} == {"p", "p/1"}
        store.delete("p")
        assert list(store.list()) == []

    def test_subagents_in_the_trash_whose_id_is_in_use_stay_there(self, store: Store) -> None:
        """The parent comes back without them."""
        for id, parent in (("p", None), ("p/1", "p"), ("p/2", "p")):
            store.create(id, metadata={"parent": parent} if parent else None)
        store.delete("p")
        store.create("p/1")
        store.restore_deleted("p")
        assert {info.id for info in store.list()} == {"p", "p/1", "p/2"}
        assert [info.id for info in store.list(deleted=True)] == ["p/1"]

    # -- everything

    def test_clear_must_be_meant(self, store: Store, s: Session) -> None:
        """Without `confirm=True` nothing happens."""
        confirmations: list[Any] = [False, 1, "yes", None]
        for confirm in confirmations:
            with pytest.raises(InvalidError):
                store.clear(confirm=confirm)
        with pytest.raises(InvalidError):
            store.clear(purge=True)

        assert len(store.list()) == 1

    def test_clear_puts_every_session_in_the_trash(self, store: Store) -> None:
        """And says how many; they can be brought back."""
        for id in "abc":
            say(store.create(id), id)
        store.delete("c")

        assert store.clear(confirm=True) == 2
        assert store.clear(confirm=True) == 0
        assert len(store.list()) == 0
        assert {info.id for info in store.list(deleted=True)} == {"a", "b", "c"}
        assert said(store.restore_deleted("a")) == ["a"]

    def test_clear_with_purge_leaves_nothing(self, store: Store) -> None:
        """Of live sessions, forks, and the trash."""
        for id in "abc":
            say(store.create(id), id)
        store.get("a").fork()
        store.delete("c")

        assert store.clear(confirm=True, purge=True) == 4
        totals = store.stats()
        assert (totals.sessions, totals.deleted, totals.entries, totals.messages, totals.bytes) == (0,) * 5
        assert store.create("a").messages() == []

    # -- totals

    def test_stats_count_what_is_stored(self, store: Store, s: Session) -> None:
        """Shared messages once, those on branches left behind too, marks as entries only."""
        entries = s.append(user("a"), assistant("b"))
        fork = s.fork()
        entries += fork.append(user("c"))
        fork.rewind(0)
        entries += fork.append(user("d"))
        fork.set_summary("sum")
        store.create("trashed")
        store.delete("trashed")
        stats = store.stats()

        assert (stats.sessions, stats.deleted, stats.messages, stats.entries) == (2, 1, 4, 5)
        assert stats.bytes == sum(len(entry.raw) for entry in entries)
        assert stats.bytes_on_disk >= 0
        check_store(store)


def _furnish_beside(s: Session) -> None:
    """Write down what is kept beside the conversation."""
    s.add_event("e", id="1")
    s.add_usage(input_tokens=5, id="1")
    s.annotate(0, label="l")


def _checkpoints(s: Session) -> list[tuple[Any, ...]]:
    """All but the session in which each was set: that one may be gone."""
    return [(found.name, found.head, found.state, found.created_at) for found in s.checkpoints()]
