"""A store of today, and a Clew of tomorrow whose schema has one migration more."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

import clew
from clew.backends.sqlite import connection, schema
from tests.faults.crash.common import message

STEP = """
ALTER TABLE sessions ADD COLUMN colour TEXT;
UPDATE sessions SET colour = 'blue';
CREATE TABLE palette (name TEXT PRIMARY KEY, value BLOB) STRICT;
INSERT INTO palette SELECT id, randomblob(3000) FROM sessions;
CREATE INDEX sessions_colour ON sessions (colour);
"""
TEXTS = {"a": ["one", "two", "x" * 20_000], "f": ["one", "two", "x" * 20_000, "forked"]}
"""What the sessions say that are not in the trash."""


def store_of_today(path: Path) -> None:
    """Three sessions, a fork, a rewind, a checkpoint, a key, a variable, an alias, an event, a call, a body
    that is compressed; one session is in the trash."""
    with clew.open(path) as store:
        a = store.create("a", title="First", workspace="/w", tags=["t"], metadata={"k": 1})
        a.add_alias("alias")
        a.set_var("v", [1])
        a.append(message("one"), {"role": "assistant", "content": "two"})
        a.append(message("x" * 20_000), key="k")
        a.checkpoint("c")
        a.add_event("kept", {})
        a.add_usage(model="m", input_tokens=3)
        a.fork("f").append(message("forked"))
        a.append(message("four"))
        a.rewind("c")
        store.create("gone").append(message("trashed"))
        store.delete("gone")


def plan_step(directory: Path, patch: Any = None) -> int:
    """Give this process, or as long as `patch` holds, one migration more; the number of its schema."""
    step = directory / "colour.sql"
    step.write_text(STEP)
    next_version = schema.newest() + 1
    steps = {**schema.MIGRATIONS, next_version: str(step)}
    for module in (schema, connection):
        if patch is None:
            module.MIGRATIONS = steps  # type: ignore[attr-defined]
        else:
            patch.setattr(module, "MIGRATIONS", steps)
    return next_version


def version_of(path: Path) -> int:
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as database:
        return int(database.execute("PRAGMA user_version").get)
