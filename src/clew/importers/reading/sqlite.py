"""The SQLite file of another program: read without a trace beside it, without running what is in it, and
without making its writer wait longer than any reader does.

How it is read depends on what lies beside it:

- A log (`-wal`) and the index of it (`-shm`): the program runs, or was killed. It is read as it is, by a
  connection that writes to none of the three files. Readers and writers of a log do not wait for each other,
  as long as nothing is checkpointed; nothing is. Only if it meets a writer that is just changing the head of
  the index, SQLite holds the right to write for some microseconds. A reader that stays long only makes the
  log grow, so transactions are short (`snapshot`).
- Nothing, or nothing but an empty log: it is at rest, or its writer uses no log. It is read without any lock,
  because a lock would make such a writer wait. If it changes meanwhile, it is read once more the next time.
- Something else, as a journal, or a log without its index: SQLite could only read it by writing to it. It is
  copied, and the copy is read.

Only tables are read. A view, a virtual table or a computed column is a program by the author of the file,
and may never end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from clew.core.disk import create_file, open_file
from clew.core.work_folder import work_folder
from clew.errors import InvalidUrlError
from clew.importers.contract import OnProblem, Problem
from clew.importers.reading.seen import doubt, note
from clew.importers.unpacking import Allowance, UnpackedTooMuchError, copy_file, stored_size, take_holes
from clew.model import Json

if TYPE_CHECKING:
    import apsw

_MAGIC: Final = b"SQLite format 3\0"
_LOGS: Final = ("-wal", "-journal")
_TRIES: Final = 5
_STARTS: Final = 200
"""So often a read is begun that met a writer in the middle of its commit,"""
_PAUSE: Final = 0.0005
"""after so many seconds."""
_OWN_WAIT: Final = 1000
"""Milliseconds that we wait, where we do: a program that just starts, or ends, locks all others out."""
_WAL_VERSIONS: Final = b"\x02\x02"
"""What a database says of itself that is written by a log."""
_TABLES: Final = (
    "SELECT name FROM pragma_table_list"
    " WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
)
_COMPUTED: Final = (
    "SELECT list.name FROM pragma_table_list AS list JOIN pragma_table_xinfo(list.name) AS field"
    " WHERE list.schema = 'main' AND list.type = 'table' AND field.hidden > 1"
)


def is_sqlite(beginning: bytes) -> bool:
    return beginning.startswith(_MAGIC)


def tables(path: Path) -> frozenset[str]:
    """The names of the tables; none when it is no database that can be read."""
    import apsw

    try:
        return _tables(path)
    except (apsw.Error, OSError):
        return frozenset()


def damage_of(path: Path) -> str | None:
    """Why the tables of a database cannot be told; None: they can."""
    import apsw

    try:
        _tables(path)
    except (apsw.Error, OSError) as exc:
        return f"{type(exc).__name__}: {exc}"
    return None


def _tables(path: Path) -> frozenset[str]:
    # Without its log first: a table is younger than the log in none but the newest files.
    with _untouched(path) as db:
        found = tables_in(db)
    if found or not _logs(path):
        return found
    with opened(path) as db:
        return tables_in(db)


def tables_in(db: apsw.Connection) -> frozenset[str]:
    """Those that can be read: they are tables, and hold what is in their rows."""
    authorizer, db.authorizer = db.authorizer, None
    try:
        computed = {name for (name,) in begun(db, _COMPUTED)}
        return frozenset(name for (name,) in begun(db, _TABLES) if name not in computed)
    finally:
        db.authorizer = authorizer


@contextmanager
def opened(path: Path) -> Iterator[apsw.Connection]:
    """A connection by which the tables of a database can be read, and nothing else be done."""
    for suffix in ("", *_LOGS):
        note(f"{path}{suffix}")
    with _as_it_lies(path) as db:
        db.row_trace = _counting(path)
        yield db


def _counting(path: Path) -> Callable[[object, tuple[Any, ...]], tuple[Any, ...]]:
    """What a connection calls for each row: rows that are read again and again are much out of little."""
    with open_file(path) as file:
        take_holes(file.fileno(), path)
        allowance = Allowance(
            path, stored_size(file.fileno()) + sum(log.stat().st_size for log in _logs(path))
        )

    def count(cursor: object, row: tuple[Any, ...]) -> tuple[Any, ...]:
        allowance.take(sum(len(value) for value in row if isinstance(value, str | bytes)))
        return row

    return count


@contextmanager
def _as_it_lies(path: Path) -> Iterator[apsw.Connection]:
    """By its log, or without a lock, or a copy: see above."""
    with ExitStack() as stack:
        db = _entered(stack, path)
        if db is not None:
            yield db
            return
    if not _logs(path):
        before = _stamps(path)
        with _untouched(path) as db:
            yield db
        if _stamps(path) != before:
            doubt()
        return
    import apsw

    with work_folder("import") as folder:
        copy = _copied(path, folder)
        with _connected(copy, apsw.SQLITE_OPEN_READWRITE) as db:
            yield db


@contextmanager
def snapshot(db: apsw.Connection) -> Iterator[None]:
    """What is read in the block is of one moment. Keep it short, and give nothing out of it: a program that
    writes meanwhile cannot shorten its log."""
    authorizer, db.authorizer = db.authorizer, None
    db.execute("BEGIN")
    db.authorizer = authorizer
    try:
        yield
    finally:
        db.authorizer = None
        db.execute("ROLLBACK")
        db.authorizer = authorizer


@contextmanager
def reporting(path: Path, on_problem: OnProblem) -> Iterator[None]:
    """What the driver says of a damaged file becomes a problem; what was read before it counts."""
    import apsw

    try:
        yield
    except UnpackedTooMuchError as exc:
        doubt()  # the next import may allow more
        on_problem(Problem(path=str(path), line=None, reason=str(exc)))
    except (apsw.Error, OSError) as exc:
        on_problem(Problem(path=str(path), line=None, reason=f"{type(exc).__name__}: {exc}"))


def rows(db: apsw.Connection, sql: str, values: tuple[str | int, ...] = ()) -> Iterator[dict[str, Json]]:
    """Rows by the names of their columns: programs add some in every version."""
    names: list[str] | None = None
    cursor = begun(db, sql, values)
    for row in cursor:
        if names is None:
            names = [column[0] for column in cursor.getdescription()]
        yield dict(zip(names, map(_json, row), strict=True))


def begun(db: apsw.Connection, sql: str, values: tuple[str | int, ...] = ()) -> apsw.Cursor:
    """A statement whose first row was read. A reader that may not write cannot mend the index of a log, and
    one that a writer is just changing looks damaged: it is looked at again."""
    import apsw

    cursor = db.cursor()
    for attempt in range(_STARTS):
        try:
            return cursor.execute(sql, values)
        except apsw.ReadOnlyError:
            if attempt == _STARTS - 1:
                raise
            time.sleep(_PAUSE)
    raise AssertionError("not reached")


def _json(value: object) -> Json:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _logs(path: Path) -> list[Path]:
    beside = [Path(f"{os.path.realpath(path)}{suffix}") for suffix in _LOGS]
    return [log for log in beside if log.is_file() and log.stat().st_size]


def _is_live(path: Path) -> bool:
    """Whether it lies there with a log and the index of it."""
    place = os.path.realpath(path)
    try:
        with open_file(Path(place)) as file:
            versions = file.read(20)[18:]
    except OSError:
        return False
    return versions == _WAL_VERSIONS and all(os.path.lexists(place + end) for end in ("-wal", "-shm"))


def _entered(stack: ExitStack, path: Path) -> apsw.Connection | None:
    """A connection to a database that is live; None: it is not, or was until a moment ago."""
    import apsw

    if not _is_live(path):
        return None
    _refuse_planted(Path(os.path.realpath(path)))
    try:
        return stack.enter_context(_live(path))
    except apsw.CantOpenError:
        if _is_live(path):
            raise
        return None  # its program ended meanwhile, and took log and index with it


@contextmanager
def _live(path: Path) -> Iterator[apsw.Connection]:
    import apsw

    # Without readonly_shm, SQLite would mend the index of the log, or make one. Without NO_CKPT_ON_CLOSE,
    # the last one to close a database brings its log to an end.
    address = f"file:{quote(os.path.realpath(path))}?mode=ro&readonly_shm=1"
    with _connected(address, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, is_live=True) as db:
        yield db


@contextmanager
def _untouched(path: Path) -> Iterator[apsw.Connection]:
    import apsw

    address = f"file:{quote(os.path.realpath(path))}?mode=ro&immutable=1"
    with _connected(address, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI) as db:
        yield db


@contextmanager
def _connected(address: str, flags: int, *, is_live: bool = False) -> Iterator[apsw.Connection]:
    import apsw

    from clew.backends.sqlite.schema import defend

    db = apsw.Connection(address, flags=flags)
    try:
        defend(db)
        if is_live:
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            db.set_busy_timeout(_OWN_WAIT)
            db.execute("PRAGMA query_only = ON")
        db.authorizer = _only_reading(tables_in(db))
        yield db
    finally:
        db.close()


def _only_reading(tables: frozenset[str]) -> Callable[..., int]:
    """An authorizer: SQLite asks it when it prepares a statement."""
    import apsw

    known = {name.lower() for name in tables}
    harmless = (apsw.SQLITE_SELECT, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE)

    def allow(action: int, what: str | None, *_: str | None) -> int:
        is_read = action == apsw.SQLITE_READ and what is not None and what.lower() in known
        return apsw.SQLITE_OK if is_read or action in harmless else apsw.SQLITE_DENY

    return allow


def _refuse_planted(path: Path) -> None:
    """SQLite removes a file that a journal names, even beside a copy."""
    from clew.backends.sqlite.connection import refuse_planted

    try:
        refuse_planted(path)
    except InvalidUrlError as exc:
        raise PermissionError(str(exc)) from exc


def _copied(path: Path, folder: Path) -> str:
    """A copy with its log, of one moment: taken again when the program wrote meanwhile."""
    path = Path(os.path.realpath(path))
    copy = folder / "copy.db"
    for _ in range(_TRIES):
        before = _stamps(path)
        _refuse_planted(path)
        for suffix in ("", *_LOGS):
            target = Path(f"{copy}{suffix}")
            target.unlink(missing_ok=True)
            if Path(f"{path}{suffix}").is_file():
                with open_file(f"{path}{suffix}") as source, open(create_file(target), "wb") as file:
                    copy_file(source, file, path)
        if _stamps(path) == before:
            return str(copy)
    doubt()  # the program never stopped writing
    return str(copy)


def _stamps(path: Path) -> list[tuple[int, int]]:
    stats = [Path(f"{path}{suffix}") for suffix in ("", *_LOGS)]
    return [(file.stat().st_mtime_ns, file.stat().st_size) for file in stats if file.is_file()]
