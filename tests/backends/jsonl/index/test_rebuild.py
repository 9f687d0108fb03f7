"""An index that cannot be made anew leaves the store as it was: nobody sees, or writes to, an empty one."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

import clew
from clew.backends.jsonl import JsonlBackend, disk
from clew.errors import ClewError
from clew.testing.backend.base import add, user
from clew.testing.backend.streams import an_event
from clew.testing.chain import check_store
from tests.backends.jsonl.stores import said, without_index


def remove_index(backend: JsonlBackend) -> None:
    without_index(backend.layout.root)


def suspect_index(backend: JsonlBackend) -> None:
    backend.suspect(apsw.CorruptError("a page makes no sense"))


def fail_to_read(monkeypatch: pytest.MonkeyPatch, backend: JsonlBackend) -> None:
    """The disk does not give a log any more."""
    real = disk.read_at

    def read_at(handle: int, count: int, offset: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{handle}").endswith("store.jsonl"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(handle, count, offset)

    monkeypatch.setattr(disk, "read_at", read_at)


def have_no_space(monkeypatch: pytest.MonkeyPatch, backend: JsonlBackend) -> None:
    def replace(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(disk, "replace", replace)


def interrupt(monkeypatch: pytest.MonkeyPatch, backend: JsonlBackend) -> None:
    def stop(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    from clew.backends.jsonl import recover

    monkeypatch.setattr(recover, "read_log", stop)


@pytest.mark.parametrize("harm", [remove_index, suspect_index])
@pytest.mark.parametrize("failure", [fail_to_read, have_no_space, interrupt])
def test_an_index_that_can_not_be_made_anew_is_no_empty_store(
    fast_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    harm: Callable[[JsonlBackend], None],
    failure: Callable[[pytest.MonkeyPatch, JsonlBackend], None],
) -> None:
    """P1, P6, F-08: the error is told, again and again, until it can be made."""
    backend = JsonlBackend(fast_path / "store")
    with clew.Store(backend) as store:
        store.session("s").append(user("one"))
        store.get("s").add_alias("alias")
        harm(backend)
        with monkeypatch.context() as patched:
            failure(patched, backend)
            for _ in range(2):
                with pytest.raises((ClewError, KeyboardInterrupt)):
                    store.list()
                with pytest.raises((ClewError, KeyboardInterrupt)):
                    store.session("s")
                with pytest.raises((ClewError, KeyboardInterrupt)):
                    store.session("t").append(user("lost?"))

        assert [info.id for info in store.list()] == ["s"]
        store.session("s").append(user("two"))
        assert said(store, "alias") == ["one", "two"]
        check_store(store)
    logs = sorted(file.name for file in (fast_path / "store" / "sessions").iterdir())
    assert logs == ["s.jsonl"]
    assert not list((fast_path / "store").glob("*.new*"))
    with clew.open(f"jsonl:///{fast_path / 'store'}") as store:
        assert said(store) == ["one", "two"]


def test_whoever_reads_while_the_index_is_made_anew_sees_all_or_waits(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: other threads, and other processes, never see a part of the store."""
    from clew.backends.jsonl import recover

    place = fast_path / "store"
    backend = JsonlBackend(place)
    with clew.Store(backend) as store, clew.open(f"jsonl:///{place}", timeout=30) as other:
        for name in "abc":
            store.session(name).append(user(name))
        seen: list[list[str]] = []
        readers: list[threading.Thread] = []
        real: Any = vars(recover)["read_log"]

        def look(some: clew.Store) -> None:
            seen.append(sorted(info.id for info in some.list()))

        def read_log(*args: Any, **kwargs: Any) -> Any:
            for some in (store, other):
                readers.append(threading.Thread(target=look, args=(some,)))
                readers[-1].start()
            readers[-1].join(0.05)  # who does not wait has seen what there is by now
            return real(*args, **kwargs)

        suspect_index(backend)
        with monkeypatch.context() as patched:
            patched.setattr(recover, "read_log", read_log)
            store.list()
        for reader in readers:
            reader.join()

        assert len(readers) >= 6
        assert seen == [["a", "b", "c"]] * len(seen)


@pytest.mark.parametrize("harm", [remove_index, suspect_index])
def test_a_read_that_was_under_way_leaves_no_connection_to_the_old_index(
    fast_path: Path, harm: Callable[[JsonlBackend], None]
) -> None:
    """It would show what the old index knew, for ever."""
    backend = JsonlBackend(fast_path / "store")
    with clew.Store(backend) as store:
        session = store.session("s")
        session.append(user("one"))
        with backend.read() as reader:
            harm(backend)
            session.append(user("two"))
            assert reader.find_session("s") is not None
        session.append(user("three"))

        for _ in range(3):
            assert said(store) == ["one", "two", "three"]


def test_an_index_that_can_not_be_read_is_made_anew_when_the_store_is_opened(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: a bad sector under the cache costs the cache."""
    from clew.backends.jsonl import index as module

    with clew.open(f"jsonl:///{fast_path / 'store'}") as store:
        store.session("s").append(user("one"))
    real: Any = vars(module)["open_index"]
    tries = 0

    def open_index(*args: Any) -> apsw.Connection:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise _read_error()
        found: apsw.Connection = real(*args)
        return found

    monkeypatch.setattr(module, "open_index", open_index)
    with clew.open(f"jsonl:///{fast_path / 'store'}") as store:
        assert said(store) == ["one"]
    assert list((fast_path / "store").glob("index.db.corrupt-*"))


def _read_error() -> apsw.IOError:
    error = apsw.IOError("disk I/O error")
    vars(error)["extendedresult"] = apsw.SQLITE_IOERR_READ
    return error


def test_the_log_of_an_index_that_is_gone_is_not_taken_for_that_of_the_next_one(fast_path: Path) -> None:
    """SQLite would play it into the new file."""
    place = fast_path / "store"
    backend = JsonlBackend(place)
    with clew.Store(backend) as store:
        store.session("s").append(user("one"))
        wal = (place / "index.db-wal").read_bytes()
    assert wal
    (place / "index.db").unlink()
    (place / "index.db-wal").write_bytes(wal)

    with clew.open(f"jsonl:///{place}") as store:
        store.get("s").append(user("two"))
        assert said(store) == ["one", "two"]
        assert store.verify(full=True).ok


def test_events_that_were_dropped_stay_away_when_the_index_is_made_anew(fast_path: Path) -> None:
    place = fast_path / "store"
    with closing(JsonlBackend(place)) as backend, backend.write() as tx:
        sid = add(tx, "s").sid
        tx.add_events(sid, [an_event(number) for number in (1, 2, 3)])
    with closing(JsonlBackend(place)) as backend, backend.write() as tx:
        tx.drop_events(sid, 2)
    without_index(place)
    with closing(JsonlBackend(place)) as backend, backend.read() as reader:
        found = reader.find_session("s")
        assert found
        assert [row.number for row in reader.read_events(found.sid, 0, 9)] == [3]
