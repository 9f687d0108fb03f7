"""One log that cannot be read costs one session, by name; a read error is no proof of damage."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import clew
from clew.backends.jsonl import JsonlBackend, disk
from clew.backends.jsonl.disk import File
from clew.errors import BackendUnavailableError, ClewError, UnreadableEntryError
from clew.testing.backend.base import user
from clew.testing.chain import check_store
from tests.backends.jsonl.stores import drop_variable, log, said, without_index


@pytest.fixture
def place(fast_path: Path) -> Path:
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        for name in "abc":
            session = store.session(name)
            session.append(user(f"word {name} 1"), user(f"word {name} 2"))
            session.set_var("v", name)
    return place


@contextmanager
def unreadable(path: Path, code: int = errno.EIO, *, opening: bool = False) -> Iterator[None]:
    """The disk does not give this file."""
    patch = pytest.MonkeyPatch()
    really_read, really_open = disk.read_at, disk.open_for_reading

    def read_at(handle: int, count: int, offset: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{handle}") == str(path):
            raise OSError(code, os.strerror(code), None)
        return really_read(handle, count, offset)

    def open_for_reading(file: File) -> int:
        if file.path == path:
            raise OSError(code, os.strerror(code), str(file))
        return really_open(file)

    if opening:
        patch.setattr(disk, "open_for_reading", open_for_reading)
    else:
        patch.setattr(disk, "read_at", read_at)
    try:
        yield
    finally:
        patch.undo()


@pytest.mark.parametrize(("code", "opening"), [(errno.EIO, False), (errno.EACCES, True)])
def test_a_log_that_can_not_be_read_costs_its_session_alone(place: Path, code: int, opening: bool) -> None:
    """P6, F-08: messages, search, verify and repair name it, and go on with the others."""
    with clew.open(f"jsonl:///{place}") as store:
        with unreadable(log(place, "b"), code, opening=opening):
            for read in (
                lambda: store.get("b").messages(),
                lambda: list(store.get("b").entries()),
            ):
                with pytest.raises(UnreadableEntryError) as caught:
                    read()
                assert str(log(place, "b")) in str(caught.value)
                assert "session 'b'" in str(caught.value)
                assert os.strerror(code) in str(caught.value)
                assert caught.value.retryable
            assert said(store, "a") == ["word a 1", "word a 2"]
            assert {hit.session for hit in store.search("word").hits} == {"a", "c"}
            for full in (False, True):
                report = store.verify(full=full)
                assert full is False or not report.ok
                assert all(str(log(place, "b")) in problem for problem in report.problems)
            saved = store.repair(to=f"sqlite:///{place.parent}/saved.db")
            assert {lost.session for lost in saved.lost} == {"b"}
            store.get("c").append(user("more"))

        assert said(store, "b") == ["word b 1", "word b 2"]
        assert {hit.session for hit in store.search("word").hits} == {"a", "b", "c"}
        assert store.verify(full=True).ok
    with clew.open(f"sqlite:///{place.parent}/saved.db") as store:
        assert said(store, "a") == ["word a 1", "word a 2"]
        assert said(store, "c") == ["word c 1", "word c 2"]


@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_with_a_log_that_can_not_be_read_is_opened(
    place: Path, has_index: bool, read_only: bool
) -> None:
    """P6: with the index that knows it, and without one; verify names the file."""
    aside = place / "aside"
    log(place, "b").rename(aside)
    log(place, "b").mkdir()  # can be opened, and not be read
    if not has_index:
        without_index(place)
    with clew.open(f"jsonl:///{place}", read_only=read_only) as store:
        assert said(store, "a") == ["word a 1", "word a 2"]
        assert said(store, "c") == ["word c 1", "word c 2"]
        assert {hit.session for hit in store.search("word").hits} == {"a", "c"}
        report = store.verify()
        assert not report.ok
        assert any(str(log(place, "b")) in problem for problem in report.problems)
        with pytest.raises(ClewError, match="reading only" if read_only else r"b\.jsonl"):
            store.session("b").append(user("not to a twin"))
        if not read_only:
            store.session("a").append(user("goes on"))
            store.session("new").append(user("new"))
    assert sorted(file.name for file in (place / "sessions").iterdir() if file.name.startswith("b")) == [
        "b.jsonl"
    ]
    log(place, "b").rmdir()
    aside.rename(log(place, "b"))
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "b") == ["word b 1", "word b 2"]
        assert store.get("b").get_var("v") == "b"
        assert not read_only or "new" not in {info.id for info in store.list()}
        check_store(store)
        assert store.verify(full=True).ok


def test_numbers_in_a_log_that_can_not_be_read_are_left_free(place: Path) -> None:
    """P6: what is made meanwhile and what is in it are both there when it can be read again."""
    with clew.open(f"jsonl:///{place}") as store:
        store.session("z").append(user("newest"))  # has the highest numbers
        store.get("z").fork("y").append(user("fork"))
    without_index(place)
    aside = {name: place / f"aside-{name}" for name in "yz"}
    for name, path in aside.items():
        log(place, name).rename(path)
        log(place, name).mkdir()
    with clew.open(f"jsonl:///{place}") as store:
        for number in range(5):
            store.session(f"new-{number}").append(user("new"))
    for name, path in aside.items():
        log(place, name).rmdir()
        path.rename(log(place, name))

    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "z") == ["newest"]
        assert said(store, "y") == ["newest", "fork"]
        for number in range(5):
            assert said(store, f"new-{number}") == ["new"]
        check_store(store)
        assert store.verify(full=True).ok


def test_without_the_log_of_the_store_itself_nothing_is_written(place: Path) -> None:
    """It says which numbers were given out; what can be read is read."""
    with clew.open(f"jsonl:///{place}") as store:
        store.get("a").add_alias("alias")
    (place / "store.jsonl").rename(place / "aside")
    (place / "store.jsonl").mkdir()
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "a") == ["word a 1", "word a 2"]
        with pytest.raises(clew.errors.ReadOnlyError):
            store.session("new")
    (place / "store.jsonl").rmdir()
    (place / "aside").rename(place / "store.jsonl")
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "alias") == ["word a 1", "word a 2"]


def test_a_scrub_drops_nothing_that_it_can_not_read(place: Path) -> None:
    """P11, P18: the log stays as it is, the others are written anew, and the error says so."""
    backend = JsonlBackend(place)
    with clew.Store(backend) as store:
        for name in "abc":
            drop_variable(backend, "v", name)
        before = log(place, "b").read_bytes()
        with unreadable(log(place, "b")), pytest.raises(BackendUnavailableError, match=r"b\.jsonl"):
            backend.scrub()
        assert log(place, "b").read_bytes() == before
        assert b'"v"' not in log(place, "a").read_bytes()
        assert said(store, "b") == ["word b 1", "word b 2"]
        backend.scrub()
        assert b'"v"' not in log(place, "b").read_bytes()
        assert said(store, "b") == ["word b 1", "word b 2"]
        check_store(store)


def test_a_read_error_in_the_middle_of_a_log_takes_nothing_of_it(place: Path) -> None:
    """Half a log would look like a whole one that is shorter."""
    without_index(place)
    size = log(place, "b").stat().st_size
    real = disk.read_at

    def read_at(handle: int, count: int, offset: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{handle}") == str(log(place, "b")):
            if offset >= size // 2:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            count = min(count, size // 2 - offset)
        return real(handle, count, offset)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(disk, "read_at", read_at)
        with clew.open(f"jsonl:///{place}") as store:
            assert store.find("b") is None
            assert {info.id for info in store.list()} == {"a", "c"}
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "b") == ["word b 1", "word b 2"]
        assert store.verify(full=True).ok
    assert not list((place / "quarantine").iterdir())


def test_too_many_open_files_say_nothing_about_a_log(place: Path) -> None:
    """F-19: an error of ours, and no entry is called damaged or left out."""
    with clew.open(f"jsonl:///{place}") as store:
        with unreadable(log(place, "b"), errno.EMFILE, opening=True):
            with pytest.raises(BackendUnavailableError, match="Too many"):
                store.get("b").messages()
            with pytest.raises(BackendUnavailableError):
                list(store.get("b").entries(damaged="skip"))
        assert said(store, "b") == ["word b 1", "word b 2"]
