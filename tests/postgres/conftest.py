"""The fixtures of tests/postgres_server.py, for every test of this folder."""

from __future__ import annotations

from tests.postgres_server import emptied_postgres, postgres_place, postgres_url, reused_schema

__all__ = ["emptied_postgres", "postgres_place", "postgres_url", "reused_schema"]
