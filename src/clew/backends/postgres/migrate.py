"""Code that another role has planted among the tables of a store.

A view in the place of a table, a trigger, a rule, a policy, a default: each runs with the rights of the role
that reads or writes, not of the role that made it. Before any statement touches the tables of a store, Clew
asks the server's catalog what they are. Everything that Clew did not make is refused, unless its maker could
do the same without us: a superuser, and the role that opens the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Final

from clew.backends.postgres import sql
from clew.backends.postgres.connection import ServerConnection, Statement
from clew.backends.postgres.rows import lock_key
from clew.errors import (
    BackendError,
    InvalidUrlError,
    ReadOnlyError,
    SchemaTooNewError,
    SchemaTooOldError,
    StoreNotFoundError,
)
from clew.version import __version__

OUR_VALUES: Final = ("store = (gen_random_uuid())::text", "bucket = (updated >> 26)")
"""Values that the server computes for columns."""
OUR_INDEXED: Final = (
    "md5(workspace)",
    r"""substr(id, ("position"(id, '\x3a'::bytea) + 1))""",
)
"""Indexed expressions."""
OUR_CONDITIONS: Final = (
    "(blob IS NOT NULL)",
    "(deleted IS NOT NULL)",
    "(deleted IS NULL)",
    "((deleted IS NULL) AND (status > 1))",
    "((deleted IS NULL) AND (workspace IS NOT NULL))",
    "(due < '4611686018427387904'::bigint)",
    "(id IS NOT NULL)",
    r"""("position"(id, '\x3a'::bytea) > 0)""",
    "(slices = 1)",
    "(slices > 1)",
    "((status = 1) AND (deleted IS NULL))",
    r"(stream <> '\x'::bytea)",
)
"""Conditions of partial indexes."""


def refuse_planted(
    connection: ServerConnection, schema: sql.Schema, tables: list[str], location: str
) -> None:
    """Raises BackendError if code of another role would run with our rights. The check runs none of it."""
    given = (schema.name, tables, list(OUR_VALUES), list(OUR_INDEXED), list(OUR_CONDITIONS))
    found = connection.ask(sql.PLANTED, given, after=[(sql.PLAIN_EXPRESSIONS, ())])
    for what, table, owner in found:
        raise BackendError(
            f"{location}: {what} of {schema.quoted}.{table} was not made by Clew, and would run code of the"
            f" role {owner!r} with the rights of the role that opens this store; nothing was read or written."
            f" Drop it, or open the store as the role that made it"
        )


# ── Make the tables of a store, or bring older ones up to date: forward only, in one transaction ───

MIGRATIONS: Final[Mapping[int, str]] = {1: "0001_schema.sql", 10: "0010_about.sql"}
"""By the version that each leads to, in order. No version from 2 to 9 is ever given: checkouts before 0.1
used them for other tables."""
PATIENCE: Final = 600.0
"""Seconds for a migration, and for the migrations of other processes before it."""
TABLES: Final = {
    "names": "id", "sessions": "home", "details": "home", "facets": "home", "branches": "home",
    "entries": "home", "records": "home", "events": "home", "usage": "home",
    "packs": "pack", "objects": "name", "strays": "blob",
    "texts": "home", "texts_branches": "home", "texts_sessions": "home",
}  # fmt: skip
"""Every table, with the column that it is partitioned by."""
SMALL: Final = ("strays", "texts", "texts_branches", "texts_sessions")
"""Tables without partitions: too small, or never read by the column that would spread them."""


def ensure_schema(
    connection: ServerConnection, schema: sql.Schema, location: str, *, partitions: int, read_only: bool
) -> None:
    """Have the tables of this version, even if other processes make them at the same moment."""
    refuse_planted(connection, schema, ["meta", *TABLES], location)
    found = _version(connection, schema, location)
    if found == _newest():
        return
    if read_only and not found:
        raise StoreNotFoundError(location)
    if read_only:
        raise ReadOnlyError(
            f"{location} has tables of an older version; open it once for writing, which migrates them"
        )
    ((may_create,),) = connection.ask(sql.MAY_CREATE, (schema.quoted,))
    if not may_create:
        raise ReadOnlyError(
            f"{location} has no tables of this version, and this role must not create them;"
            " let the owner of the schema open the store once"
        )
    _migrate(connection, schema, location, partitions)


def _version(connection: ServerConnection, schema: sql.Schema, location: str) -> int:
    """0: there is no store yet."""
    ((exists,),) = connection.ask(sql.STORE_EXISTS, (schema.name,))
    if not exists:
        return 0
    ((version, written_by),) = connection.ask(schema[sql.STORE_VERSION], ())
    if version > _newest():
        raise SchemaTooNewError(location, version, _newest(), written_by)
    ((is_released,),) = connection.ask(sql.IS_RELEASED, (schema.name,))
    if version not in MIGRATIONS or not is_released:
        raise SchemaTooOldError(location, version)
    return int(version)


def _newest() -> int:
    return max(MIGRATIONS)


def _migrate(connection: ServerConnection, schema: sql.Schema, location: str, partitions: int) -> None:
    """Apply all missing migrations in one transaction, one process at a time. A killed process leaves
    nothing."""
    if not 0 <= partitions <= 1024:
        raise InvalidUrlError(f"partitions must be a number from 0 to 1024, not {partitions}")
    with connection.with_timeout(PATIENCE), connection.transacting():
        connection.run([(sql.LOCK, (lock_key("migrate", schema.name),))])
        version = _version(connection, schema, location)  # another process may have been faster
        if version > 0:
            # Every transaction reads the version first. So this waits for the transactions under way, and
            # later ones see the new version: none of them writes to tables while they change.
            connection.run([(schema[sql.LOCK_META], ())])
            ((partitions,),) = connection.ask(schema[sql.STORE_PARTITIONS], ())
        else:
            ((exists,),) = connection.ask(sql.SCHEMA_EXISTS, (schema.name,))
            if not exists:  # IF NOT EXISTS would still need the right to create it
                connection.run([(schema[sql.CREATE_SCHEMA], ())])
        for number, name in MIGRATIONS.items():
            if number > version:
                connection.execute(_filled(schema, _text(name), partitions).encode())
        if version > 0:
            connection.run([(schema[sql.SET_VERSION], (_newest(), __version__))])
        else:
            connection.run(
                [
                    *_parts(schema, partitions),
                    *_room(schema, partitions),
                    (schema[sql.ADD_META], (_newest(), partitions, __version__)),
                ]
            )


def _text(name: str) -> str:
    return resources.files(__package__).joinpath("migrations", name).read_text("utf-8")


def _filled(schema: sql.Schema, text: str, partitions: int) -> str:
    for column in set(TABLES.values()):
        text = text.replace(f"{{by {column}}}", f"PARTITION BY HASH ({column})" if partitions else "")
    return text.replace("{s}", schema.quoted)


def _room(schema: sql.Schema, partitions: int) -> list[Statement]:
    names = [f"sessions_{number}" for number in range(partitions)] or ["sessions"]
    return [(schema[sql.leave_room(name)], ()) for name in names]


def _parts(schema: sql.Schema, partitions: int) -> list[Statement]:
    return [
        (schema[sql.create_partition(table, number, partitions)], ())
        for table in TABLES
        if table not in SMALL
        for number in range(partitions)
    ]
