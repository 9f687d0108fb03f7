"""The objects of snapshots, on one connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clew.backends.rows import pack_checksum, pack_content
from clew.backends.sqlite.rows import POSITION_BITS, Row
from clew.backends.sqlite.sql import (
    ADD_OBJECT,
    ADD_PACK,
    AT_ONCE,
    DROP_OBJECT,
    DROP_PACK,
    FIND_OBJECT,
    FIND_OBJECTS,
    GET_PACK,
    LIST_PACKS,
    SCAN_OBJECTS,
)
from clew.backends.sqlite.streams import StreamReader, StreamWriter
from clew.core.log import checks
from clew.core.log.rows import ObjectPlace, PackInfo

FEW: Final = 20
"""Below this many names, one statement for each is faster."""


class ObjectReader(StreamReader):
    def find_objects(self, names: Sequence[bytes]) -> dict[bytes, ObjectPlace]:
        if len(names) < FEW:
            rows = self.connection.executemany(FIND_OBJECT, [(name,) for name in names])
            return {row[3]: _place(row) for row in rows}
        found = {}
        for first in range(0, len(names), AT_ONCE):
            some = names[first : first + AT_ONCE]
            filled = [*some, *[some[0]] * (AT_ONCE - len(some))]
            found.update({row[3]: _place(row) for row in self._execute(FIND_OBJECTS, filled)})
        return found

    def scan_objects(self, after: bytes, limit: int) -> list[tuple[bytes, ObjectPlace]]:
        return [(row[3], _place(row)) for row in self._execute(SCAN_OBJECTS, (after[:8], after, limit))]

    def get_pack(self, pack: int) -> bytes:
        row = self._one(GET_PACK, pack)
        if row is None:
            raise KeyError(pack)
        size, codec, recorded, blob = row
        return pack_content(pack, size, codec, blob, recorded)

    def list_packs(self, after: int, limit: int) -> list[PackInfo]:
        return [checks.pack(PackInfo(*row)) for row in self._execute(LIST_PACKS, (after, limit))]


class ObjectWriter(StreamWriter):
    def add_pack(self, codec: int, blob: bytes, size: int, members: Sequence[tuple[bytes, int, int]]) -> int:
        self.writes += 1
        self._execute(ADD_PACK, (size, codec, pack_checksum(size, codec, blob), blob))
        pack = self.connection.last_insert_rowid()
        first = pack << POSITION_BITS
        rows = [(name, first | number, offset, size) for number, (name, offset, size) in enumerate(members)]
        if rows:
            self.connection.executemany(ADD_OBJECT, rows)
        return pack

    def drop_objects(self, names: Sequence[bytes]) -> None:
        before = self.connection.total_changes()
        self.connection.executemany(DROP_OBJECT, [(name,) for name in names])
        self.writes += self.connection.total_changes() > before

    def drop_pack(self, pack: int) -> None:
        before = self.connection.total_changes()
        for statement in DROP_PACK:
            self._execute(statement, (pack,))
        self.writes += self.connection.total_changes() > before


def _place(row: Row) -> ObjectPlace:
    return checks.place(row[3], ObjectPlace(row[0] >> POSITION_BITS, row[1], row[2]))
