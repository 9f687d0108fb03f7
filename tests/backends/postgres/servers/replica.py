"""A second server that follows the first, and can take its place."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import psycopg

from tests.backends.postgres.servers.cluster import SETTINGS, Cluster, _demotion, find_programs, free_port


class Replica(Cluster):
    """A hot standby, made from a running server."""

    def __init__(self, primary: Cluster) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="clew-pg-"))
        self.data = self.home / "data"
        self.port = free_port()
        self._as = _demotion()
        self._programs = find_programs()
        self._settings = dict(SETTINGS)
        self._server = None
        if self._as:
            os.chown(self.home, self._as["user"], self._as["group"])
        self._run("pg_basebackup", "-h", "127.0.0.1", "-p", str(primary.port), "-U", "clew",
                  "-D", str(self.data), "-R", "-X", "stream", "-c", "fast", "--no-sync")  # fmt: skip

    def promote(self) -> None:
        self._run("pg_ctl", "promote", "-w", "-D", str(self.data))

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
