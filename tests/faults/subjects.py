"""What is under test: a backend, the directory with everything that it keeps, and how it is opened."""

from __future__ import annotations

from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final

import clew
from tests.support.waiting import until

WORKING: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND application_name = %s"""


class Subject:
    """A backend that keeps its files in a directory. Subclass it for yours: `name`, `url`, and `check` if
    the storage below can tell whether it is sound."""

    name: ClassVar[str]
    """For reports."""
    forgets: ClassVar[tuple[str, ...]] = ()
    """Ends of the names of files that hold nothing once no process has the store open."""

    appended: ClassVar[tuple[str, ...]] = ()
    """Ends of the names of files that only grow: a crash may tear their tails."""
    is_sealed: ClassVar[bool] = True
    """All that is kept has a checksum. False: entries have, and what is beside them has not."""

    def __init__(self, place: Path | str) -> None:
        self.place = Path(place)
        """The directory; nothing else is in it."""

    @property
    def url(self) -> str:
        """The address of the store in `place`."""
        raise NotImplementedError

    def open(self, **options: Any) -> clew.Store:
        return clew.open(self.url, **options)

    def at(self, place: Path) -> Subject:
        """The same backend in another directory."""
        return type(self)(place)

    def files(self) -> list[Path]:
        """All that is kept, in a fixed order."""
        found = (path for path in sorted(self.place.rglob("*")) if path.is_file())
        return [path for path in found if not path.name.endswith(self.forgets or ("\0",))]

    def settle(self) -> None:
        """Wait until nothing that a killed process asked for can still be done."""

    def costs(self, path: Path, session: str) -> bool:
        """Whether a session of `steps.prepare` may be lost with a file: one that begins with the name of
        another goes on from that."""
        return True

    def holds(self, path: Path) -> bool:
        """Whether a file is kept for what is in it: one that cannot be read must be found by a full look."""
        return True

    def check(self) -> list[str]:
        """What the storage below says is wrong with itself, while nobody has it open."""
        return []


class SqliteSubject(Subject):
    """One file, its log beside it."""

    name = "sqlite"
    forgets = ("-shm",)
    appended = ("-wal",)
    is_sealed = False

    @property
    def url(self) -> str:
        return f"sqlite:///{self.place}/db/a.db"

    def check(self) -> list[str]:
        import apsw

        connection = apsw.Connection(f"{self.place}/db/a.db")
        try:
            said = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
        except apsw.Error as error:
            said = [repr(error)]
        finally:
            connection.close()
        return [] if said == ["ok"] else said


class JsonlSubject(Subject):
    """A directory of append-only files."""

    name = "jsonl"
    forgets = ("-shm",)
    appended = (".jsonl",)

    def holds(self, path: Path) -> bool:
        return path.name == "store.jsonl" or path.parent.name in ("sessions", "packs")

    def costs(self, path: Path, session: str) -> bool:
        return path.parent.name != "sessions" or f"{session}-".startswith(f"{path.stem}-")

    @property
    def url(self) -> str:
        return f"jsonl:///{self.place}/store"


class PostgresSubject(Subject):
    """A schema in a database. A file `server`, in the place or above it, holds the address of that; nothing
    else is there. For the faults of processes: files are the server's."""

    name = "postgresql"

    @property
    def url(self) -> str:
        return f"{self._server()}?schema={self._schema}&application_name={self._schema}"

    @property
    def _schema(self) -> str:
        return f"clew_{blake2b(bytes(self.place), digest_size=8).hexdigest()}"

    def _server(self) -> str:
        above = (self.place, *self.place.parents)
        return next(path for place in above if (path := place / "server").is_file()).read_text()

    def settle(self) -> None:
        """A server finishes the statement that it has, also when the client is dead. Those of others, which
        use the same database, do not count: they are known by their name."""
        import psycopg

        with psycopg.connect(self._server(), autocommit=True) as connection:
            until(lambda: connection.execute(WORKING, [self._schema]).fetchone() == (0,))


SUBJECTS: Final[dict[str, type[Subject]]] = {each.name: each for each in (SqliteSubject, JsonlSubject)}


def available() -> list[str]:
    """Those of Clew's own subjects that keep files and whose backends are installed here."""
    from clew.backends.registry import SCHEMES

    return [name for name in SUBJECTS if name in SCHEMES]


def address_of(subject: Subject) -> list[str]:
    """What another process needs to make the same subject: `subject_at` takes it."""
    kind = type(subject)
    return [kind.__module__, kind.__qualname__, str(subject.place)]


def subject_at(address: list[str]) -> Subject:
    module, name, place = address
    kind: type[Subject] = getattr(import_module(module), name)
    return kind(place)
