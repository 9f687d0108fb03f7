"""The state machine of clew.testing on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from clew.backends.contract import Backend
from clew.backends.postgres import PostgresBackend
from clew.backends.postgres.migrate import TABLES
from clew.testing.machine import make_machine
from tests.backends.postgres.servers.clock import Timed
from tests.support.effort import usually

pytestmark = pytest.mark.timeout(900)

EXAMPLES = settings().max_examples
_place: list[tuple[str, str]] = []


@pytest.fixture(scope="module", autouse=True)
def place(postgres_url: str, reused_schema: str) -> Iterator[None]:
    """Examples are made without fixtures: where they find the server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clew.core.engine.engine.Host", Timed)
        _place.append((postgres_url, reused_schema))
        yield
        _place.clear()
        _empty(postgres_url, reused_schema)


def _empty(url: str, schema: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(";".join(f'DELETE FROM "{schema}".{table}' for table in TABLES).encode())


def new_store() -> PostgresBackend:
    ((url, schema),) = _place
    _empty(url, schema)
    return PostgresBackend(url, schema=schema)


def reopened(backend: Backend) -> PostgresBackend:
    ((url, schema),) = _place
    backend.close()
    return PostgresBackend(url, schema=schema)


TestPostgres = make_machine(new_store, reopen=reopened)
TestPostgres.settings = settings(  # type: ignore[attr-defined]
    max_examples=EXAMPLES // usually(16, thorough=8),
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
)
