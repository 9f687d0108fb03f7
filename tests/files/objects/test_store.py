"""Objects in a store: each content once, packed, durable after a flush, and never read altered."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import apsw
import pytest

from clew.backends.contract import Reader, Transaction
from clew.backends.memory import MemoryBackend
from clew.backends.sqlite import SqliteBackend
from clew.core.engine.engine import Engine
from clew.core.log import digest
from clew.core.log.rows import PackInfo
from clew.errors import CorruptError, DiskFullError, ObjectMissingError, QuotaExceededError
from clew.files.objects.format import (
    CHUNKED,
    FILE,
    LINK,
    Chunk,
    TreeEntry,
    encode_chunks,
    encode_directory,
    object_name,
)
from clew.files.objects.store import (
    AT_ONCE,
    CACHED,
    HELD_BACK,
    PACK_SIZE,
    ObjectReader,
    ObjectWriter,
    Overlay,
)
from tests.faults.crash.threads import together
from tests.files.snapshots import put
from tests.support.rows import each_row
from tests.support.storage import Watched
from tests.support.waiting import until


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    engine = Engine(MemoryBackend() if request.param == "memory" else SqliteBackend(tmp_path / "a.db"))
    yield engine
    engine.close()


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine(SqliteBackend(tmp_path / "b.db"))
    yield engine
    engine.close()


def noise(number: int, size: int) -> bytes:
    """Bytes that do not compress, the same for the same number."""
    from blake3 import blake3

    return blake3(b"%d" % number).digest(length=size)


def add_unstored(engine: Engine, writer: ObjectWriter) -> None:
    def add(tx: Transaction) -> None:
        for pack in writer.unstored:
            pack.add_to(tx)

    engine.run(add)


def packs(engine: Engine) -> list[PackInfo]:
    with engine.read() as reader:
        return reader.list_packs(0, 10_000)


def asked(engine: Engine) -> Counter[str]:
    """Counts the questions to the store from now on."""
    count: Counter[str] = Counter()
    engine.backend = cast("Any", Watched(engine.backend, lambda name, args: count.update([name])))
    return count


def entry(content: bytes, digest: bytes | None = None, kind: int = FILE) -> TreeEntry:
    return TreeEntry(b"file", kind, digest or object_name(content), len(content))


# Writing


def test_what_was_put_comes_back_byte_for_byte(engine: Engine) -> None:
    sizes = (0, 1, 100, 16_384, PACK_SIZE - 1, PACK_SIZE, PACK_SIZE + 1, 3_000_000)
    contents = [kind(size) for size in sizes for kind in (bytes, lambda size: noise(size, size))]
    names = put(engine, *contents)

    reader = ObjectReader(engine.read)
    assert names == [object_name(content) for content in contents]
    assert [reader.get(name) for name in names] == contents


def test_small_objects_share_packs_and_large_ones_have_their_own(engine: Engine) -> None:
    large = [noise(number, PACK_SIZE + number) for number in (1, 2)]
    put(engine, large[0], *(noise(number, 8_000) for number in range(100)), large[1])

    found = packs(engine)
    assert sorted(info.size for info in found if info.objects == 1) == [len(content) for content in large]
    shared = [info for info in found if info.objects > 1]
    assert [info.objects for info in shared] == [32, 32, 32, 4]
    assert all(info.size <= PACK_SIZE for info in shared)


@each_row(
    "contents",
    [
        [b"%d of many that are alike\n" % number * 300 for number in range(20)],
        [b"a line of a small file\n" * 50],
    ],
)
def test_a_pack_is_compressed_even_that_of_one_small_edit(engine: Engine, contents: list[bytes]) -> None:
    """A snapshot after one edit leaves a pack far below what is worth it for a message."""
    put(engine, *contents)

    info = packs(engine)[-1]
    assert (info.objects, info.stored < info.size / 10) == (len(contents), True)


def test_the_same_content_is_stored_once(engine: Engine) -> None:
    writer = ObjectWriter(engine)
    for _ in range(3):
        for number in range(100):
            writer.put(noise(number, 1000))
        writer.flush()
    assert (writer.new_objects, writer.new_bytes) == (100, 100_000)
    before = packs(engine)

    again = ObjectWriter(engine)
    for number in range(100):
        again.put(noise(number, 1000))
    again.flush()
    assert (again.new_objects, again.new_bytes, packs(engine)) == (0, 0, before)


def test_new_objects_among_many_old_ones_share_packs(engine: Engine) -> None:
    """What is found to be there when a pack is full makes room for more."""
    put(engine, *(noise(number, 8_000) for number in range(0, 320, 2)))
    before = len(packs(engine))
    put(engine, *(noise(number, 8_000) for number in range(320)))

    assert [info.objects for info in packs(engine)[before:]] == [32] * 5


def test_a_writer_knows_what_is_there_and_what_was_put(engine: Engine) -> None:
    there = put(engine, b"there")[0]
    writer = ObjectWriter(engine)
    added, absent = writer.put(b"put"), object_name(b"absent")

    assert writer.known([there, added, absent, there]) == {there, added}
    assert [writer.has(name) for name in (there, added, absent)] == [True, True, False]
    assert writer.known([]) == set()
    assert writer.put(b"absent") == absent
    assert writer.has(absent)


def test_one_question_tells_of_many_names_and_is_not_repeated(engine: Engine) -> None:
    contents = [noise(number, 1000) for number in range(500)]
    names = put(engine, *contents[:250])
    names += map(object_name, contents[250:])
    count = asked(engine)
    writer = ObjectWriter(engine)

    assert writer.known(names) == set(names[:250])
    assert writer.known(names) == set(names[:250])
    for content, name in zip(contents, names, strict=True):
        writer.put(content, name)
    writer.flush()
    assert count["find_objects"] == 1
    assert writer.new_objects == 250


def test_many_threads_may_put(engine: Engine) -> None:
    contents = [noise(number, 500 + 97 * number % 30_000) for number in range(1500)]
    writer = ObjectWriter(engine)

    def put_all(first: int) -> None:
        for place in range(len(contents)):
            writer.put(contents[(first + place) % len(contents)])

    assert together([partial(put_all, first) for first in range(0, 1500, 250)]) == []
    writer.flush()

    found = dict(ObjectReader(engine.read).get_many([object_name(content) for content in contents]))
    assert sorted(found.values()) == sorted(contents)
    assert writer.new_objects == sum(info.objects for info in packs(engine)) == 1500
    assert writer.new_bytes == sum(info.size for info in packs(engine)) == sum(map(len, contents))


def test_p1_what_was_flushed_is_there_in_another_process_view(on_disk: Engine) -> None:
    name = put(on_disk, b"kept")[0]
    other = SqliteBackend(cast("SqliteBackend", on_disk.backend).path, read_only=True)

    assert ObjectReader(other.read).get(name) == b"kept"
    other.close()


def test_flush_waits_for_what_other_threads_write(engine: Engine) -> None:
    writer, flushed, seen = ObjectWriter(engine), threading.Event(), []
    started, commit = threading.Event(), engine.run

    def slow(work: Callable[[Transaction], Any]) -> Any:
        started.set()
        until(lambda: writer._state._waiters or flushed.is_set())  # type: ignore[attr-defined]
        seen.append(flushed.is_set())
        return commit(work)

    engine.run = slow  # type: ignore[method-assign]
    name = object_name(noise(1, AT_ONCE))
    thread = threading.Thread(target=writer.put, args=(noise(1, AT_ONCE),))
    thread.start()
    started.wait()
    writer.flush()
    flushed.set()
    thread.join()

    assert seen == [False]
    assert ObjectReader(engine.read).get(name) == noise(1, AT_ONCE)


def test_transactions_are_bounded_whatever_the_number_of_threads(engine: Engine) -> None:
    sizes: list[int] = []
    write = engine.backend.write

    class Measured:
        def __init__(self, *how: Any) -> None:
            self._inner = write(*how)

        def __enter__(self) -> Transaction:
            tx = self._inner.__enter__()
            add, sizes_now = tx.add_pack, len(sizes)
            sizes.append(0)

            def measured(codec: int, blob: bytes, size: int, members: Any) -> int:
                sizes[sizes_now] += len(blob)
                return add(codec, blob, size, members)

            tx.add_pack = measured  # type: ignore[method-assign]
            return tx

        def __exit__(self, *exc: Any) -> None:
            self._inner.__exit__(*exc)

    engine.backend.write = Measured  # type: ignore[assignment, method-assign]
    writer = ObjectWriter(engine)

    def put_many(thread: int) -> None:
        for number in range(150):
            writer.put(noise(1000 * thread + number, 100_000))

    assert together([partial(put_many, number) for number in range(4)]) == []
    writer.flush()

    assert sum(sizes) >= 4 * 150 * 100_000
    assert max(sizes) <= AT_ONCE + 4 * PACK_SIZE


def test_little_is_left_for_the_transaction_of_the_record(engine: Engine) -> None:
    writer = ObjectWriter(engine, holds_back=True)
    contents = [b"", b"small", noise(1, 10_000)]
    names = [writer.put(content) for content in contents]
    writer.flush()

    assert packs(engine) == []
    assert (writer.new_objects, writer.new_bytes) == (3, 10_005)
    add_unstored(engine, writer)
    assert [ObjectReader(engine.read).get(name) for name in names] == contents


@pytest.mark.parametrize("size", [HELD_BACK, HELD_BACK + 1])
def test_much_is_not_held_back(engine: Engine, size: int) -> None:
    """Others wait for the transaction of the record, and it is kept in memory until then."""
    writer = ObjectWriter(engine, holds_back=True)
    name = writer.put(noise(1, size))
    writer.flush()

    assert len(writer.unstored) == (size <= HELD_BACK)
    assert len(packs(engine)) == (size > HELD_BACK)
    writer.store_rest()
    writer.store_rest()
    assert writer.unstored == []
    assert len(packs(engine)) == 1
    assert ObjectReader(engine.read).get(name) == noise(1, size)


def test_flush_waits_for_other_threads_though_it_holds_something_back(engine: Engine) -> None:
    writer = ObjectWriter(engine, holds_back=True)
    threads = [
        threading.Thread(target=lambda n=n: [writer.put(noise(100 * n + i, 70_000)) for i in range(20)])
        for n in range(3)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        writer.flush()
    writer.flush()
    add_unstored(engine, writer)

    assert sum(info.objects for info in packs(engine)) == writer.new_objects == 60


def test_f06_a_failed_write_is_told_to_every_caller(engine: Engine) -> None:
    """Else a snapshot would name objects that nobody stored."""

    def full(work: Callable[[Transaction], Any]) -> Any:
        raise DiskFullError("no space left")

    commit, engine.run = engine.run, full  # type: ignore[method-assign]
    writer = ObjectWriter(engine)
    writer.put(b"x")
    with pytest.raises(DiskFullError):
        writer.flush()
    engine.run = commit  # type: ignore[method-assign]

    with pytest.raises(DiskFullError):
        writer.flush()
    with pytest.raises(DiskFullError):
        writer.put(b"y")
    assert put(engine, b"x") == [object_name(b"x")]


@pytest.mark.parametrize(("holds_back", "size"), [(False, 1_000_000), (True, 1_000)])
def test_f06_nothing_is_written_when_the_disk_has_little_room(
    on_disk: Engine, monkeypatch: pytest.MonkeyPatch, holds_back: bool, size: int
) -> None:
    """What is held back needs room, too."""
    writer = ObjectWriter(on_disk, holds_back=holds_back)
    writer.put(noise(1, size))
    needed = 64 * 1024 * 1024 + 2 * size
    usage = shutil.disk_usage(".")._replace(free=needed - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)

    with pytest.raises(
        QuotaExceededError, match=rf"^{needed - 1} bytes are free in /.*to store {size} more, {needed}"
    ):
        writer.flush()
    assert packs(on_disk) == []
    usage = usage._replace(free=needed)
    put(on_disk, noise(1, size))
    assert len(packs(on_disk)) == 1


def test_an_object_larger_than_what_is_unpacked_can_be_read(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest, "MAX_MESSAGE_BYTES", 50_000)
    names = put(engine, bytes(50_001))

    assert ObjectReader(engine.read).get(names[0]) == bytes(50_001)


# Reading


def test_what_is_on_its_way_can_be_read_beside_what_is_there(engine: Engine) -> None:
    there, chunk = put(engine, b"there", b"chunk one")
    writer = ObjectWriter(engine, holds_back=True)
    coming = writer.put(b"coming")
    large = writer.put(encode_chunks([Chunk(chunk, 9), Chunk(coming, 6)]))
    folder = writer.put(encode_directory([entry(b"there")]))
    writer.flush()
    reader = Overlay(ObjectReader(engine.read))
    reader.lay(writer.unstored)

    assert dict(reader.get_many([coming, there, coming])) == {there: b"there", coming: b"coming"}
    assert reader.directory(folder) == [entry(b"there")]
    whole = TreeEntry(b"large", FILE | CHUNKED, large, 15)
    assert b"".join(reader.pieces(whole)) == b"chunk onecoming"
    reader.check_there([there, coming, large, folder])
    assert packs(engine)[-1].objects == 2, "and nothing of it was stored"


@pytest.mark.parametrize("is_overlaid", [False, True])
def test_what_is_neither_there_nor_on_its_way_is_named(engine: Engine, is_overlaid: bool) -> None:
    there = put(engine, b"there")[0]
    name, plain = object_name(b"nowhere"), ObjectReader(engine.read)
    reader = Overlay(plain) if is_overlaid else plain

    for read in (reader.get, lambda name: next(reader.get_many([there, name])),
                 lambda name: reader.check_there([there, name])):  # fmt: skip
        with pytest.raises(ObjectMissingError, match=name.hex()):
            read(name)


class Damage(NamedTuple):
    content: bytes
    offset: int
    size: int


@pytest.mark.parametrize(
    "damage", [Damage(b"oTher", 0, 5), Damage(b"other", 1, 5), Damage(b"other", 0, 4), Damage(b"other", 9, 5)]
)
def test_p7_content_that_is_not_what_its_name_says_is_never_returned(engine: Engine, damage: Damage) -> None:
    name = object_name(b"other")
    members = [(name, damage.offset, damage.size)]
    engine.run(lambda tx: tx.add_pack(digest.RAW, damage.content, len(damage.content), members))
    reader = ObjectReader(engine.read)

    with pytest.raises(CorruptError, match=name.hex()):
        reader.get(name)
    with pytest.raises(CorruptError, match=name.hex()):
        list(reader.get_many([name]))


@pytest.mark.parametrize("column", ["content", "codec", "size", "checksum"])
def test_p7_a_damaged_pack_names_the_object_that_needs_it(on_disk: Engine, column: str) -> None:
    names = put(on_disk, b"content " * 10_000, b"x")
    path = cast("SqliteBackend", on_disk.backend).path
    changed = (
        "CAST(replace(CAST(content AS TEXT), 'c', 'd') AS BLOB)" if column == "content" else f"{column} + 1"
    )
    connection = apsw.Connection(str(path))
    connection.execute(f"UPDATE packs SET {column} = {changed}")
    connection.close()

    for name in names:
        with pytest.raises(CorruptError, match=name.hex()):
            ObjectReader(on_disk.read).get(name)


def test_many_objects_are_read_with_each_pack_once(engine: Engine) -> None:
    names = put(engine, *(noise(number, 8_000) for number in range(2000)))
    assert sum(info.size for info in packs(engine)) > CACHED
    count = asked(engine)
    wanted = names[::-3]

    found = dict(ObjectReader(engine.read).get_many([*wanted, *wanted]))
    assert found == {name: noise(names.index(name), 8_000) for name in wanted}
    assert (count["find_objects"], count["get_pack"]) == (1, len(packs(engine)))


def test_packs_that_were_read_are_kept_as_long_as_there_is_room(engine: Engine) -> None:
    names = put(engine, *(noise(number, 1024 * 1024) for number in range(9)))
    count, reader = asked(engine), ObjectReader(engine.read)
    for _ in range(2):
        for name in names[:8]:
            reader.get(name)
    assert count["get_pack"] == 8
    reader.get(names[8])
    reader.get(names[1])
    assert count["get_pack"] == 9
    reader.get(names[0])
    assert count["get_pack"] == 10


def test_an_object_that_is_moved_meanwhile_is_found(engine: Engine) -> None:
    """As gc does when it rewrites a pack between the two questions of a reader."""
    contents = [b"one", b"two"]
    names = put(engine, *contents)
    backend, moves = engine.backend, Counter[str]()

    def move(name: str, args: tuple[Any, ...]) -> None:
        if name == "get_pack" and not moves["done"]:
            moves["done"] += 1
            with backend.write() as tx:
                tx.drop_pack(args[0])
                tx.add_pack(digest.RAW, b"twoone", 6, [(names[0], 3, 3), (names[1], 0, 3)])

    watched = Watched(backend, move)
    assert ObjectReader(watched.read).get(names[0]) == b"one"
    moves.clear()
    assert dict(ObjectReader(watched.read).get_many(names)) == dict(zip(names, contents, strict=True))
    assert moves["done"] == 1


def test_an_object_whose_pack_is_lost_is_missing(engine: Engine) -> None:
    name = put(engine, b"lost")[0]

    class Lossy:
        def __init__(self, reader: Reader) -> None:
            self.find_objects = reader.find_objects

        def get_pack(self, pack: int) -> bytes:
            raise KeyError(pack)

    with engine.read() as inner:
        from contextlib import nullcontext

        reader = ObjectReader(lambda: nullcontext(cast("Reader", Lossy(inner))))
        with pytest.raises(ObjectMissingError, match=name.hex()):
            reader.get(name)


def test_a_directory_is_read_as_its_entries(engine: Engine) -> None:
    entries = [entry(b"x"), TreeEntry(b"z", LINK, object_name(b"y"), 1)]
    good, bad = put(engine, encode_directory(entries), b"clewdir1 no more")
    reader = ObjectReader(engine.read)

    assert reader.directory(good) == entries
    with pytest.raises(CorruptError, match=bad.hex()):
        reader.directory(bad)


def test_a_file_is_read_chunk_by_chunk(engine: Engine) -> None:
    chunks = [noise(number, 300_000) for number in range(3)]
    whole = b"".join(chunks)
    names = put(engine, *chunks)
    pairs = zip(names, chunks, strict=True)
    listed = put(engine, encode_chunks([Chunk(name, len(chunk)) for name, chunk in pairs]))[0]
    plain = put(engine, whole)[0]
    reader = ObjectReader(engine.read)

    assert list(reader.pieces(entry(whole, listed, FILE | CHUNKED))) == chunks
    assert list(reader.pieces(entry(whole, plain))) == [whole]


@pytest.mark.parametrize("size", [0, 4, 6])
@pytest.mark.parametrize("kind", [FILE, FILE | CHUNKED])
def test_a_file_of_another_size_than_its_directory_says_is_refused(
    engine: Engine, kind: int, size: int
) -> None:
    plain = put(engine, b"12345")[0]
    name = put(engine, encode_chunks([Chunk(plain, 5)]))[0] if kind & CHUNKED else plain

    with pytest.raises(CorruptError, match=f"b'file' has 5 bytes in the store; its directory says {size}"):
        list(ObjectReader(engine.read).pieces(TreeEntry(b"file", kind, name, size)))


def test_a_file_with_a_missing_chunk_names_it(engine: Engine) -> None:
    lost = object_name(b"lost")
    listed, wrong = put(engine, encode_chunks([Chunk(lost, 4)]), b"no list")
    reader = ObjectReader(engine.read)

    with pytest.raises(ObjectMissingError, match=lost.hex()):
        list(reader.pieces(TreeEntry(b"file", FILE | CHUNKED, listed, 4)))
    with pytest.raises(CorruptError, match=wrong.hex()):
        list(reader.pieces(TreeEntry(b"file", FILE | CHUNKED, wrong, 4)))
