"""A backup reads the logs of one moment: nobody writes them anew, or removes a pack, until it is done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import clew
from clew.backends.jsonl import JsonlBackend
from clew.errors import StoreBusyError
from clew.files.objects.format import object_name
from clew.model.transfer import CopyProgress
from clew.testing.backend.base import user


@pytest.fixture
def place(fast_path: Path) -> Path:
    place, files = fast_path / "store", fast_path / "files"
    files.mkdir()
    with clew.open(f"jsonl:///{place}") as store:
        for name in ("first", "second"):
            (files / "file").write_text(name * 100)
            session = store.session(name)
            session.append(user(f"{name} one"), user(f"{name} two"))
            session.checkpoint("files", files=files)
    return place


def test_a_purge_during_a_backup_waits_and_the_backup_is_whole(place: Path, fast_path: Path) -> None:
    """P18, P19: it is told to purge again, and does so when the backup is done."""
    with clew.open(f"jsonl:///{place}") as store, clew.open(f"jsonl:///{place}", timeout=0.05) as other:
        refused: list[bool] = []

        def disturb(progress: CopyProgress) -> None:
            if refused:
                return
            with pytest.raises(StoreBusyError, match="purge again"):
                other.delete("second", purge=True)
            other.get("first").delete_checkpoint("files")
            other.gc()
            other.session("third").append(user("written meanwhile"))
            refused.append(True)

        report = store.backup(fast_path / "backup.db", on_progress=disturb)

        assert refused
        with clew.open(report.path) as backup:
            assert backup.verify(full=True).problems == ()
            assert {info.id for info in backup.list()} == {"first", "second"}
            assert backup.get("second").messages()[0] == user("second one")
            for name in ("first", "second"):
                snapshot = backup.get(name).get_checkpoint("files").snapshot
                assert snapshot is not None
                backup.restore(snapshot, fast_path / name)
                assert (fast_path / name / "file").read_text() == name * 100
        other.vacuum()
        assert not any(b"second one" in file.read_bytes() for file in place.rglob("*") if file.is_file())
        assert store.verify(full=True).ok


def test_a_backup_of_what_a_killed_scrub_left_is_whole(place: Path, fast_path: Path) -> None:
    """F-01: the logs are written anew, and the index does not know it."""
    from clew.backends.jsonl import rewrite

    backend = JsonlBackend(place)
    with clew.Store(backend) as store:
        child = os.fork()
        if child == 0:
            try:
                pytest.MonkeyPatch().setattr(rewrite, "_remove_strays", lambda *_: os._exit(9))
                with clew.open(f"jsonl:///{place}") as mine:
                    mine.get("first").set_var("v", "x" * 1000)
                    mine.get("first").set_var("v", "y")
                    mine.vacuum()
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9

        report = store.backup(fast_path / "backup.db")

    with clew.open(report.path) as backup:
        assert backup.verify(full=True).problems == ()
        assert backup.get("first").get_var("v") == "y"


def test_a_backup_that_ends_badly_lets_others_purge(place: Path, fast_path: Path) -> None:
    with clew.open(f"jsonl:///{place}") as store, clew.open(f"jsonl:///{place}", timeout=0.05) as other:

        def stop(progress: CopyProgress) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.backup(fast_path / "backup.db", on_progress=stop)
        other.delete("second", purge=True)

        assert {info.id for info in store.list()} == {"first"}


def test_a_pack_that_is_collected_stays_for_who_reads_an_older_moment(fast_path: Path) -> None:
    backend = JsonlBackend(fast_path / "store")
    try:
        blob = b"content of a file"
        name = object_name(blob)
        with backend.write() as tx:
            pack = tx.add_pack(0, blob, len(blob), [(name, 0, len(blob))])
        with backend.read_snapshot() as reader:
            with backend.write() as tx:
                tx.drop_pack(pack)
            assert reader.get_pack(pack) == blob
        backend.scrub()

        assert list((fast_path / "store" / "packs").iterdir()) == []
    finally:
        backend.close()
