"""pgbouncer in transaction mode, with three sessions of the server for everybody."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.backends.postgres.servers.cluster import free_port
from tests.support.waiting import until

PROGRAM = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"


@contextmanager
def pooler(address: str) -> Iterator[str]:
    """The address of the same store through a pgbouncer. It comes to the server as the user clew."""
    home = Path(tempfile.mkdtemp(prefix="clew-pgbouncer-"))
    port = free_port()
    server = urlsplit(address)
    (home / "users").write_text('"clew" ""\n')
    (home / "ini").write_text(
        f"""[databases]
* = host={server.hostname} port={server.port} user=clew
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {home}/users
pool_mode = transaction
default_pool_size = 3
server_round_robin = 1
"""
    )
    who: dict[str, int] = {}
    if os.geteuid() == 0:
        entry = pwd.getpwnam("nobody")
        who = {"user": entry.pw_uid, "group": entry.pw_gid}
        for path in (home, home / "users", home / "ini"):
            os.chown(path, entry.pw_uid, entry.pw_gid)
    process = subprocess.Popen(
        [PROGRAM, "-q", str(home / "ini")], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **who
    )  # type: ignore[call-overload]
    url = address.replace(f":{server.port}/", f":{port}/")
    try:
        until(lambda: _answers(url, process))
        yield url
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(home)


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    try:
        psycopg.connect(url.partition("?")[0]).close()
    except psycopg.OperationalError:
        assert process.poll() is None, "pgbouncer did not start"
        return False
    return True
