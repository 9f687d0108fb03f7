"""Several operations as one, and several reads of one moment."""

from __future__ import annotations

import threading

import pytest

from clew.backends.contract import Transaction
from clew.errors import HeadMovedError, InvalidError, LeaseHeldError, SessionNotFoundError
from clew.model import Head
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import said, say, user
from clew.testing.chain import check_store
from tests.behaviour.threads import in_threads

WRITERS = 4
TURNS = 8


class TestTransact:
    """`transact` is all or nothing across sessions, `read` sees one moment, `at=` reads anywhere."""

    def test_all_is_committed_together(self, store: Store, s: Session) -> None:
        """P2: across sessions, and whatever kind of thing."""

        def work(tx: Store) -> Head:
            mine = tx.get("s")
            mine.append(user("a"), user("b"))
            mine.set_document("d", b"1")
            tx.session("other", title="made here").set_var("v", len(mine.messages()))
            return mine.head

        head = store.transact(work)

        assert head == s.head
        assert said(s) == ["a", "b"]
        assert s.get_document("d") == b"1"
        assert store.get("other").vars() == {"v": 2}
        check_store(store)

    @pytest.mark.parametrize("error", [ZeroDivisionError, InvalidError])
    def test_nothing_is_left_of_what_raised(self, store: Store, s: Session, error: type[Exception]) -> None:
        """P2: whatever was done before it, in whatever session."""
        say(s, "a")

        def work(tx: Store) -> None:
            tx.get("s").append(user("never"))
            tx.session("never").set_document("d", b"1")
            raise error("on purpose")

        with pytest.raises(error, match="on purpose"):
            store.transact(work)

        assert said(s) == ["a"]
        assert store.find("never") is None
        check_store(store)

    def test_a_refusal_may_be_caught_and_the_rest_goes_on(self, store: Store, s: Session) -> None:
        """Operations are refused before they write."""
        stale = s.head
        say(s, "a")

        def work(tx: Store) -> str:
            mine = tx.get("s")
            try:
                mine.append(user("never"), expect=stale)
            except HeadMovedError:
                mine.append(user("b"))
            with pytest.raises(SessionNotFoundError):
                tx.get("nobody")
            return mine.id

        assert store.transact(work) == "s"
        assert said(s) == ["a", "b"]

    def test_half_of_an_operation_is_not_committed_whoever_catches_its_failure(
        self, store: Store, s: Session
    ) -> None:
        """P2: only a refusal, which wrote nothing, can be lived with."""

        def half(tx: Transaction) -> None:
            tx.put_record(s._sid, "var", "half", b"1")
            raise ZeroDivisionError

        def work(tx: Store) -> None:
            mine = tx.get("s")
            mine.append(user("never"))
            with pytest.raises(ZeroDivisionError):
                mine._scope.run(half)

        with pytest.raises(ZeroDivisionError):
            store.transact(work)

        assert (said(s), s.vars()) == ([], {})

    def test_what_one_operation_wrote_the_next_one_sees(self, store: Store, s: Session) -> None:
        """Before any of it is committed."""

        def work(tx: Store) -> list[str]:
            mine = tx.get("s")
            first = mine.append(user("a"))[0]
            mine.append(user("b"))
            mine.rewind(first)
            mine.append(user("c"))
            return said(mine)

        assert store.transact(work) == ["a", "c"] == said(s)

    def test_transactions_of_many_threads_do_not_lose_each_others_work(
        self, store: Store, s: Session
    ) -> None:
        """P5: what was read is still so when it is written."""

        def count(tx: Store) -> None:
            mine = tx.get("s")
            number = int(mine.get_document("n") or b"0") + 1
            mine.set_document("n", b"%d" % number)
            mine.append(user(str(number)))

        def work(_: int) -> None:
            for _ in range(TURNS):
                store.transact(count)

        in_threads(work, range(WRITERS))

        assert said(s) == [str(number) for number in range(1, WRITERS * TURNS + 1)]
        check_store(store)

    def test_a_transaction_writes_under_the_lease_of_its_run(self, store: Store, s: Session) -> None:
        """P11: and without it, it is refused."""

        def work(tx: Store) -> None:
            tx.get("s").append(user("b"))
            tx.session("other").append(user("c"))

        with s.run() as run:
            with pytest.raises(LeaseHeldError):
                store.transact(work)
            assert store.find("other") is None
            store.transact(work, run=run)

        assert said(s) == ["b"]
        assert next(iter(s.entries())).epoch == run.epoch

    def test_a_look_sees_one_moment(self, store: Store, s: Session) -> None:
        """What others write meanwhile is not part of it."""
        say(s, "a")

        def look(still: Store) -> list[list[str]]:
            mine = still.get("s")
            first = said(mine)
            writing = threading.Thread(target=say, args=(s, "b"))
            if store.capabilities.shared:  # others write while somebody reads
                writing.start()
                writing.join()
            return [first, said(mine), [info.id for info in still.list()]]

        assert store.read(look) == [["a"], ["a"], ["s"]]

    # -- reading elsewhere

    def test_the_path_to_any_point_can_be_read(self, s: Session) -> None:
        """P7: what was rewound can be read where it is."""
        say(s, "a", "b", "c")
        there = s.head
        s.rewind(0)
        say(s, "d")

        assert [message["content"] for message in s.messages(at=there)] == ["a", "b", "c"]
        assert [entry.message["content"] for entry in s.entries(at=there)] == ["a", "b", "c"]
        assert [message["content"] for message in s.messages(at=there, last=2)] == ["b", "c"]
        assert [message["content"] for message in s.messages(at=there, after=0)] == ["b", "c"]
        assert s.messages(at=Head("", -1)) == []
        assert said(s) == ["a", "d"]
