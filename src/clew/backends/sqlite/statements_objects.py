"""The SQL statements for the objects of snapshots: made of constants only, every value a parameter."""

# ruff: noqa: S608 - the pieces are the constants of this file
from __future__ import annotations

from typing import Final

OBJECT: Final = "key, offset, size, name"

# The index holds the first bytes of names; without this condition beside the name it is not used.
_NAMED: Final = "substr(name, 1, 8) = substr(?1, 1, 8) AND name = ?1"

FIND_OBJECT: Final = f"SELECT {OBJECT} FROM objects WHERE {_NAMED}"
AT_ONCE: Final = 100
# Many names in one statement take a third of the time of a statement for each.
FIND_OBJECTS: Final = (
    f"SELECT {OBJECT} FROM objects"
    f" WHERE substr(name, 1, 8) IN ({', '.join(f'substr(?{n}, 1, 8)' for n in range(1, AT_ONCE + 1))})"
    f" AND name IN ({', '.join(f'?{n}' for n in range(1, AT_ONCE + 1))})"
)
SCAN_OBJECTS: Final = (
    f"SELECT {OBJECT} FROM objects WHERE substr(name, 1, 8) >= ?1 AND name > ?2"
    " ORDER BY substr(name, 1, 8), name LIMIT ?3"
)
GET_PACK: Final = "SELECT size, codec, checksum, content FROM packs WHERE pack = ?"
LIST_PACKS: Final = (
    "SELECT pack, size, length(content), (SELECT count(*) FROM objects"
    " WHERE key BETWEEN pack << 32 AND pack << 32 | 4294967295)"
    " FROM packs WHERE pack > ? ORDER BY pack LIMIT ?"
)

ADD_PACK: Final = "INSERT INTO packs (size, codec, checksum, content) VALUES (?, ?, ?, ?)"
ADD_OBJECT: Final = (
    f"INSERT INTO objects ({OBJECT}) SELECT ?2, ?3, ?4, ?1"
    f" WHERE NOT EXISTS (SELECT 1 FROM objects WHERE {_NAMED})"
)
DROP_OBJECT: Final = f"DELETE FROM objects WHERE {_NAMED}"
DROP_PACK: Final = (
    "DELETE FROM objects WHERE key BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295",
    "DELETE FROM packs WHERE pack = ?1",
)
