"""Many callers, one transaction, one sync; and one who fails, fails alone."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends.contract import Transaction
from clew.core.engine.commit import Committer, Pending
from tests.faults.crash.common import message, texts
from tests.faults.crash.threads import crowd_of_tasks, crowd_of_threads, together
from tests.support.children import call
from tests.support.rows import each_row
from tests.support.waiting import until

CROWD = 64


@pytest.mark.needs("strace")
@pytest.mark.parametrize("crowd", [crowd_of_threads, crowd_of_tasks])
def test_a_crowd_of_appends_shares_few_syncs(tmp_path: Path, crowd: Callable[..., Any]) -> None:
    """Each sync takes so long here that whoever comes meanwhile has come before it ends."""
    trace = tmp_path / "trace"
    strace = ["strace", "-f", "-qq", "--seccomp-bpf", "-o", str(trace), "-e", "trace=fdatasync,fsync"]
    slowly = ["-e", "inject=fdatasync:delay_enter=100000"]

    before = call(crowd, str(tmp_path / "before.db"), 0, under=strace)
    without = len(_syncs(trace))
    after = call(crowd, str(tmp_path / "after.db"), CROWD, under=[*strace, *slowly])

    assert (before, after) == ([], [])
    assert 1 <= len(_syncs(trace)) - without <= CROWD // 8


def _syncs(trace: Path) -> list[str]:
    return re.findall(r"^.*f(?:data)?sync\(\d+.*$", trace.read_text(), re.MULTILINE)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with clew.open(tmp_path / "a.db") as store:
        yield store


@contextmanager
def busy_leader(committer: Committer) -> Iterator[None]:
    """Keep the leader busy with another operation while the block runs."""
    busy, go_on = threading.Event(), threading.Event()

    def keep_busy(_: Transaction) -> None:
        busy.set()
        go_on.wait()

    leader = threading.Thread(target=committer.run, args=(keep_busy,), daemon=True)
    leader.start()
    busy.wait()
    try:
        yield
    finally:
        go_on.set()
        leader.join()


def group_behind(store: clew.Store, works: list[Callable[[Transaction], Any]]) -> list[Pending[Any]]:
    """Commit operations as one group: they queue while the leader is busy."""
    committer: Committer = store._engine.committer
    pending = [Pending(work) for work in works]
    group = threading.Thread(target=committer.run_all, args=(pending,), daemon=True)
    with busy_leader(committer):
        group.start()
        until(lambda: committer._queue)
    group.join()
    return pending


def test_a_crowd_that_comes_during_a_commit_is_committed_together(
    store: clew.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads, each with an append of its own, while another one is at it: one transaction, one sync."""
    session, committer, backend = store.session("s"), store._engine.committer, store._engine.backend
    written: list[bool] = []
    write = backend.write

    def counted(certain: bool = True) -> Any:
        written.append(certain)
        return write(certain)

    monkeypatch.setattr(backend, "write", counted)
    threads = [threading.Thread(target=session.append, args=(message(f"{n}"),)) for n in range(CROWD)]
    with busy_leader(committer):
        for thread in threads:
            thread.start()
        until(lambda: len(committer._queue) == CROWD)
    for thread in threads:
        thread.join()

    assert len(written) == 2
    assert sorted(texts(session), key=int) == [f"{n}" for n in range(CROWD)]


def appending(session: clew.Session, *words: str, **options: Any) -> Callable[[Transaction], Any]:
    work = session._appending([*map(message, words)], key=None, strict=False, **options)
    assert work is not None
    return work


def test_one_operation_that_is_refused_in_a_group_fails_alone(store: clew.Store) -> None:
    a, b = store.session("a"), store.session("b")
    stale = a.head

    first, refused, last = group_behind(
        store, [appending(a, "one"), appending(a, "never", expect=stale), appending(b, "two", "three")]
    )

    assert isinstance(refused.error, clew.HeadMovedError)
    assert [len(first.outcome()), len(last.outcome())] == [1, 2]
    assert (texts(a), texts(b)) == (["one"], ["two", "three"])


@each_row("error", [RuntimeError("poison"), clew.ConflictError("late")])
def test_an_operation_that_fails_after_it_wrote_does_not_harm_the_others(
    store: clew.Store, error: Exception
) -> None:
    """Its writes are undone, theirs are kept, and each of them is there once."""
    a, b = store.create(), store.create()
    runs = []

    def poison(tx: Transaction) -> None:
        runs.append(1)
        appending(a, "poisoned")(tx)
        raise error

    first, poisoned, last = group_behind(store, [appending(a, "one"), poison, appending(b, "two", "three")])

    assert poisoned.error is error
    assert [len(first.outcome()), len(last.outcome())] == [1, 2]
    assert (texts(a), texts(b)) == (["one"], ["two", "three"])
    assert len(runs) == 2  # once with the others, once alone


def test_a_failed_group_leaves_the_store_writable_for_everybody(store: clew.Store) -> None:
    def explode(tx: Transaction) -> None:
        tx.put_record(0, "var", "half", b"1")
        raise MemoryError

    for pending in group_behind(store, [explode, explode]):
        with pytest.raises(MemoryError):
            pending.outcome()

    session = store.session("s")
    assert together([lambda: session.append(message("x")) for _ in range(8)]) == []
    with store._engine.read() as reader:
        assert reader.get_record(0, "var", "half") is None


def test_who_waits_at_the_limit_hears_that_the_store_was_closed(
    store: clew.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: what `append_nowait` took is there, what it did not take raises; nothing is lost in silence."""
    session = store.session("s")
    background = store._engine.background
    busy, go_on, waits = threading.Event(), threading.Event(), threading.Event()
    outcomes: list[object] = []

    def keep_busy(_: clew.Store) -> None:
        busy.set()
        go_on.wait()

    def wait(timeout: float | None = None) -> bool:
        if threading.current_thread() is late:
            waits.set()
        return plain_wait(timeout)

    def append_late() -> None:
        try:
            session.append_nowait(message("late"))
            outcomes.append(None)
        except clew.ClewError as error:
            outcomes.append(error)

    plain_wait = background._changed.wait
    monkeypatch.setattr(background._changed, "wait", wait)
    monkeypatch.setattr(background, "LIMIT", 1)
    holding = threading.Thread(target=store.transact, args=(keep_busy,))
    late = threading.Thread(target=append_late)
    closing = threading.Thread(target=store.close)
    holding.start()
    busy.wait()
    session.append_nowait(message("taken"))
    late.start()
    waits.wait()
    closing.start()
    until(lambda: background._stopping)
    go_on.set()
    for thread in (holding, late, closing):
        thread.join()

    assert [type(outcome) for outcome in outcomes] == [clew.errors.StoreClosedError]
    with clew.open(store.location) as again:
        assert texts(again.get("s")) == ["taken"]


def test_a_thread_that_cannot_be_started_costs_one_call(
    store: clew.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: it raises, and the next one tries again."""
    session = store.session("s")

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            session.append_nowait(message("never"))
    session.append_nowait(message("then"))
    store.flush()

    assert texts(session) == ["then"]


def test_a_failure_is_told_once_whoever_flushes_meanwhile(store: clew.Store) -> None:
    """One flush runs while a failure is being noted, another one after it."""
    engine = store._engine
    told: list[BaseException] = []

    def flush() -> None:
        try:
            engine.flush()
        except RuntimeError as error:
            told.append(error)

    flushing = threading.Thread(target=flush)

    class Asked(AbstractContextManager[None]):
        """A lock that tells when the other thread wants it."""

        lock, wanted = threading.Lock(), False

        def __enter__(self) -> None:
            self.wanted = threading.current_thread() is flushing
            self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            self.lock.release()

    class Noted(list[BaseException]):
        def __iadd__(self, others: Any) -> Any:  # type: ignore[misc]
            self.extend(others)
            flushing.start()
            until(lambda: noting.wanted or not flushing.is_alive())  # it ends here, or has to wait
            return self

    noting: Any = Asked()
    engine._noting = noting
    engine._failures = Noted()
    failed: Pending[None] = Pending(lambda _: None)
    failed.error = RuntimeError("on purpose")
    engine._note_failures([failed])
    flushing.join()
    flush()

    assert told == [failed.error]
