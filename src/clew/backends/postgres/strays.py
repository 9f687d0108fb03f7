"""Objects in the object store and rows that name them: what keeps the two together.

An object in doubt (about to be put, or about to lose a row) is noted in `strays` first, in a transaction of
its own, and held by a shared lock until the transaction in question has ended. A sweep removes what is noted
there, held by nobody and named by no row. Whoever is killed anywhere leaves a note, never a row without
its object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clew.backends.postgres.rows import lock_key

if TYPE_CHECKING:
    from clew.backends.postgres.blobs import Blobs
    from clew.backends.postgres.connection import Line
    from clew.backends.postgres.sql import Schema

AT_ONCE: Final = 100

NOTE_STRAY: Final = "INSERT INTO {s}.strays (blob) VALUES ($1) ON CONFLICT DO NOTHING RETURNING 1"
_STRAYS: Final = "SELECT blob FROM {s}.strays WHERE blob > $1 ORDER BY blob LIMIT $2"
_TRY_LOCK: Final = "SELECT pg_try_advisory_xact_lock($1)"
_IS_NAMED: Final = "SELECT count(*) > 0 FROM {s}.packs WHERE blob = $1"
_DROP_STRAY: Final = "DELETE FROM {s}.strays WHERE blob = $1"


def stray_key(schema: Schema, blob: bytes) -> int:
    """The lock of whoever has an object in doubt."""
    return lock_key(schema.name, "blob", blob.hex())


def still_key(schema: Schema) -> int:
    """The lock of whoever reads the store as it was a while ago: no object is removed meanwhile."""
    return lock_key(schema.name, "still")


def sweep_strays(line: Line, schema: Schema, blobs: Blobs) -> int:
    """Remove the objects that nothing names; how many that were."""
    removed, after = 0, b""
    while True:
        rows = line.ask(schema[_STRAYS], (after, AT_ONCE))
        for (blob,) in rows:
            removed += _settle(line, schema, blobs, blob)
        if len(rows) < AT_ONCE:
            return removed
        after = rows[-1][0]


def _settle(line: Line, schema: Schema, blobs: Blobs, blob: bytes) -> bool:
    with line.transacting():
        for key in (still_key(schema), stray_key(schema, blob)):
            ((is_free,),) = line.ask(_TRY_LOCK, (key,))
            if not is_free:
                return False
        ((is_named,),) = line.ask(schema[_IS_NAMED], (blob,))
        if not is_named:
            blobs.remove(blob)
        line.run([(schema[_DROP_STRAY], (blob,))])
        return not is_named
