"""Group commit over a backend that answers from memory: what it relied upon is compared, or asked anew."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import pytest

from clew.backends.contract import STORE_WIDE, Stale, Transaction
from clew.backends.memory import MemoryBackend, MemoryTransaction
from clew.core.engine import commit
from clew.core.engine.commit import TRIES, Committer, Pending, repeatable
from clew.errors import ConflictError, OutcomeUnknownError, StoreBusyError


class RememberingBackend(MemoryBackend):
    """Keeps one record in mind, and finds out only when it commits that others have changed it."""

    def __init__(self) -> None:
        super().__init__()
        self.remembered: bytes | None = None
        self.certain: list[bool] = []
        """Of each transaction."""
        self.stale_commits = 0
        """How many of the next transactions fail, whatever they relied upon."""
        self.lose_the_answer = False

    def write(self, certain: bool = True) -> AbstractContextManager[Transaction]:  # type: ignore[override]
        self.certain.append(certain)
        return _Remembering(self, super().write(), certain=certain)

    def set_by_others(self, value: bytes) -> None:
        with super().write() as tx:
            tx.put_record(STORE_WIDE, "var", "n", value)


class _Remembering(AbstractContextManager[Transaction]):
    def __init__(
        self, backend: RememberingBackend, inner: AbstractContextManager[MemoryTransaction], *, certain: bool
    ) -> None:
        self._backend, self._inner, self._certain = backend, inner, certain

    def __enter__(self) -> Transaction:
        self._tx = self._inner.__enter__()
        self._tx.is_certain = self._certain
        self._stored = self._tx.get_record(STORE_WIDE, "var", "n")
        if not self._certain:
            self._tx.get_record = lambda sid, kind, name: self._backend.remembered  # type: ignore[method-assign]
        return self._tx

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_stale = not self._certain and self._tx.writes and self._backend.remembered != self._stored
        if exc is None and (is_stale or self._backend.stale_commits):
            self._backend.stale_commits -= not is_stale
            self._inner.__exit__(Stale, Stale(), None)
            raise Stale
        self._inner.__exit__(kind, exc, trace)
        if exc is None and self._backend.lose_the_answer:
            raise OutcomeUnknownError("the connection was cut")


def count_up(tx: Transaction) -> int:
    value = int(tx.get_record(STORE_WIDE, "var", "n") or 0) + 1
    tx.put_record(STORE_WIDE, "var", "n", b"%d" % value)
    return value


def refuse(tx: Transaction) -> None:
    value = tx.get_record(STORE_WIDE, "var", "n")
    if value is not None:
        raise ConflictError(f"there is {value!r} already")


def look(tx: Transaction) -> bytes | None:
    return tx.get_record(STORE_WIDE, "var", "n")


@pytest.fixture
def backend() -> RememberingBackend:
    return RememberingBackend()


def test_an_operation_that_relied_on_what_others_changed_is_done_anew(backend: RememberingBackend) -> None:
    backend.set_by_others(b"5")
    backend.remembered = b"1"

    assert Committer(backend).run(count_up) == 6
    assert backend.certain == [False, True]


def test_what_is_remembered_rightly_needs_no_second_try(backend: RememberingBackend) -> None:
    backend.set_by_others(b"5")
    backend.remembered = b"5"

    assert Committer(backend).run(count_up) == 6
    assert backend.certain == [False]


def test_a_refusal_that_came_from_memory_is_not_believed(backend: RememberingBackend) -> None:
    backend.remembered = b"1"

    Committer(backend).run(refuse)

    assert backend.certain == [False, True]


def test_an_answer_that_came_from_memory_is_not_believed(backend: RememberingBackend) -> None:
    backend.set_by_others(b"5")
    backend.remembered = b"1"

    assert Committer(backend).run(look) == b"5"


def test_an_operation_in_doubt_keeps_its_place_among_the_others(backend: RememberingBackend) -> None:
    order: list[str] = []

    def noted(name: str, *, writes: bool) -> Pending[None]:
        def work(tx: Transaction) -> None:
            if writes:
                tx.put_record(STORE_WIDE, "var", name, b"")
            if writes or tx.is_certain:
                order.append(name)

        return Pending(work)

    group = [noted("a", writes=True), noted("b", writes=False), noted("c", writes=True)]
    Committer(backend).run_all(group)

    assert order == ["a", "b", "c"]
    assert all(pending.settled and pending.error is None for pending in group)


def test_a_crowd_of_which_one_is_stale_is_committed_one_by_one(backend: RememberingBackend) -> None:
    backend.set_by_others(b"5")
    backend.remembered = b"1"
    group = [Pending(count_up) for _ in range(3)]

    Committer(backend).run_all(group)

    assert [pending.outcome() for pending in group] == [6, 7, 8]


def test_who_is_always_overtaken_hears_of_it(
    backend: RememberingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "PAUSE", 0)
    backend.stale_commits = TRIES + 1

    with pytest.raises(StoreBusyError, match=str(TRIES)):
        Committer(backend).run(count_up)


def test_a_crowd_whose_outcome_is_unknown_is_not_committed_again(backend: RememberingBackend) -> None:
    """F-41: the transaction may have been committed: another try would do everything twice."""
    backend.lose_the_answer = True
    group = [Pending(count_up) for _ in range(3)]

    Committer(backend).run_all(group)

    assert all(isinstance(pending.error, OutcomeUnknownError) for pending in group)
    assert backend.certain == [False]


def once(tx: Transaction) -> str:
    """As an append with a key: it looks whether it happened."""
    if tx.get_record(STORE_WIDE, "key", "k") is not None:
        return "found"
    tx.put_record(STORE_WIDE, "key", "k", b"1")
    return "done"


def test_what_is_repeatable_is_run_again_when_its_answer_is_lost() -> None:
    """And finds that it happened; the others of its group are of unknown outcome."""
    backend = RememberingBackend()
    backend.lose_the_answer = True
    found: list[str] = []

    def answers_again(tx: Transaction) -> str:
        backend.lose_the_answer = not found
        found.append(once(tx))
        return found[-1]

    group: list[Pending[Any]] = [Pending(repeatable(answers_again)), Pending(count_up)]
    Committer(backend).run_all(group)

    assert (group[0].error, group[0].result, found) == (None, "found", ["done", "found"])
    assert isinstance(group[1].error, OutcomeUnknownError)


def test_what_cannot_be_repeated_stays_of_unknown_outcome() -> None:
    """The second answer is lost too: it is not tried for ever."""
    backend = RememberingBackend()
    backend.lose_the_answer = True
    pending = Pending(repeatable(lambda tx: once(tx)))

    Committer(backend).run_all([pending])

    assert isinstance(pending.error, OutcomeUnknownError)
    assert len(backend.certain) == 2
