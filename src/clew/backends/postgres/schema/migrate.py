"""Making a schema and bringing an old one up to date: forward only, in one transaction."""

from __future__ import annotations

from importlib import resources
from typing import Final

from clew.backends.postgres.connection import ServerConnection, Statement
from clew.backends.postgres.rows import lock_key
from clew.backends.postgres.schema.planted import refuse_planted
from clew.backends.postgres.sql import LOCK, Schema
from clew.errors import InvalidUrlError, ReadOnlyError, SchemaTooNewError, StoreNotFoundError

MIGRATIONS: Final = ("0001_store.sql", "0002_blobs.sql", "0003_search.sql")
PATIENCE: Final = 600.0
"""Seconds for a step, and for those of others before it."""
TABLES: Final = {
    "names": "id", "sessions": "home", "details": "home", "facets": "home", "branches": "home",
    "entries": "home", "records": "home", "events": "home", "usage": "home",
    "packs": "pack", "objects": "name", "strays": "blob",
    "texts": "home", "texts_branches": "home", "texts_sessions": "home",
}  # fmt: skip
"""Every table, with the column by which it is spread."""
SMALL: Final = ("strays", "texts", "texts_branches", "texts_sessions")
"""Not worth partitions, or never looked at by what they would be spread by."""

# Asked of the tables themselves: functions such as to_regclass may answer from what the session remembers.
_SCHEMA_EXISTS: Final = "SELECT count(*) > 0 FROM pg_catalog.pg_namespace WHERE nspname = $1"
_STORE_EXISTS: Final = (
    "SELECT count(*) > 0 FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace"
    " ON pg_namespace.oid = relnamespace WHERE nspname = $1 AND relname = 'meta'"
)
_VERSION: Final = "SELECT version FROM {s}.meta"
_MAY_CREATE: Final = (
    "SELECT coalesce(has_schema_privilege(to_regnamespace($1)::oid, 'CREATE'),"
    " has_database_privilege(current_database(), 'CREATE'))"
)


def ensure_schema(
    line: ServerConnection, schema: Schema, location: str, *, partitions: int, read_only: bool
) -> None:
    """Have the tables of this version, whoever else is making them at the same moment."""
    refuse_planted(line, schema, ["meta", *TABLES], location)
    found = _version(line, schema, location)
    if found == len(MIGRATIONS):
        return
    if read_only and not found:
        raise StoreNotFoundError(location)
    if read_only:
        raise ReadOnlyError(f"{location} has tables of an older version; open it for writing once")
    ((may_create,),) = line.ask(_MAY_CREATE, (schema.quoted,))
    if not may_create:
        raise ReadOnlyError(
            f"{location} has no tables of this version, and this role may not create them;"
            " let their owner open the store once"
        )
    _migrate(line, schema, location, partitions)


def _version(line: ServerConnection, schema: Schema, location: str) -> int:
    """0: there is no store yet."""
    ((exists,),) = line.ask(_STORE_EXISTS, (schema.name,))
    if not exists:
        return 0
    ((version,),) = line.ask(schema[_VERSION], ())
    if version > len(MIGRATIONS):
        raise SchemaTooNewError(location, version, len(MIGRATIONS))
    return int(version)


def _migrate(line: ServerConnection, schema: Schema, location: str, partitions: int) -> None:
    """All missing steps in one transaction, one process after the other: whoever dies leaves nothing."""
    if not 0 <= partitions <= 1024:
        raise InvalidUrlError(f"partitions is a number from 0 to 1024, not {partitions}")
    with line.taking_its_time(PATIENCE), line.transacting():
        line.run([(LOCK, (lock_key("migrate", schema.name),))])
        version = _version(line, schema, location)  # another process may have been faster
        if version > 0:
            # Every transaction looks at the version first. So this waits for those that are under way, and
            # whoever comes later sees the new one: nobody writes by halves to tables that change.
            line.run([(schema["LOCK TABLE {s}.meta IN ACCESS EXCLUSIVE MODE"], ())])
        if version == 0:
            ((exists,),) = line.ask(_SCHEMA_EXISTS, (schema.name,))
            if not exists:  # even with IF NOT EXISTS one would need the right to create it
                line.run([(schema["CREATE SCHEMA {s}"], ())])
            line.run(_beginning(schema, partitions))
        for name in MIGRATIONS[version:]:
            text = resources.files(__package__).joinpath("migrations", name).read_text("utf-8")
            line.execute(_filled(schema, text, partitions).encode())
        if version == 0 and partitions:
            line.run(_parts(schema, partitions))
        if version == 0:
            line.run(_room(schema, partitions))
        line.run([(schema["UPDATE {s}.meta SET version = $1"], (len(MIGRATIONS),))])


def _beginning(schema: Schema, partitions: int) -> list[Statement]:
    return [
        (schema["CREATE TABLE {s}.meta (version bigint NOT NULL, partitions bigint NOT NULL)"], ()),
        (schema["INSERT INTO {s}.meta VALUES (0, $1)"], (partitions,)),
    ]


def _filled(schema: Schema, text: str, partitions: int) -> str:
    for column in set(TABLES.values()):
        text = text.replace(f"{{by {column}}}", f"PARTITION BY HASH ({column})" if partitions else "")
    return text.replace("{s}", schema.quoted)


def _room(schema: Schema, partitions: int) -> list[Statement]:
    """Leave room in the pages of rows that are rewritten all the time, for their next versions."""
    names = [f"sessions_{number}" for number in range(partitions)] or ["sessions"]
    return [(schema[f"ALTER TABLE {{s}}.{name} SET (fillfactor = 70)"], ()) for name in names]


def _parts(schema: Schema, partitions: int) -> list[Statement]:
    return [
        (
            schema[
                f"CREATE TABLE {{s}}.{table}_{number} PARTITION OF {{s}}.{table}"
                f" FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number})"
            ],
            (),
        )
        for table in TABLES
        if table not in SMALL
        for number in range(partitions)
    ]
