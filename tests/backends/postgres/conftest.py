"""The fixtures of servers/, for every test of this folder."""

from __future__ import annotations

from tests.backends.postgres.servers.cluster import (
    emptied_postgres,
    postgres_place,
    postgres_url,
    reused_schema,
)
from tests.backends.postgres.servers.object_server import bucket, object_server

__all__ = [
    "bucket", "emptied_postgres", "object_server", "postgres_place", "postgres_url", "reused_schema",
]  # fmt: skip
