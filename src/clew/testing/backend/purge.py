"""P18, S-29: a purge leaves no byte of the files that only the session held."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.backends.contract import STORE_WIDE, Backend
from clew.errors import ConflictError, DiskFullError, RestoreFailedError
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import say
from clew.testing.backend.durable import RestartConformance

ID = "the-session-that-goes"


class PurgeConformance(RestartConformance):
    """Content that nothing can compress is searched for in every file of the store."""

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
        monkeypatch.setenv("CLEW_STATE_DIR", str(tmp_path / "state"))
        (tmp_path / "folder").mkdir()
        return tmp_path / "folder"

    @pytest.fixture
    def words(self) -> Iterator[bytes]:
        source = random.Random(1)
        return iter(lambda: source.randbytes(400), b"")

    def test_p18_s29_a_purge_leaves_no_byte_of_the_files(
        self, backend: Backend, store: Store, folder: Path, words: Iterator[bytes]
    ) -> None:
        """Of checkpoints, of what a rewind kept before it, and of the names; what others hold too stays."""
        own, since, shared = next(words), next(words), next(words)
        s, keeper = store.session(ID), store.session("keeper")
        say(s, "x")
        say(keeper, "x")
        _fill(folder, own=own, shared=shared)
        s.checkpoint("a", files=folder)
        _fill(folder, own=since, shared=shared)
        s.rewind("a", files=True)
        s.undo()
        _fill(folder, shared=shared)
        keeper.checkpoint("b", files=folder)
        assert self._left(backend, own, since, shared, ID.encode()) == {own, since, shared, ID.encode()}

        store.delete(ID, purge=True)

        assert self._left(backend, own, since, shared, ID.encode()) == {shared}
        assert [one.kind for one in store.snapshots()] == ["checkpoint"]
        assert store.read_file(_snapshot(keeper, "b"), "shared") == shared
        assert store.verify().problems == ()
        with backend.read() as reader:
            assert len(reader.scan_objects(b"", 100)) == 2
            assert reader.scan_records(STORE_WIDE, "restore") == []

    def test_p18_s29_a_purge_leaves_no_trace_in_the_cache_of_the_machine(
        self, store: Store, folder: Path, tmp_path: Path, words: Iterator[bytes]
    ) -> None:
        """The names of files are in it."""
        s = store.session(ID)
        say(s, "x")
        _fill(folder, own=next(words))
        s.checkpoint("a", files=folder)
        store.delete(ID, purge=True)
        caches = [path for path in (tmp_path / "caches").rglob("*") if path.is_file()]
        assert [path for path in caches if b"own" in path.read_bytes()] == []

    def test_a_purge_leaves_a_fork_the_files_that_it_shares_and_no_others(
        self, backend: Backend, store: Store, folder: Path, words: Iterator[bytes]
    ) -> None:
        """The checkpoints before the fork are its own; those after it, and what was kept for undo, go."""
        before, after, since = next(words), next(words), next(words)
        s = store.session(ID)
        say(s, "x")
        _fill(folder, own=before)
        s.checkpoint("a", files=folder)
        fork = s.fork("fork")
        say(s, "y")
        _fill(folder, own=after)
        s.checkpoint("b", files=folder)
        _fill(folder, own=since)
        s.rewind("b", files=True)

        store.delete(ID, purge=True)

        assert self._left(backend, before, after, since) == {before}
        assert store.read_file(_snapshot(fork, "a"), "own") == before
        assert store.verify().problems == ()

    def test_a_purge_is_refused_while_files_are_half_restored_unless_it_is_forced(
        self,
        backend: Backend,
        store: Store,
        folder: Path,
        words: Iterator[bytes],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """P13: what the restore replaced is in its safety snapshot, and nowhere else."""
        own, since = next(words), next(words)
        s = store.session(ID)
        say(s, "x")
        _fill(folder, own=own)
        s.checkpoint("a", files=folder)
        _fill(folder, own=since)
        with monkeypatch.context() as patch:
            patch.setattr("clew.files.restore.apply.Applier.run", _stop)
            with pytest.raises(RestoreFailedError):
                s.rewind("a", files=True)

        with pytest.raises(ConflictError, match="finish or undo it first"):
            store.delete(ID, purge=True)
        assert s.info.messages == 1
        store.delete(ID, purge=True, force=True)

        assert self._left(backend, own, since, ID.encode()) == set()
        assert store.pending_restores() == []

    def test_a_purge_that_was_cut_off_is_finished_by_the_next_one(
        self,
        backend: Backend,
        store: Store,
        folder: Path,
        words: Iterator[bytes],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Its records are gone by then; that their content may be left is noted."""
        own = next(words)
        s = store.session(ID)
        say(s, "x")
        say(store.session("other"), "x")
        _fill(folder, own=own)
        s.checkpoint("a", files=folder)
        with monkeypatch.context() as patch:
            patch.setattr("clew.files.upkeep.erase.gc", _stop_collecting)
            with pytest.raises(DiskFullError):
                store.delete(ID, purge=True)
        assert self._left(backend, own) == {own}

        store.delete("other", purge=True)

        assert self._left(backend, own) == set()

    def _left(self, backend: Backend, *needles: bytes) -> set[bytes]:
        contents = self.contents(backend)
        return {needle for needle in needles if any(needle in content for content in contents)}


def _fill(folder: Path, **files: bytes) -> None:
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _snapshot(session: Session, name: str) -> str:
    found = session.get_checkpoint(name).snapshot
    assert found is not None
    return found


def _stop(applier: object) -> None:
    raise OSError(28, "No space left on device")


def _stop_collecting(*args: object, **kwargs: object) -> None:
    raise DiskFullError("no space left")
