"""Crashes and errors at every file operation: what was acknowledged is there."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends.jsonl import JsonlBackend, disk
from clew.errors import BackendError, ClewError, DiskFullError, OutcomeUnknownError, StoreBusyError
from clew.testing.backend.base import user
from clew.testing.chain import check_store
from tests.backends.jsonl.stores import said
from tests.support.effort import spread

CHANGING = (
    "open_for_appending", "open_for_patching", "create", "write", "write_at", "truncate", "sync",
    "sync_directory", "replace", "remove",
)  # fmt: skip
QUICK, MOST = 8, 24
"""Operations of the workload at which something happens, of a hundred; a thorough run takes every one."""


class Faults:
    """Calls something at the Nth changing file operation, before or after it is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.names: list[str] = []
        self.at: Callable[[int, str], None] = lambda number, name: None
        self.after: Callable[[int, str], None] = lambda number, name: None
        for name in CHANGING:
            monkeypatch.setattr(disk, name, self._wrapped(name, getattr(disk, name)))

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            number = self.count
            self.names.append(name)
            self.at(number, name)
            result = real(*args, **kwargs)
            self.after(number, name)
            return result

        return call


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(monkeypatch)


def append_steps(place: Path) -> Iterator[str]:
    """A workload: yields what is acknowledged, as it is."""
    store = clew.Store(JsonlBackend(place))
    session = store.session("s")
    yield "s"
    session.append(user("one"), key="k1")
    yield "one"
    session.append(user("two"), user("both"), key="k2")
    yield "two both"
    fork = session.fork("f")
    yield "f"
    fork.append(user("three"), key="k3")
    yield "three"
    session.rewind(0)
    yield "rewound"
    store.delete("s", purge=True)
    yield "purged"
    store.close()
    yield "closed"


def check(place: Path, acknowledged: list[str]) -> None:
    """What was acknowledged is there; what was begun next is there as a whole or not at all."""
    with clew.Store(JsonlBackend(place)) as store:
        check_store(store)
        ids = {info.id for info in store.list()}
        texts = {id: said(store, id) for id in ids}
        if "purged" in acknowledged:
            assert ids == {"f"}
        if "f" in acknowledged:
            assert texts["f"][:3] == ["one", "two", "both"]
        if "three" in acknowledged:
            assert texts["f"] == ["one", "two", "both", "three"]
        if "s" in ids:
            allowed = {0: [[], ["one"]], 1: [["one"], ["one", "two", "both"]]}
            stage = 0 if "one" not in acknowledged else 1
            assert texts["s"] in allowed[stage]
            if "two both" in acknowledged and "three" not in acknowledged:
                assert texts["s"] == ["one", "two", "both"]
        assert "s" in ids or "s" not in acknowledged or "rewound" in acknowledged
        store.session("new").append(user("goes on"))
        assert len(store.get("new").messages()) == 1


def count_operations(place: Path, faults: Faults) -> int:
    for _ in append_steps(place):
        pass
    return faults.count


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_process_that_dies_at_any_file_operation_loses_nothing(
    fast_path: Path, faults: Faults, moment: str
) -> None:
    """P1, P2, F-02, F-05: before and after each of them, recovery included."""
    total = count_operations(fast_path / "whole", faults)
    assert total > 40
    for number in spread(range(1, total + 1), MOST, quick=QUICK):
        place = fast_path / f"{number}"
        acknowledged = _run_and_die(place, faults, moment, number)
        faults.at = faults.after = lambda number, name: None
        check(place, acknowledged)


def _run_and_die(place: Path, faults: Faults, moment: str, number: int) -> list[str]:
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            faults.count = 0

            def die(at: int, name: str) -> None:
                if at == number:
                    os._exit(9)

            setattr(faults, "at" if moment == "before" else "after", die)
            for step in append_steps(place):
                os.write(tell, f"{step}\n".encode())
        finally:
            os._exit(0)
    os.close(tell)
    with os.fdopen(told) as lines:
        acknowledged = lines.read().splitlines()
    os.waitpid(child, 0)
    return acknowledged


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("persistent", [False, True])
def test_an_error_at_any_file_operation_is_told_and_loses_nothing(
    fast_path: Path, faults: Faults, code: int, persistent: bool
) -> None:
    """P4, F-06, F-08: once and from then on; the store can be used again when the disk can."""
    total = count_operations(fast_path / "whole", faults)
    chosen = spread(range(1, total + 1), MOST, quick=QUICK)
    told = 0
    for number in chosen:
        place = fast_path / f"{number}"
        faults.count = 0

        def fail(at: int, name: str, number: int = number) -> None:
            if (at >= number if persistent else at == number) and name != "remove":
                raise OSError(code, os.strerror(code))

        faults.at = fail
        acknowledged: list[str] = []
        try:
            for step in append_steps(place):
                acknowledged += [step]
        except ClewError:
            told += 1
        faults.at = lambda number, name: None
        check(place, acknowledged)
    assert told > len(chosen) // 2


def test_a_failed_sync_is_an_unknown_outcome_and_a_retry_writes_once(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4, F-08: after a failed sync nothing is built upon what may not be there."""
    with clew.Store(JsonlBackend(fast_path / "store")) as store:
        session = store.session("s")
        session.append(user("one"))
        log = fast_path / "store" / "sessions" / "s.jsonl"
        before = log.read_bytes()

        def fail(handle: int) -> None:
            raise OSError(errno.EIO, "fault")

        with monkeypatch.context() as patched:
            patched.setattr(disk, "sync", fail)
            with pytest.raises(OutcomeUnknownError) as caught:
                session.append(user("two"), key="k")
        assert isinstance(caught.value.__cause__, OSError)
        assert log.read_bytes() == before
        session.append(user("two"), key="k")
        session.append(user("two"), key="k")

        assert [message["content"] for message in session.messages()] == ["one", "two"]


def test_a_full_disk_blocks_appends_only(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P23, F-06, F-10: half a line is taken away again, and all can be read."""
    with clew.Store(JsonlBackend(fast_path / "store")) as store:
        session = store.session("s")
        session.append(user("one"))
        real = disk.write

        def half(handle: int, data: bytes) -> None:
            real(handle, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "full")

        with monkeypatch.context() as patched:
            patched.setattr(disk, "write", half)
            with pytest.raises(DiskFullError):
                session.append(user("two"))
            with pytest.raises(DiskFullError):
                session.fork("f")
            assert [message["content"] for message in session.messages()] == ["one"]
        session.append(user("three"))
        session.fork("f")

        assert said(store, "f") == ["one", "three"]
        assert not list((fast_path / "store" / "quarantine").iterdir())


def test_without_locks_nothing_is_written(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail closed."""
    from clew.backends.jsonl import lock

    monkeypatch.setattr(lock, "fcntl", None)
    with pytest.raises(BackendError, match="lock"):
        JsonlBackend(fast_path / "store")

    assert not (fast_path / "store" / "store.jsonl").exists()


def test_what_a_dead_process_left_is_seen_by_a_living_one(fast_path: Path, faults: Faults) -> None:
    """F-01: it died when the log had it and the index did not."""
    with clew.Store(JsonlBackend(fast_path / "store")) as store:
        session = store.session("s")
        session.append(user("one"))
        child = os.fork()
        if child == 0:

            def die(at: int, name: str) -> None:
                if name == "sync":
                    os._exit(9)

            with clew.Store(JsonlBackend(fast_path / "store")) as mine:
                faults.after = die
                mine.get("s").append(user("two"))
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        session.append(user("three"))

        assert [message["content"] for message in session.messages()] == ["one", "two", "three"]
        check_store(store)


def test_who_can_not_get_the_lock_writes_nothing(fast_path: Path) -> None:
    """F-22: StoreBusyError, and nothing is changed."""
    first = JsonlBackend(fast_path / "store")
    second = JsonlBackend(fast_path / "store", timeout=0.05)
    first.store_lock.acquire(1)
    with pytest.raises(StoreBusyError), second.write():
        pass
    first.store_lock.release()
    with second.write() as tx:
        tx.put_record(0, "var", "n", b"1")
    with first.read() as reader:
        assert reader.get_record(0, "var", "n") == b"1"
    first.close()
    second.close()


def test_a_store_that_another_process_makes_and_scrubs_meanwhile_is_opened(
    tmp_path: Path, faults: Faults
) -> None:
    """F-01: its scrub removes what nothing names, and so a file that has no name yet."""
    place = tmp_path / "store"

    def be_quicker(_: int, name: str) -> None:
        if name == "replace":
            faults.at = lambda _, __: None
            with clew.Store(JsonlBackend(place)) as other:
                other.session("s").append(user("one"))
                other.vacuum()

    faults.at = be_quicker
    with clew.Store(JsonlBackend(place)) as store:
        assert said(store) == ["one"]
        check_store(store)
