"""Code that somebody has planted among the tables of a store.

A view in the place of a table, a trigger, a rule, a policy, a default: all of them run with the rights of
whoever reads or writes, not with those of who made them. Before anything is asked of the tables of a store,
the catalog of the server is asked what they are. What we have not made ourselves is refused, unless who made
it could do the same without us: a superuser, and the role that opens the store.
"""

from __future__ import annotations

from typing import Final

from clew.backends.postgres.connection import ServerConnection
from clew.backends.postgres.sql import Schema
from clew.errors import BackendError

OUR_VALUES: Final = ("store = (gen_random_uuid())::text", "bucket = (updated >> 26)")
"""What the server puts into columns by itself."""
OUR_INDEXED: Final = ("md5(workspace)",)
"""What is indexed, and is no column."""
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
"""Of indexes that do not hold every row."""
_PLAINLY: Final = (
    "SELECT set_config('bytea_output', 'hex', true), set_config('quote_all_identifiers', 'off', true),"
    " set_config('standard_conforming_strings', 'on', true)"
)
"""How the server writes down expressions. It names the schema of all that is not its own."""

# Whoever owns a table, and else only a superuser, can give it rules, policies, constraints, defaults and
# indexes. Triggers can also be given by those who were granted it. Operator classes are made by superusers.
_PLANTED: Final = """
WITH RECURSIVE trusted AS (
  SELECT oid FROM pg_roles WHERE rolsuper OR rolname = current_user
), tables AS (
  SELECT pg_class.oid FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
  WHERE nspname = $1 AND relname = ANY ($2::text[])
  UNION
  SELECT inhrelid FROM pg_inherits JOIN tables ON inhparent = tables.oid
), others AS (
  SELECT oid, relname::text AS name, relkind, relowner, relrowsecurity FROM pg_class
  WHERE oid IN (SELECT oid FROM tables) AND relowner NOT IN (SELECT oid FROM trusted)
), planted AS (
  SELECT 1 AS rank, 'the view or foreign table' AS what, name, relowner AS owner FROM others
  WHERE relkind NOT IN ('r', 'p')
  UNION ALL
  SELECT 2, 'the trigger ' || quote_ident(tgname), relname::text, proowner FROM pg_trigger
  JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_proc ON pg_proc.oid = tgfoid
  WHERE tgrelid IN (SELECT oid FROM tables) AND NOT tgisinternal AND tgenabled <> 'D'
    AND proowner NOT IN (SELECT oid FROM trusted)
  UNION ALL
  SELECT 3, 'the rule ' || quote_ident(rulename), name, relowner FROM pg_rewrite
  JOIN others ON others.oid = ev_class WHERE ev_enabled <> 'D'
  UNION ALL
  SELECT 4, 'the policy ' || quote_ident(polname), name, relowner FROM pg_policy
  JOIN others ON others.oid = polrelid WHERE relrowsecurity
  UNION ALL
  SELECT 5, 'the value of the column ' || quote_ident(attname), name, relowner FROM pg_attrdef
  JOIN others ON others.oid = adrelid
  JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
  WHERE attname || ' = ' || pg_get_expr(adbin, adrelid) <> ALL ($3::text[])
  UNION ALL
  SELECT 6, 'the type of the column ' || quote_ident(attname), name, relowner FROM pg_attribute
  JOIN others ON others.oid = attrelid JOIN pg_type ON pg_type.oid = atttypid
  WHERE attnum > 0 AND NOT attisdropped
    AND (typnamespace <> 'pg_catalog'::regnamespace OR typtype <> 'b')
  UNION ALL
  SELECT 7, 'the constraint ' || quote_ident(conname), name, relowner FROM pg_constraint
  JOIN others ON others.oid = conrelid WHERE contype NOT IN ('p', 'n')
  UNION ALL
  SELECT 8, 'the index ' || quote_ident(relname), name, others.relowner FROM pg_index
  JOIN others ON others.oid = indrelid JOIN pg_class ON pg_class.oid = indexrelid
  WHERE pg_get_expr(indexprs, indrelid) <> ALL ($4::text[])
    OR pg_get_expr(indpred, indrelid) <> ALL ($5::text[])
  UNION ALL
  SELECT 9, 'the expression by which it is spread', name, relowner FROM pg_partitioned_table
  JOIN others ON others.oid = partrelid WHERE partexprs IS NOT NULL
)
SELECT what, name, rolname::text FROM planted LEFT JOIN pg_roles ON pg_roles.oid = owner
ORDER BY rank, name, what LIMIT 1
"""


def refuse_planted(line: ServerConnection, schema: Schema, tables: list[str], location: str) -> None:
    """BackendError if code of somebody else would run with our rights. Nothing of it is run to find out."""
    given = (schema.name, tables, list(OUR_VALUES), list(OUR_INDEXED), list(OUR_CONDITIONS))
    found = line.ask(_PLANTED, given, after=[(_PLAINLY, ())])
    for what, table, owner in found:
        raise BackendError(
            f"{location}: {what} of {schema.quoted}.{table} is not of Clew, and would run code of the role"
            f" {owner!r} with the rights of whoever opens this store; nothing was read or written."
            f" Drop it, or open the store as the role that made it"
        )
