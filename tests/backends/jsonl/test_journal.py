"""Transactions that touch several logs: after a power cut the journal makes each of them whole."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.backends.jsonl import JsonlBackend, disk
from clew.errors import DiskFullError
from clew.testing.backend.base import user
from tests.backends.jsonl.stores import log, said

SECTOR = 512
TEXTS = ["two", "three" * 300, "four", "five" * 300]


def append_to_both(store: clew.Store) -> None:
    """As when several threads commit at once: batches to two sessions in one transaction."""
    works = []
    for id in ("a", "b"):
        work = store.get(id)._appending([*map(user, TEXTS)], key=None, strict=False)
        assert work is not None
        works.append(work)
    store._engine.run(lambda tx: [work(tx) for work in works])


@pytest.fixture
def cut(fast_path: Path) -> tuple[Path, int]:
    """A store whose journal holds a batch for two logs, without an index; and where that begins in both."""
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        for id in ("a", "b"):
            store.session(id).append(user("one"))
    before = log(place, "a").stat().st_size
    assert before == log(place, "b").stat().st_size
    with clew.open(f"jsonl:///{place}") as store:
        append_to_both(store)
        copy = fast_path / "cut"
        shutil.copytree(place, copy, ignore=shutil.ignore_patterns("index.db*"))
    assert (copy / "journal.jsonl").stat().st_size > 0
    return copy, before


def opened(place: Path, content: bytes, fast_path: Path) -> Path:
    """A copy in which one log has this content, after it was opened and checked."""
    copy = fast_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place, copy)
    log(copy, "a").write_bytes(content)
    with clew.open(f"jsonl:///{copy}") as store:
        assert said(store, "a") == said(store, "b") == ["one", *TEXTS]
        assert store.verify(full=True).ok
        store.get("a").append(user("next"))
        assert said(store, "a")[-1] == "next"
    return copy


def torn(content: bytes, begin: int) -> Iterator[bytes]:
    """What a cut may leave of a write that no sync followed."""
    yield content[:begin]
    for at in range(-(-begin // SECTOR) * SECTOR, len(content), SECTOR):
        yield content[:at]
        yield content[:begin] + bytes(at - begin) + content[at:]
        yield content[:at] + bytes(len(content) - at)
        yield content[:at] + bytes(SECTOR) + content[at + SECTOR :]


def test_a_log_torn_at_any_sector_gets_its_part_from_the_journal(
    cut: tuple[Path, int], fast_path: Path
) -> None:
    """P1, P2, F-03, F-04: also where whole lines of it are there already; that is nothing to set aside."""
    place, begin = cut
    content = log(place, "a").read_bytes()
    states = list(torn(content, begin))
    assert len(states) > 20
    for state in states:
        copy = opened(place, state[: len(content)], fast_path)
        assert not list((copy / "quarantine").iterdir())


def test_lines_of_a_write_that_was_refused_do_not_keep_the_journal_from_its_own(
    cut: tuple[Path, int], fast_path: Path
) -> None:
    """P1: they came back with the power cut; they are set aside, and not thrown away."""
    place, begin = cut
    content = log(place, "a").read_bytes()
    others = log(place, "b").read_bytes()[begin:]
    assert len(others) <= len(content) - begin

    copy = opened(place, content[:begin] + others, fast_path)

    assert b"".join(file.read_bytes() for file in (copy / "quarantine").iterdir()) == others


def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(inode, size) of each file that is synced from now on."""
    found: list[tuple[int, int]] = []
    real = disk.sync

    def sync(handle: int) -> None:
        state = os.fstat(handle)
        found.append((state.st_ino, state.st_size))
        real(handle)

    monkeypatch.setattr(disk, "sync", sync)
    return found


def test_who_empties_the_journal_syncs_what_another_promised(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: also a process that promises less itself."""
    place = fast_path / "store"
    careful = clew.open(f"jsonl:///{place}")
    careless = clew.open(f"jsonl:///{place}", durability="process")
    careful.session("a")
    seen = synced(monkeypatch)
    careless.close()

    assert log(place, "a").stat().st_ino in [inode for inode, _ in seen]
    assert (place / "journal.jsonl").stat().st_size == 0
    careful.close()


def test_who_promises_less_syncs_nothing_for_itself(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with clew.open(f"jsonl:///{fast_path / 'store'}", durability="process") as store:
        seen = synced(monkeypatch)
        store.session("a").append(user("one"))

    assert seen == []


def test_what_was_refused_is_gone_for_good_before_it_is_said(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2, F-06: no power cut brings back half of a batch, or all of it."""
    place = fast_path / "store"
    with clew.Store(JsonlBackend(place)) as store:
        session = store.session("a")
        session.append(user("one"))
        before = log(place, "a").stat()
        real = disk.write

        def half(handle: int, data: bytes) -> None:
            real(handle, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "full")

        seen = synced(monkeypatch)
        with monkeypatch.context() as patched:
            patched.setattr(disk, "write", half)
            with pytest.raises(DiskFullError):
                session.append(user("two"))

        assert seen[-1] == (before.st_ino, before.st_size)
