"""The fixtures of tests/postgres_server.py and of object_server.py, for every test of this folder."""

from __future__ import annotations

from tests.postgres.object_server import bucket, object_server
from tests.postgres_server import emptied_postgres, postgres_place, postgres_url, reused_schema

__all__ = [
    "bucket", "emptied_postgres", "object_server", "postgres_place", "postgres_url", "reused_schema",
]  # fmt: skip
