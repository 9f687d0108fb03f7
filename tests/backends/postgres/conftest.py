"""An S3 server beside PostgreSQL, for every test of this folder."""

from __future__ import annotations

from tests.backends.postgres.servers.object_server import bucket, object_server

__all__ = ["bucket", "object_server"]
