"""A new store that appears whole, or not at all.

One in files is written into a hidden folder beside its place, and gets its name when it is done; what a
killed process left there goes with the next one. One in PostgreSQL has its place from the beginning: a record
in it says that it is not done, and until that is gone nobody opens it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from clew.backends.contract import STORE_WIDE, Backend, RecordKind
from clew.backends.registry import OF_FILES, backend_of, masked, parse
from clew.core.disk import make_directories, resolve, sync_directory
from clew.core.engine.engine import Engine
from clew.core.transfer.backup import rename
from clew.core.work_folder import work_folder
from clew.errors import BackendUnavailableError, ConflictError, CorruptError, InvalidError

_UNFINISHED: Final[tuple[RecordKind, str]] = ("copy", "unfinished")
"""The kind and the name of the record in a store that is not done yet."""


class NewStore(NamedTuple):
    """Where to write, and where it will be."""

    engine: Engine
    location: str


@contextmanager
def new_store(address: str | os.PathLike[str], source: Engine) -> Iterator[NewStore]:
    """Yield a store to write to; it is there for others when the block ends well.

    Raises:
        ConflictError: There is something already.
        InvalidError: It is the source itself.
    """
    scheme, path, options = parse(address)
    if scheme in OF_FILES:
        with _in_files(scheme, resolve(path), options, source) as made:
            yield made
    elif scheme in ("http", "https"):
        raise InvalidError(
            "a repair writes a store in files, or in PostgreSQL; clew copy brings that to a server, and goes "
            "on where it was cut off"
        )
    else:
        with closing(Engine(backend_of(scheme, path, options))) as engine:
            if engine.location == source.location != "memory:":
                raise _itself(engine.location)
            _mark(engine)
            yield NewStore(engine, engine.location)
            engine.run(lambda tx: tx.drop_record(STORE_WIDE, *_UNFINISHED))


def refuse_unfinished(backend: Backend) -> None:
    """CorruptError: the store is one that a killed process began to write; it is closed."""
    with backend.read() as reader:
        record = reader.get_record(STORE_WIDE, *_UNFINISHED)
    if record is not None:
        backend.close()
        raise CorruptError(
            f"{backend.location} is not whole: the repair that wrote it was cut off; run clew repair --to it "
            "again, which goes on, or remove its tables"
        )


@contextmanager
def _in_files(scheme: str, final: Path, options: dict[str, Any], source: Engine) -> Iterator[NewStore]:
    if str(final) == source.location:
        raise _itself(source.location)
    _refuse_used(final)
    try:
        make_directories(final.parent)
        with work_folder("repair", final.parent) as folder:
            made = folder / final.name
            with closing(Engine(backend_of(scheme, str(made), options))) as engine:
                yield NewStore(engine, str(final))
            _refuse_used(final)
            if made.is_dir():
                made.rename(final)
                sync_directory(final.parent)
            else:
                rename(made, final, overwrite=False)
    except OSError as exc:
        raise BackendUnavailableError(f"cannot write the store {final}: {exc}") from exc


def _refuse_used(final: Path) -> None:
    """A log that lies beside a new file would be taken for its own."""
    logs = [final.with_name(final.name + end) for end in ("-wal", "-journal")]
    for place in (final, *logs):
        is_empty = place.is_dir() and not any(place.iterdir())
        if os.path.lexists(place) and not is_empty:
            raise ConflictError(f"{place} exists: this writes a new store; name another place for it")


def _mark(engine: Engine) -> None:
    """Say that the store is not whole yet; one that is marked already is gone on with."""
    with engine.read() as reader:
        totals = reader.totals(0)
        used = totals.sessions or totals.deleted or totals.entries or reader.list_packs(0, 1)
        is_marked = reader.get_record(STORE_WIDE, *_UNFINISHED) is not None
    if used and not is_marked:
        raise ConflictError(f"{engine.location} is in use: this writes a new store")
    engine.run(lambda tx: tx.put_record(STORE_WIDE, *_UNFINISHED, b"{}"))


def _itself(location: str) -> InvalidError:
    return InvalidError(f"{masked(location)} cannot be repaired into itself")
