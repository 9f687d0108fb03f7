"""F-06: a store that is opened on a full disk is written again as soon as there is room."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import clew
from clew.errors import DiskFullError, ReadOnlyError
from tests.faults.crash.common import chain_of, message, texts
from tests.faults.requirements import mounted, needs_root
from tests.server.conftest import running
from tests.support.children import call

EXT4 = 4 * 1024 * 1024


@contextmanager
def small_disk(kind: str, tmp_path: Path) -> Iterator[Path]:
    if kind == "tmpfs":
        with mounted(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]) as disk:
            yield disk
        return
    image = tmp_path / "disk.ext4"
    image.write_bytes(b"")
    os.truncate(image, EXT4)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image], check=True)
    with mounted(["-o", "loop", str(image)]) as disk:
        yield disk


def address(kind: str, disk: Path) -> str:
    return str(disk / "a.db") if kind == "sqlite" else f"jsonl:///{disk}/logs"


def make_store(place: str) -> list[str]:
    with clew.open(place) as store:
        session = store.session("s")
        session.append(message("one"), message("two"))
        return texts(session)


def fill_up(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
    return ballast


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with small_disk(request.param, tmp_path) as found:
        yield found


@needs_root
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_f06_a_store_opened_on_a_full_disk_is_written_when_there_is_room(disk: Path, kind: str) -> None:
    """P23: until then it is read, and each write says that there is no room, and that it may be repeated."""
    expected = make_store(address(kind, disk))
    ballast = fill_up(disk)

    with clew.open(address(kind, disk)) as store:
        assert texts(store.get("s")) == expected
        for _ in range(2):
            with pytest.raises(DiskFullError, match="no space left") as caught:
                store.get("s").append(message("z" * 20_000))
            assert caught.value.retryable
        assert texts(store.get("s")) == expected

        ballast.unlink()
        store.get("s").append(message("room again"))
        assert texts(store.get("s")) == [*expected, "room again"]
        assert store.search("room").hits != ()

    with clew.open(address(kind, disk)) as store:
        assert texts(store.get("s")) == [*expected, "room again"]
        assert chain_of(store.get("s")) == []
        assert store.verify().problems == ()


@needs_root
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_f06_readers_of_such_a_store_see_what_others_write_when_there_is_room(disk: Path, kind: str) -> None:
    """What it had opened meanwhile may be a copy, or a file that nobody was expected to write."""
    place = address(kind, disk)
    expected = make_store(place)
    ballast = fill_up(disk)
    with clew.open(place) as store:
        assert texts(store.get("s")) == expected
        ballast.unlink()
        call(_append, place, "of another process")

        assert store._engine.backend.waits_for_room() is None
        assert texts(store.get("s")) == [*expected, "of another process"]


def _append(place: str, text: str) -> None:
    with clew.open(place) as store:
        store.get("s").append(message(text))


@needs_root
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_f06_threads_that_write_when_the_room_comes_back_all_write(disk: Path, kind: str) -> None:
    expected = make_store(address(kind, disk))
    ballast = fill_up(disk)
    with clew.open(address(kind, disk)) as store:
        ballast.unlink()
        threads = [
            threading.Thread(target=store.get("s").append, args=(message(f"{number}"),))
            for number in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(texts(store.get("s"))[2:]) == [f"{number}" for number in range(8)]
        assert texts(store.get("s"))[:2] == expected


@needs_root
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_f06_a_snapshot_of_files_is_taken_when_there_is_room(
    disk: Path, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the look at the free space before writing: the disk itself says no."""
    monkeypatch.setattr("clew.files.objects.store.ROOM_LEFT", -(1 << 50))
    place = address(kind, disk)
    make_store(place)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "noise").write_bytes(os.urandom(100_000))
    ballast = fill_up(disk)
    with clew.open(place) as store:
        with pytest.raises(DiskFullError):
            store.snapshot(tmp_path / "project")

        ballast.unlink()
        taken = store.snapshot(tmp_path / "project")
        (tmp_path / "project" / "noise").unlink()
        store.restore(taken, tmp_path / "project")

        assert (tmp_path / "project" / "noise").stat().st_size == 100_000
        assert store.verify(full=True).problems == ()


@needs_root
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_f06_a_server_on_a_full_disk_is_not_ready_and_says_that_writes_may_be_repeated(
    disk: Path, kind: str
) -> None:
    make_store(address(kind, disk))
    ballast = fill_up(disk)
    with clew.open(address(kind, disk)) as store, running(store) as served, served.client() as client:
        entries = "/api/v1/sessions/s/entries"
        body = {"messages": [message("z" * 20_000)]}
        assert client.get(entries).status_code == 200
        refused = client.post(entries, json=body)
        assert (refused.status_code, refused.json()["retryable"]) == (503, True)
        assert refused.json()["code"] == "disk_full"
        assert refused.headers["retry-after"]
        ready = client.get("/ready")
        assert (ready.status_code, ready.json()["retryable"]) == (503, True)
        assert "disk" in ready.json()["detail"]
        assert str(disk) not in ready.text

        ballast.unlink()
        assert client.get("/ready").status_code == 200
        assert client.post(entries, json=body).status_code < 300


@needs_root
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_f06_a_server_whose_disk_becomes_full_is_not_ready_until_there_is_room(disk: Path, kind: str) -> None:
    make_store(address(kind, disk))
    with clew.open(address(kind, disk)) as store, running(store) as served, served.client() as client:
        entries = "/api/v1/sessions/s/entries"
        assert client.get("/ready").status_code == 200
        ballast = fill_up(disk)
        for _ in range(40):
            refused = client.post(entries, json={"messages": [message("z" * 50_000)]})
            if refused.status_code >= 300:
                break
        assert (refused.status_code, refused.json()["retryable"]) == (503, True)
        assert client.get("/ready").status_code == 503

        ballast.unlink()
        assert client.get("/ready").status_code == 200
        assert client.post(entries, json={"messages": [message("again")]}).status_code < 300


@needs_root
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_f15_a_store_on_a_read_only_mount_stays_read_only_and_its_server_is_ready(kind: str) -> None:
    with mounted(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]) as disk:
        make_store(address(kind, disk))
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        with clew.open(address(kind, disk)) as store, running(store) as served, served.client() as client:
            with pytest.raises(ReadOnlyError):
                store.get("s").append(message("no"))
            refused = client.post("/api/v1/sessions/s/entries", json={"messages": [message("no")]})
            assert (refused.status_code, refused.json()["retryable"]) == (403, False)
            assert client.get("/ready").status_code == 200
