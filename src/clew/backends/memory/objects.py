"""The objects of snapshots in a store in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import nsmallest

from clew.backends.memory.tables import Journal, Tables
from clew.core.log.digest import unpack
from clew.core.log.rows import ObjectPlace, PackInfo
from clew.errors import CorruptError


class ObjectReader:
    _of: Tables

    def find_objects(self, names: Sequence[bytes]) -> dict[bytes, ObjectPlace]:
        objects = self._of.objects
        return {name: objects[name] for name in names if name in objects}

    def scan_objects(self, after: bytes, limit: int) -> list[tuple[bytes, ObjectPlace]]:
        names = nsmallest(limit, (name for name in self._of.objects if name > after))
        return [(name, self._of.objects[name]) for name in names]

    def get_pack(self, pack: int) -> bytes:
        codec, blob, size = self._of.packs[pack]
        try:
            content = unpack(codec, blob)
        except ValueError as exc:
            raise CorruptError(f"pack {pack} is damaged: {exc}") from exc
        if len(content) != size:
            raise CorruptError(f"pack {pack} is damaged: it has {len(content)} bytes, not {size}")
        return content

    def list_packs(self, after: int, limit: int) -> list[PackInfo]:
        numbers = nsmallest(limit, (pack for pack in self._of.packs if pack > after))
        objects = Counter(place.pack for place in self._of.objects.values())
        packs = ((number, *self._of.packs[number]) for number in numbers)
        return [PackInfo(number, size, len(blob), objects[number]) for number, _, blob, size in packs]


class ObjectTransaction(ObjectReader, Journal):
    def add_pack(self, codec: int, blob: bytes, size: int, members: Sequence[tuple[bytes, int, int]]) -> int:
        pack = next(self._of.numbers)
        self._set(self._of.packs, pack, (codec, blob, size))
        for name, offset, length in members:
            if name not in self._of.objects:
                self._set(self._of.objects, name, ObjectPlace(pack, offset, length))
        return pack

    def drop_objects(self, names: Sequence[bytes]) -> None:
        for name in names:
            self._drop(self._of.objects, name)

    def drop_pack(self, pack: int) -> None:
        self._drop(self._of.packs, pack)
        self.drop_objects([name for name, place in self._of.objects.items() if place.pack == pack])
