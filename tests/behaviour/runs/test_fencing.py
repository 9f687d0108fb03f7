"""Who may write to a session while a lease is held, and what happens to those who lost theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from clew.errors import LeaseHeldError, LeaseLostError
from clew.run import Run
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import said, say, user
from clew.testing.chain import check_store
from tests.behaviour.calls import BESIDE, CONVERSATION, READS, STATUS_ONLY, everything, furnish
from tests.support.rows import each_row, named

OF_INFO: Final = {"add_alias", "remove_alias", "set_metadata", "touch", "update"}
"""Calls beside the conversation that change what is known of the session."""


def _robbed(session: Session, work: Callable[[Run], Any]) -> None:
    """A run whose lease is taken before its work."""
    with session.run() as run:
        session.run(owner="thief", steal=True)
        work(run)


class TestFencing:
    """P9: while a lease is held only its holder writes; who lost it is told, and loses no message."""

    @pytest.fixture
    def prepare(self, store: Store) -> Callable[[str], Session]:
        """Make a session with something to change of every kind."""
        return lambda id: furnish(store.session(id))

    @pytest.fixture
    def prepared(self, prepare: Callable[[str], Session]) -> Session:
        return prepare("s")

    # -- from outside

    def test_a_write_from_outside_is_refused(self, prepared: Session) -> None:
        """LeaseHeldError says who works there; nothing is changed."""
        prepared.run(owner="w")
        before = everything(prepared)
        for name, write in (CONVERSATION | STATUS_ONLY).items():
            with named(name), pytest.raises(LeaseHeldError) as caught:
                write(prepared)

            assert (caught.value.session, caught.value.owner) == ("s", "w"), name
            assert everything(prepared) == before, name

    def test_an_append_from_outside_that_nobody_waits_for_is_refused_too(
        self, store: Store, s: Session
    ) -> None:
        """`flush` raises it."""
        run = s.run(owner="w")
        s.append_nowait(user("x"))
        with pytest.raises(LeaseHeldError):
            store.flush()
        run.append_nowait(user("a"))
        store.flush()
        assert said(s) == ["a"]

    @each_row("name", BESIDE)
    @pytest.mark.parametrize("by", ["a stranger", "the run"])
    def test_a_write_beside_the_conversation_is_taken(
        self, store: Store, prepare: Callable[[str], Session], name: str, by: str
    ) -> None:
        """From whomever; neither the lease nor the conversation is touched, and it is no activity."""
        prepared = prepare(f"{name} by {by}")
        run = prepared.run()
        lease, info, messages, before = prepared.lease, prepared.info, said(prepared), everything(prepared)
        BESIDE[name](prepared if by == "a stranger" else run)
        assert everything(prepared) != before or store.find(f"fork of {prepared.id}") is not None
        assert (prepared.lease, said(prepared)) == (lease, messages)
        assert (prepared.info != info) == (name in OF_INFO)
        say(run, "d")

    def test_everybody_may_read(self, prepared: Session) -> None:
        """From outside and through the run the same, also when the run has lost its lease."""
        run = prepared.run()
        for name, read in READS.items():
            assert read(prepared) == read(run), name
        prepared.run(steal=True)
        for name, read in READS.items():
            assert read(prepared) == read(run), name

    @each_row("name", CONVERSATION)
    def test_a_write_through_the_run_is_taken(self, prepare: Callable[[str], Session], name: str) -> None:
        """It does what it does without a lease."""
        prepared, write = prepare(name), CONVERSATION[name]
        run = prepared.run()
        before = everything(prepared)
        write(run)
        unchanged = write is CONVERSATION["append (known key)"]

        assert (everything(prepared) == before) == unchanged

    @each_row("name", CONVERSATION)
    def test_a_write_that_is_asked_for_by_name_is_taken(
        self, prepare: Callable[[str], Session], name: str
    ) -> None:
        """`outside_lease()`: whoever holds a lease; it is not taken away, unless the run is ended."""
        prepared, write = prepare(name), CONVERSATION[name]
        run = prepared.run()
        before = everything(prepared)
        write(prepared.outside_lease())
        assert (everything(prepared) == before) == (write is CONVERSATION["append (known key)"])
        if write in (CONVERSATION["complete"], CONVERSATION["fail"]):
            assert prepared.lease is None
            with pytest.raises(LeaseLostError):
                say(run, "d")
        else:
            say(run, "d")
            assert prepared.info.status == "running"

    def test_what_is_written_outside_a_lease_has_no_epoch(self, store: Store, s: Session) -> None:
        """J8: an entry carries the epoch of its lease, so the epochs of a log never decrease."""
        say(s, "plain")
        with s.run() as run:
            say(run, "first")
            s.outside_lease().append(user("remark"))
            run.compact("mark")
        with s.run() as run:
            run.append(user("second"), user("second"))
            run.replace([user("new")], user_turns=3)
        say(s, "plain again")

        assert [entry.epoch for entry in s.entries()] == [2, 2, 0]
        s.undo()
        assert [entry.epoch for entry in s.entries()] == [0, 1, 0, 1, 2, 2]
        (entry,) = s.append(user("x"))
        assert entry.epoch == 0
        check_store(store)

    # -- who lost the lease

    @pytest.mark.parametrize("taken", ["stolen", "given back"])
    def test_a_run_that_lost_its_lease_writes_nothing(self, prepared: Session, taken: str) -> None:
        """F-24: LeaseLostError names both epochs, whatever it tried to write."""
        run = prepared.run()
        if taken == "stolen":
            prepared.run(owner="thief", steal=True)
        else:
            prepared.outside_lease().complete()
        before = everything(prepared)
        now = (3, "thief") if taken == "stolen" else (2, None)
        for name, write in (CONVERSATION | BESIDE).items():
            with named(name), pytest.raises(LeaseLostError) as caught:
                write(run)

            assert (caught.value.session, caught.value.epoch) == ("s", 2), name
            assert (caught.value.current_epoch, caught.value.owner) == now, name
            assert everything(prepared) == before, name

    def test_what_was_not_written_comes_back(self, store: Store, s: Session) -> None:
        """F-24: the messages of the append, so that they can go into a fork."""
        run = s.run()
        say(run, "a")
        head = run.head
        say(s.run(steal=True), "b")
        with pytest.raises(LeaseLostError) as caught:
            run.append(user("c"), '{"role": "user",  "content": "d"}')

        assert caught.value.messages == (user("c"), user("d"))
        fork = s.fork(at=head)
        fork.append(*caught.value.messages)
        assert (said(s), said(fork)) == (["a", "b"], ["a", "c", "d"])
        check_store(store)

    def test_what_was_posted_and_not_written_comes_back(self, store: Store, s: Session) -> None:
        """F-24: those of all appends since the last flush, in their order, each once."""
        run = s.run()
        s.run(steal=True)
        run.append_nowait(user("a"))
        run.append_nowait(user("b"), user("c"))
        run.append_nowait(user("d"))
        with pytest.raises(LeaseLostError) as caught:
            store.flush()

        assert caught.value.messages == tuple(map(user, "abcd"))
        assert said(s) == []
        store.flush()

    def test_a_block_that_lost_its_lease_says_so(self, s: Session) -> None:
        """P4: it does not end as if all were well."""
        runs: list[Run] = []
        with pytest.raises(LeaseLostError) as caught:
            _robbed(s, runs.append)
        assert (caught.value.epoch, caught.value.current_epoch, caught.value.owner) == (1, 2, "thief")
        assert (runs[0].lost, s.info.status, s.info.epoch) == (True, "running", 2)

    def test_an_exception_keeps_its_type_when_the_lease_is_lost(self, s: Session) -> None:
        """A note tells that the run could not be marked; that of the lost lease itself needs none."""
        with pytest.raises(ZeroDivisionError) as caught:
            _robbed(s, lambda run: 1 / 0)
        assert any("lease" in note for note in caught.value.__notes__)
        assert s.info.status == "running"
        s.outside_lease().complete()

        with pytest.raises(LeaseLostError) as lost:
            _robbed(s, lambda run: run.append(user("a")))
        assert lost.value.messages == (user("a"),)
        assert not hasattr(lost.value, "__notes__")

    def test_a_thief_can_be_robbed(self, s: Session) -> None:
        """Each epoch has one holder; all but the last are refused (J8)."""
        runs: list[Run] = [s.run(owner=f"w{number}", steal=True) for number in range(5)]
        for run in runs[:-1]:
            with pytest.raises(LeaseLostError) as caught:
                say(run, "x")
            assert (caught.value.current_epoch, caught.value.owner) == (5, "w4")
        say(runs[-1], "a")

        assert [run.epoch for run in runs] == [1, 2, 3, 4, 5]
        assert said(s) == ["a"]

    # -- forks

    def test_a_fork_of_a_leased_session_is_free(self, store: Store, s: Session) -> None:
        """It has never had a lease: its epochs begin anew. What it shares keeps the epochs of its base."""
        run = s.run(owner="w")
        say(run, "a")
        for fork in (s.fork(), run.fork()):
            assert (fork.lease, fork.info.status, fork.info.epoch) == (None, "pending", 0)
            say(fork, "b")
            with fork.run() as own:
                assert own.epoch == 1
                say(own, "c")
            assert [entry.epoch for entry in fork.entries()] == [1, 0, 1]
        say(run, "d")
        assert said(s) == ["a", "d"]
        check_store(store)

    def test_a_lease_of_a_base_is_none_of_its_fork(self, s: Session) -> None:
        """P9: they may have the same epoch; each is lost by itself, and none opens the other's session."""
        run, fork = s.run(owner="base"), s.fork()
        first = fork.run(owner="fork")
        second = fork.run(owner="thief", steal=True)
        assert (run.epoch, first.epoch, second.epoch) == (1, 1, 2)
        with pytest.raises(LeaseLostError):
            say(first, "x")
        say(run, "a")
        say(second, "b")

        assert (said(s), said(fork)) == (["a"], ["b"])
        assert (s.lease and s.lease.owner, fork.lease and fork.lease.owner) == ("base", "thief")
