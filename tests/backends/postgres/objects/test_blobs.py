"""Large packs in an object store: what a row names is there, and what nothing names goes.

Against moto's server (see object_server.py): the fast one. Ceph's RADOS gateway, the slow one, is not used.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
from obstore.store import LocalStore, from_url

import clew
from clew.backends.postgres import PostgresBackend
from clew.backends.postgres.blobs import LARGE, Blobs, blob_name
from clew.backends.postgres.scopes import sweep
from clew.core.log import digest
from clew.errors import BackendUnavailableError, CorruptError, InvalidUrlError
from clew.testing.backend.objects import ObjectConformance, a_name
from tests.backends.postgres.servers.object_server import SECRET, locked
from tests.support.waiting import until

BIG = os.urandom(LARGE + 1)
SMALL = os.urandom(LARGE)


class GiveUpError(Exception):
    pass


class TestObjectsOutside(ObjectConformance):
    """The contract of packs, with every one of them in the object store, however small."""

    @pytest.fixture
    def backend(
        self, emptied_postgres: str, bucket: str, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[PostgresBackend]:
        monkeypatch.setattr("clew.backends.postgres.transaction.LARGE", -1)
        with closing(PostgresBackend(emptied_postgres, blobs=bucket)) as backend:
            yield backend


@pytest.fixture
def backend(emptied_postgres: str, bucket: str) -> Iterator[PostgresBackend]:
    with closing(PostgresBackend(emptied_postgres, blobs=bucket)) as backend:
        yield backend


def objects_in(bucket: str) -> list[str]:
    store = from_url(bucket, client_options={"allow_http": True})
    return sorted(str(one["path"]) for page in store.list() for one in page)


def add(backend: PostgresBackend, blob: bytes, *names: int) -> int:
    with backend.write() as tx:
        return tx.add_pack(digest.RAW, blob, len(blob), [(a_name(name), 0, len(blob)) for name in names])


def drop(backend: PostgresBackend, pack: int) -> None:
    with backend.write() as tx:
        tx.drop_pack(pack)


def strays(backend: PostgresBackend) -> list[bytes]:
    with backend.read() as reader:
        return [blob for (blob,) in reader.ask("SELECT blob FROM {s}.strays ORDER BY blob")]


def place_of(backend: PostgresBackend, blob: bytes) -> str:
    assert backend.database.blobs is not None
    return backend.database.blobs.place(blob_name(blob))


def test_large_packs_lie_under_their_hash_and_small_ones_in_the_database(
    backend: PostgresBackend, bucket: str
) -> None:
    packs = [add(backend, BIG, 1), add(backend, SMALL, 2)]

    text = blob_name(BIG).hex()
    (found,) = objects_in(bucket)
    assert found.endswith(f"/{text[:2]}/{text[2:4]}/{text[4:]}")
    with backend.read() as reader:
        assert [reader.get_pack(pack) for pack in packs] == [BIG, SMALL]
        assert [info.stored for info in reader.list_packs(0, 9)] == [len(BIG), len(SMALL)]
    assert strays(backend) == []


def test_snapshots_come_back_from_the_object_store(
    emptied_postgres: str, bucket: str, tmp_path: Path
) -> None:
    """store.snapshot and store.restore, by another process's eyes."""
    contents = {f"{number}.bin": os.urandom(90_000) for number in range(5)}
    work = tmp_path / "work"
    work.mkdir()
    for name, content in contents.items():
        (work / name).write_bytes(content)
    with clew.open(emptied_postgres, blobs=bucket) as store:
        snapshot = store.snapshot(work)
    for name in contents:
        (work / name).unlink()

    with clew.open(emptied_postgres, blobs=bucket) as store:
        store.restore(snapshot.id)
        assert store.verify(full=True).problems == ()

    assert {path.name: path.read_bytes() for path in work.iterdir()} == contents
    assert objects_in(bucket) != []


def test_an_object_goes_with_the_last_row_that_names_it(backend: PostgresBackend, bucket: str) -> None:
    """Two packs of equal bytes are one object."""
    first, second = add(backend, BIG, 1), add(backend, BIG, 2)
    assert len(objects_in(bucket)) == 1

    drop(backend, first)
    with backend.read() as reader:
        assert reader.get_pack(second) == BIG
    drop(backend, second)

    assert objects_in(bucket) == []
    assert strays(backend) == []


def test_a_transaction_that_is_undone_leaves_no_object(backend: PostgresBackend, bucket: str) -> None:
    with suppress(GiveUpError), backend.write() as tx:
        tx.add_pack(digest.RAW, BIG, len(BIG), [])
        assert len(objects_in(bucket)) == 1
        raise GiveUpError

    assert objects_in(bucket) == []
    pack = add(backend, BIG, 1)
    with suppress(GiveUpError), backend.write() as tx:
        tx.drop_pack(pack)
        raise GiveUpError
    with backend.read() as reader:
        assert reader.get_pack(pack) == BIG


KILLED = """
import os, signal, sys
from clew.backends.postgres import PostgresBackend
from clew.backends.postgres.connection import ServerConnection
from clew.core.log import digest

url, bucket, step, pack = sys.argv[1:]
backend = PostgresBackend(url, blobs=bucket)
run = ServerConnection.run

def dying(self, statements):
    is_commit = any(sql == "COMMIT" for sql, _ in statements)
    if is_commit and step == "after commit":
        run(self, statements)
    if is_commit:
        os.kill(os.getpid(), signal.SIGKILL)
    run(self, statements)

ServerConnection.run = dying
blob = sys.stdin.buffer.read()
with backend.write() as tx:
    if int(pack):
        tx.drop_pack(int(pack))
    else:
        tx.add_pack(digest.RAW, blob, len(blob), [])
"""


def killed(url: str, bucket: str, step: str, pack: int) -> None:
    name = f"doomed-{uuid.uuid4().hex}"
    doomed = f"{url}&application_name={name}"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, doomed, bucket, step, str(pack)], input=BIG, check=False
    )
    assert done.returncode == -signal.SIGKILL
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
        # The server notices a moment later.
        until(lambda: connection.execute(left, (name,)).fetchone() == (0,))


def test_whoever_is_killed_between_put_and_commit_leaves_what_the_next_to_open_removes(
    emptied_postgres: str, bucket: str
) -> None:
    """P2: the row is not there, and the object does not stay."""
    killed(emptied_postgres, bucket, "before commit", 0)
    assert len(objects_in(bucket)) == 1

    with closing(PostgresBackend(emptied_postgres, blobs=bucket)) as backend:
        assert objects_in(bucket) == []
        assert strays(backend) == []


def test_whoever_is_killed_after_a_drop_leaves_what_the_next_to_open_removes(
    emptied_postgres: str, bucket: str
) -> None:
    with closing(PostgresBackend(emptied_postgres, blobs=bucket)) as backend:
        pack = add(backend, BIG, 1)
        killed(emptied_postgres, bucket, "before commit", pack)
        sweep(backend.database)
        with backend.read() as reader:
            assert reader.get_pack(pack) == BIG

    killed(emptied_postgres, bucket, "after commit", pack)
    assert len(objects_in(bucket)) == 1
    PostgresBackend(emptied_postgres, blobs=bucket).close()
    assert objects_in(bucket) == []


def test_what_somebody_is_about_to_name_is_not_removed(
    backend: PostgresBackend, emptied_postgres: str, bucket: str
) -> None:
    """Dropped here, put there at the same moment: whichever commits last, a row has its object."""
    pack = add(backend, BIG, 1)
    with closing(PostgresBackend(emptied_postgres, blobs=bucket)) as other:
        with other.write() as tx:
            again = tx.add_pack(digest.RAW, BIG, len(BIG), [(a_name(2), 0, 1)])
            drop(backend, pack)
            assert len(objects_in(bucket)) == 1
        with other.read() as reader:
            assert reader.get_pack(again) == BIG
        assert strays(other) == []


def test_a_reader_of_a_moment_keeps_its_objects(backend: PostgresBackend, bucket: str) -> None:
    """A backup under way reads packs that were dropped since."""
    pack = add(backend, BIG, 1)
    with backend.read_snapshot() as reader:
        drop(backend, pack)
        assert reader.get_pack(pack) == BIG
    sweep(backend.database)
    assert objects_in(bucket) == []


def test_a_snapshot_that_is_collected_leaves_no_object(
    emptied_postgres: str, bucket: str, tmp_path: Path
) -> None:
    """P18, S-29: not in the database, not in the object store."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "secret.bin").write_bytes(BIG * 3)
    with clew.open(emptied_postgres, blobs=bucket) as store:
        snapshot = store.snapshot(tmp_path / "work")
        assert objects_in(bucket) != []
        store.delete_snapshot(snapshot.id)
        store.gc()
        assert objects_in(bucket) == []


def test_verify_names_what_lies_in_a_missing_object(
    emptied_postgres: str, bucket: str, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "precious.bin").write_bytes(BIG)
    with clew.open(emptied_postgres, blobs=bucket) as store:
        store.snapshot(tmp_path / "work")
        (place,) = objects_in(bucket)
        from_url(bucket, client_options={"allow_http": True}).delete(place)

        found = "\n".join(str(problem) for problem in store.verify(full=True).problems)
    assert place in found
    assert "is missing" in found


def test_an_object_of_other_bytes_is_damage(backend: PostgresBackend, bucket: str) -> None:
    """P9: the checksum is compared with every read."""
    pack = add(backend, BIG, 1)
    store = from_url(bucket, client_options={"allow_http": True})
    store.put(place_of(backend, BIG), bytes([BIG[0] ^ 1]) + BIG[1:])
    with backend.read() as reader, pytest.raises(CorruptError, match="checksum"):
        reader.get_pack(pack)


def test_stores_that_share_a_bucket_do_not_touch_each_other(
    backend: PostgresBackend, postgres_place: str, bucket: str
) -> None:
    """Each has a folder of its own, so that no removal is of what another one names."""
    add(backend, BIG, 1)
    with closing(PostgresBackend(postgres_place, blobs=bucket)) as other:
        pack = add(other, BIG, 1)
        assert len(objects_in(bucket)) == 2
        drop(other, pack)
    assert objects_in(bucket) == [place_of(backend, BIG)]


def test_without_the_address_it_is_said_where_the_pack_is(
    backend: PostgresBackend, emptied_postgres: str, bucket: str
) -> None:
    pack = add(backend, BIG, 1)
    with closing(PostgresBackend(emptied_postgres)) as other:
        with other.read() as reader, pytest.raises(BackendUnavailableError, match="blobs"):
            reader.get_pack(pack)
        drop(other, pack)  # whoever cannot reach the object leaves a note
    assert len(objects_in(bucket)) == 1
    sweep(backend.database)
    assert objects_in(bucket) == []


# -- what goes wrong


def told(url: str, blobs: str) -> str:
    with closing(PostgresBackend(url, blobs=blobs)) as backend:
        with pytest.raises(BackendUnavailableError) as caught:
            add(backend, BIG, 1)
        with backend.read() as reader:
            assert reader.list_packs(0, 9) == []
    text = "".join(traceback.format_exception(caught.value))
    assert SECRET not in text
    return str(caught.value)


def test_a_bucket_that_is_not_there_is_named(emptied_postgres: str, bucket: str) -> None:
    assert "s3://no-such-bucket/x" in told(emptied_postgres, "s3://no-such-bucket/x")


def test_a_server_that_can_not_be_reached_is_named(
    emptied_postgres: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert bucket in told(emptied_postgres, bucket)


def test_keys_that_the_server_does_not_know_are_refused(
    emptied_postgres: str, object_server: str, bucket: str
) -> None:
    """S-33: and are in no error."""
    with locked(object_server):
        assert "403" in told(emptied_postgres, bucket)


def test_a_store_opens_and_talks_while_the_object_store_is_down(
    emptied_postgres: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with clew.open(emptied_postgres, blobs=bucket) as store:
        store.session("s").append({"role": "user", "content": "hi"})
        assert len(store.get("s").messages()) == 1


@pytest.mark.parametrize(
    "blobs", ["s3://key:hidden@bucket/x", "s3://bucket/x?secret_access_key=hidden", "bucket"]
)
def test_an_address_with_keys_in_it_is_refused_and_not_repeated(emptied_postgres: str, blobs: str) -> None:
    """S-33"""
    for url, options in ((f"{emptied_postgres}&blobs={blobs}", {}), (emptied_postgres, {"blobs": blobs})):
        with pytest.raises(InvalidUrlError) as caught:
            clew.open(url, **options)
        assert "hidden" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_a_directory_is_a_place_for_objects_too(emptied_postgres: str, tmp_path: Path) -> None:
    """P1: and what is put there is synced, with its folders."""
    place = f"file://{tmp_path}/objects"
    with closing(PostgresBackend(emptied_postgres, blobs=place)) as backend:
        pack = add(backend, BIG, 1)
        assert (tmp_path / "objects" / place_of(backend, BIG)).read_bytes() == BIG
        drop(backend, pack)
        assert [str(one["path"]) for page in LocalStore(tmp_path / "objects").list() for one in page] == []


def test_a_forked_child_hears_why_it_can_not_use_it(backend: PostgresBackend) -> None:
    """The driver would hang there."""
    add(backend, BIG, 1)
    assert backend.database.blobs is not None
    child = os.fork()
    if child == 0:
        try:
            backend.database.blobs.get(blob_name(BIG))
        except BackendUnavailableError:
            os._exit(7)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert backend.database.blobs.get(blob_name(BIG)) == BIG


def test_a_store_with_packs_inside_puts_new_ones_outside(postgres_place: str, bucket: str) -> None:
    PostgresBackend(postgres_place, partitions=2).close()
    url, _, schema = postgres_place.partition("?schema=")
    with psycopg.connect(url) as connection:
        connection.execute(
            f'INSERT INTO "{schema}".packs (pack, size, codec, checksum, content)'
            " VALUES (1, 1, 0, 0, 'x')".encode()
        )

    with closing(PostgresBackend(postgres_place, blobs=bucket)) as backend:
        pack = add(backend, BIG, 1)
        with backend.read() as reader:
            assert [(info.pack, info.stored) for info in reader.list_packs(0, 9)] == [
                (1, 1),
                (pack, len(BIG)),
            ]
        assert isinstance(backend.database.blobs, Blobs)
