"""`store.backup`: the store of one moment, whole or not at all. `store.vacuum`: smaller, and the same."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path

import pytest

import clew
from tests.core.transfer.kinds import KINDS, Open
from tests.support.stores import dump, say, wander, with_files


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, stores: Open) -> clew.Store:
    return stores(request.param)


def test_a_backup_holds_everything(store: clew.Store, tmp_path: Path) -> None:
    wander(store, 1)
    with_files(store, tmp_path / "work")

    report = store.backup(tmp_path / "backup.db")

    stats = store.stats()
    assert report.sessions == stats.sessions + stats.deleted
    assert report.bytes == (tmp_path / "backup.db").stat().st_size
    with clew.open(report.path) as backup:
        assert dump(backup) == dump(store)
        assert backup.verify(full=True).problems == ()


def test_a_backup_is_private_and_leaves_nothing_beside_it(store: clew.Store, tmp_path: Path) -> None:
    store.session("s").append(say(1))
    place = tmp_path / "backups"
    place.mkdir()

    store.backup(place / "backup.db")

    assert [path.name for path in place.iterdir()] == ["backup.db"]
    assert (place / "backup.db").stat().st_mode & 0o777 == 0o600


def test_what_is_there_is_not_replaced_unless_asked(store: clew.Store, tmp_path: Path) -> None:
    path = tmp_path / "backup.db"
    path.write_bytes(b"precious")
    store.session("s").append(say(1))

    with pytest.raises(clew.ConflictError, match="overwrite"):
        store.backup(path)
    assert path.read_bytes() == b"precious"

    store.backup(path, overwrite=True)
    with clew.open(path) as backup:
        assert backup.get("s").messages() == [say(1)]


def test_a_store_in_use_is_not_replaced(store: clew.Store, tmp_path: Path) -> None:
    """Its log would be taken for that of the backup."""
    with clew.open(tmp_path / "other.db") as other:
        other.session("o").append(say(1))
        with pytest.raises(clew.ConflictError, match="in use"):
            store.backup(tmp_path / "other.db", overwrite=True)
        assert other.get("o").messages() == [say(1)]


def test_a_backup_that_fails_leaves_nothing(store: clew.Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"no directory")
    with pytest.raises(clew.BackendError):
        store.backup(tmp_path / "file" / "backup.db")
    with pytest.raises(clew.InvalidError):
        store.backup("sqlite:///backup.db")
    with pytest.raises(clew.InvalidError):
        store.backup(tmp_path)

    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_store_itself_is_no_place_for_its_backup(tmp_path: Path) -> None:
    with clew.open(tmp_path / "a.db") as store, pytest.raises(clew.InvalidError):
        store.backup(tmp_path / "a.db", overwrite=True)


def test_a_backup_beside_writers_is_of_one_moment(store: clew.Store, tmp_path: Path) -> None:
    """A writer appends to one session, then to the other: no backup has the second without the first."""
    first, second = store.session("first"), store.session("second")
    backups = [tmp_path / f"backup-{number}.db" for number in range(5)]
    begun, enough = threading.Event(), threading.Event()

    def write() -> None:
        number = 0
        while not enough.is_set():
            first.append(say(number))
            second.append(say(number))
            number += 1
            begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        begun.wait()
        for path in backups:
            store.backup(path)
    finally:
        enough.set()
        writer.join()

    for path in backups:
        with clew.open(path) as backup:
            counts = [len(backup.get(id).messages()) for id in ("first", "second")]
            assert counts[0] - counts[1] in (0, 1)
            assert backup.verify(full=True).problems == ()


def test_a_store_for_reading_only_can_be_backed_up(tmp_path: Path) -> None:
    with clew.open(tmp_path / "a.db") as store:
        store.session("s").append(say(1))
    with clew.open(tmp_path / "a.db", read_only=True) as store:
        store.backup(tmp_path / "b.db")
    with clew.open(tmp_path / "b.db") as backup:
        assert backup.get("s").messages() == [say(1)]


def test_vacuum_gives_space_back_and_removes_nothing(store: clew.Store, tmp_path: Path) -> None:
    wander(store, 2)
    with_files(store, tmp_path / "work")
    large = store.session("large")
    noise = random.Random(1)  # PostgreSQL compresses what can be compressed
    large.append(*({"role": "user", "content": noise.randbytes(1500).hex()} for _ in range(300)))
    store._engine.run(
        lambda tx: clew.core.retention.purge.purge_id(tx, "large", store._engine.host, force=False)
    )
    before, size = dump(store), store.stats().bytes_on_disk

    given = store.vacuum()

    assert dump(store) == before
    assert store.verify(full=True).problems == ()
    assert given == size - store.stats().bytes_on_disk
    assert given > 500_000 or store.location == "memory:"
    assert store.vacuum() < 50_000  # what the first one wrote to say that it is done


def test_tasks_do_it_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with clew.open_async(tmp_path / "a.db") as store:
            await (await store.session("s")).append(say(1))
            report = await store.backup(tmp_path / "b.db")
            assert report.sessions == 1
            assert await store.vacuum() >= 0
            repaired = await store.repair(to=tmp_path / "c.db")
            assert repaired.ok

    asyncio.run(main())


def test_a_backup_while_others_write_purge_and_collect_is_whole(store: clew.Store, tmp_path: Path) -> None:
    """P19: nothing in it is called damaged, or missing; whoever purges is done, or told to purge again."""
    for number in range(12):
        store.session(f"kept-{number}").append(*(say(n) for n in range(30)))
    stop = threading.Event()
    wrong: list[BaseException] = []

    def disturb() -> None:
        number = 0
        try:
            while not stop.is_set():
                number += 1
                session = store.session(f"gone-{number}")
                session.append(say(number))
                work = tmp_path / "work"
                work.mkdir(exist_ok=True)
                (work / "file").write_text(f"{number}" * 500)
                session.checkpoint("files", files=work)
                store.get("kept-0").append(say(number))
                try:
                    store.delete(session.id, purge=True)
                    store.gc()
                except (clew.StoreBusyError, clew.LeaseHeldError):
                    continue
        except BaseException as exc:  # noqa: BLE001 (told below)
            wrong.append(exc)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for number in range(4):
            report = store.backup(tmp_path / f"backup-{number}.db")
            with clew.open(report.path) as backup:
                assert backup.verify(full=True).problems == ()
                assert [len(backup.get(f"kept-{n}").messages()) for n in range(1, 12)] == [30] * 11
    finally:
        stop.set()
        thread.join()
    assert wrong == []
