"""PostgreSQL: one database for any number of processes and machines."""

from clew.errors import BackendUnavailableError

try:
    import psycopg as psycopg
except ModuleNotFoundError as exc:
    raise BackendUnavailableError(
        "PostgreSQL stores need a driver that is not installed; pip install 'psycopg[binary]>=3.2'"
    ) from exc

from clew.backends.postgres.backend import PostgresBackend as PostgresBackend
