"""The storage contract: packs, and the objects of snapshots in them."""

from __future__ import annotations

import pytest

from clew.backends.contract import Backend, Transaction
from clew.core.log import digest
from clew.core.log.digest import DIGEST_SIZE
from clew.core.log.rows import ObjectPlace, PackInfo
from clew.errors import CorruptError
from clew.testing.backend.base import Conformance
from clew.testing.rows import each_row, named

ALL_BYTES = bytes(range(256))


def a_name(number: int) -> bytes:
    """Names in the order of their numbers, many with equal first bytes."""
    return number.to_bytes(DIGEST_SIZE, "big")


def add_pack(tx: Transaction, names: list[bytes], content: bytes = b"") -> int:
    """A pack with an object of one byte for each name."""
    content = content or bytes(len(names))
    return tx.add_pack(*digest.pack(content), len(content), [(name, at, 1) for at, name in enumerate(names)])


class ObjectConformance(Conformance):
    """Packs come back byte for byte, and every object is found where it lies."""

    def test_a_pack_comes_back_byte_for_byte(self, backend: Backend) -> None:
        """Raw or compressed, any bytes, any size."""
        infos = []
        for number, content in enumerate((b"", b"x", ALL_BYTES, ALL_BYTES * 4096, b"x" * 2_000_000)):
            codec, blob = digest.pack(content)
            with named(f"{len(content)} bytes"):
                with backend.write() as tx:
                    pack = tx.add_pack(codec, blob, len(content), [(a_name(number), 0, len(content))])
                    assert tx.get_pack(pack) == content
                infos.append(PackInfo(pack, len(content), len(blob), 1))
                with backend.read() as reader:
                    assert reader.get_pack(pack) == content
                    assert reader.list_packs(0, 9) == infos

    def test_objects_are_found_where_they_lie(self, backend: Backend) -> None:
        """By name, with pack, offset and size; an empty one too, a name of any bytes, and no other."""
        names = [bytes(DIGEST_SIZE), b"\xff" * DIGEST_SIZE, ALL_BYTES[:DIGEST_SIZE], b"\0" * 31 + b"'"]
        with backend.write() as tx:
            first = tx.add_pack(
                digest.RAW, b"abcdef", 6, [(names[0], 0, 2), (names[1], 2, 0), (names[2], 2, 4)]
            )
            second = tx.add_pack(digest.RAW, b"g", 1, [(names[3], 0, 1)])
        places = {
            names[0]: ObjectPlace(first, 0, 2),
            names[1]: ObjectPlace(first, 2, 0),
            names[2]: ObjectPlace(first, 2, 4),
            names[3]: ObjectPlace(second, 0, 1),
        }

        with backend.read() as reader:
            assert reader.find_objects([*names, a_name(7)]) == places
            assert reader.find_objects(names[3:]) == {names[3]: places[names[3]]}
            assert reader.find_objects([]) == reader.find_objects([a_name(7), b"", b"\0"]) == {}

    def test_many_objects_are_found_with_one_question(self, backend: Backend) -> None:
        """However many names, those that are there and no others; a name may be asked for twice."""
        with backend.write() as tx:
            add_pack(tx, [a_name(2 * number) for number in range(250)])
            for count in (1, 19, 20, 99, 100, 101, 250):
                there = [a_name(2 * number) for number in range(count)]
                absent = [a_name(2 * number + 1) for number in range(count)]
                with named(f"{count} names"):
                    assert set(tx.find_objects(there)) == set(there)
                    assert set(tx.find_objects([*absent, *there, *there])) == set(there)
                    assert tx.find_objects(absent) == {}

    def test_an_object_that_is_there_keeps_its_place(self, backend: Backend) -> None:
        """Two that write the same content at the same time do not move each other's objects."""
        with backend.write() as tx:
            first = add_pack(tx, [a_name(1), a_name(2)])
        with backend.write() as tx:
            second = add_pack(tx, [a_name(0), a_name(2), a_name(3), a_name(3)])

        with backend.read() as reader:
            found = reader.find_objects([a_name(number) for number in range(4)])
            assert found == {
                a_name(0): ObjectPlace(second, 0, 1),
                a_name(1): ObjectPlace(first, 0, 1),
                a_name(2): ObjectPlace(first, 1, 1),
                a_name(3): ObjectPlace(second, 2, 1),
            }
            assert [info.objects for info in reader.list_packs(0, 9)] == [2, 2]

    def test_objects_are_walked_in_the_order_of_their_names(self, backend: Backend) -> None:
        """From a name on, that one not included, so many at once, whatever pack they are in."""
        names = [a_name(number) for number in range(5)] + [bytes([number]) * 32 for number in (1, 127, 255)]
        with backend.write() as tx:
            add_pack(tx, names[::-2])
            add_pack(tx, names[::2])
            places = tx.find_objects(names)

        with backend.read() as reader:
            assert reader.scan_objects(b"", 99) == [(name, places[name]) for name in names]
            assert [name for name, _ in reader.scan_objects(b"", 3)] == names[:3]
            assert [name for name, _ in reader.scan_objects(names[2], 4)] == names[3:7]
            assert [name for name, _ in reader.scan_objects(names[2] + b"\0", 1)] == names[3:4]
            assert reader.scan_objects(names[-1], 99) == []

    def test_packs_are_walked_in_order(self, backend: Backend) -> None:
        """From a number on, so many at once, with the objects that lie in each by now."""
        with backend.write() as tx:
            packs = [add_pack(tx, [a_name(10 * n + m) for m in range(n)], b"y" * 50_000) for n in range(4)]
            tx.drop_objects([a_name(30)])

        stored = len(digest.pack(b"y" * 50_000)[1])
        infos = [
            PackInfo(pack, 50_000, stored, count) for pack, count in zip(packs, (0, 1, 2, 2), strict=True)
        ]
        with backend.read() as reader:
            assert packs == sorted(packs)
            assert reader.list_packs(0, 99) == infos
            assert reader.list_packs(0, 2) == infos[:2]
            assert reader.list_packs(packs[1], 99) == infos[2:]
            assert reader.list_packs(packs[3], 99) == []

    def test_an_object_can_be_forgotten(self, backend: Backend) -> None:
        """Its pack stays; those beside it stay; it can be stored again, elsewhere."""
        with backend.write() as tx:
            first = add_pack(tx, [a_name(1), a_name(2)], b"12")
            tx.drop_objects([a_name(1), a_name(9)])
            tx.drop_objects([])

            assert set(tx.find_objects([a_name(1), a_name(2)])) == {a_name(2)}
            assert tx.get_pack(first) == b"12"
            second = add_pack(tx, [a_name(1)])
            assert tx.find_objects([a_name(1)]) == {a_name(1): ObjectPlace(second, 0, 1)}

    def test_a_pack_takes_its_objects_with_it(self, backend: Backend) -> None:
        """Those that lie in it, and no others; what is not there can be dropped."""
        with backend.write() as tx:
            packs = [add_pack(tx, [a_name(3 * n + m) for m in range(3)]) for n in range(3)]
        with backend.write() as tx:
            tx.drop_pack(packs[1])
            tx.drop_pack(packs[1])

        with backend.read() as reader:
            assert [name for name, _ in reader.scan_objects(b"", 99)] == [
                a_name(number) for number in (0, 1, 2, 6, 7, 8)
            ]
            assert [info.pack for info in reader.list_packs(0, 9)] == [packs[0], packs[2]]
            with pytest.raises(KeyError):
                reader.get_pack(packs[1])

    def test_the_number_of_a_pack_is_never_used_twice(self, backend: Backend) -> None:
        """Who has read where an object lies finds that pack or none."""
        with backend.write() as tx:
            first = add_pack(tx, [a_name(1)])
            tx.drop_pack(first)
        with backend.write() as tx:
            second = add_pack(tx, [a_name(2)])

        assert second > first > 0

    def test_a_failed_transaction_leaves_no_trace_of_packs(self, backend: Backend) -> None:
        """P2: added, forgotten and dropped ones are as before."""
        with backend.write() as tx:
            packs = [add_pack(tx, [a_name(1), a_name(2)]), add_pack(tx, [a_name(3)])]
            before = tx.scan_objects(b"", 99), tx.list_packs(0, 99)

        def fail() -> None:
            with backend.write() as tx:
                tx.drop_objects([a_name(1)])
                tx.drop_pack(packs[1])
                add_pack(tx, [a_name(1), a_name(4)])
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()

        with backend.read() as reader:
            assert (reader.scan_objects(b"", 99), reader.list_packs(0, 99)) == before

    def test_writes_tell_whether_packs_changed(self, backend: Backend) -> None:
        """What finds nothing to drop has left no trace."""
        with backend.write() as tx:
            tx.drop_objects([a_name(1)])
            tx.drop_pack(1)
            assert tx.writes == 0
            pack = add_pack(tx, [])
            added = tx.writes
            assert added > 0
            tx.drop_pack(pack)
            assert tx.writes > added

    @each_row(
        ("codec", "blob", "size"),
        [(digest.ZSTD, b"no frame", 8), (7, b"x", 1), (digest.RAW, b"xy", 1), (digest.RAW, b"x", 2)],
        ids=["no frame", "unknown codec", "longer", "shorter"],
    )
    def test_a_damaged_pack_is_not_read(self, backend: Backend, codec: int, blob: bytes, size: int) -> None:
        """P7: what does not unpack to what was said raises CorruptError that names the pack."""
        with backend.write() as tx:
            pack = tx.add_pack(codec, blob, size, [])

        with backend.read() as reader, pytest.raises(CorruptError, match=f"pack {pack} "):
            reader.get_pack(pack)
