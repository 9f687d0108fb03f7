"""Code that another role has planted among the tables of a store.

A view in the place of a table, a trigger, a rule, a policy, a default: each runs with the rights of the role
that reads or writes, not of the role that made it. Before any statement touches the tables of a store, Clew
asks the server's catalog what they are. Everything that Clew did not make is refused, unless its maker could
do the same without us: a superuser, and the role that opens the store.
"""

from __future__ import annotations

from typing import Final

from clew.backends.postgres import sql
from clew.backends.postgres.connection import ServerConnection
from clew.errors import BackendError

OUR_VALUES: Final = ("store = (gen_random_uuid())::text", "bucket = (updated >> 26)")
"""Values that the server computes for columns."""
OUR_INDEXED: Final = ("md5(workspace)",)
"""Indexed expressions."""
OUR_CONDITIONS: Final = (
    "(blob IS NOT NULL)",
    "(deleted IS NOT NULL)",
    "(deleted IS NULL)",
    "((deleted IS NULL) AND (status > 1))",
    "((deleted IS NULL) AND (workspace IS NOT NULL))",
    "(due < '4611686018427387904'::bigint)",
    "(id IS NOT NULL)",
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
