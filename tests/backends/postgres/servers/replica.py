"""A second server that follows the first, and can take its place."""

from __future__ import annotations

import psycopg

from tests.backends.postgres.servers.cluster import Cluster


class Replica(Cluster):
    """A hot standby, made from a running server."""

    def __init__(self, primary: Cluster) -> None:
        self._primary = primary
        super().__init__()

    def _make_data(self) -> None:
        self._call("pg_basebackup", "-h", "127.0.0.1", "-p", str(self._primary.port), "-U", "clew",
                   "-D", str(self.data), "-R", "-X", "stream", "-c", "fast", "--no-sync")  # fmt: skip

    def promote(self) -> None:
        self._call("pg_ctl", "promote", "-w", "-D", str(self.data))

    def leave(self) -> None:
        """Follow no more: what the other server commits from now on, it has alone."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            connection.execute("SELECT pg_reload_conf()")
            while connection.execute("SELECT count(*) FROM pg_stat_wal_receiver").fetchone() != (0,):
                pass


def wait_for_each_other(primary: Cluster, *, on: bool) -> None:
    """Whether a commit returns only when the replica has it."""
    with psycopg.connect(primary.url, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{'*' if on else ''}'".encode())
        connection.execute("SELECT pg_reload_conf()")
        wanted = "sync" if on else "async"
        while connection.execute("SELECT sync_state FROM pg_stat_replication").fetchone() != (wanted,):
            pass
