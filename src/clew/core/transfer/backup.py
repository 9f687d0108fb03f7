"""A backup: the whole store at one moment, as one SQLite file."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar, cast

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.disk import resolve, sync_directory
from clew.core.engine.engine import Engine, EngineLike
from clew.core.log.grants import GRANTS
from clew.core.transfer.copy import Copying
from clew.core.work_folder import work_folder
from clew.errors import (
    BackendUnavailableError,
    ConflictError,
    CorruptError,
    InvalidError,
    ReadOnlyError,
)
from clew.model.transfer import BackupReport, OnCopyProgress

T = TypeVar("T")


def backup(
    engine: Engine,
    path: str | os.PathLike[str],
    *,
    overwrite: bool,
    on_progress: OnCopyProgress | None,
) -> BackupReport:
    final = resolve(_plain(path))
    _check(engine, final, overwrite=overwrite)
    try:
        with work_folder("backup", final.parent) as folder:
            made = folder / final.name
            missing = _write(engine, made, on_progress)
            if missing and final.exists():
                raise CorruptError(
                    f"{missing}: so the backup {final}, which is there, stays as it is. Name another path "
                    "for one without these sessions, or make a whole store by `clew repair`, and back that up"
                )
            sessions = _count(made)
            rename(made, final, overwrite=overwrite)
    except OSError as exc:
        raise BackendUnavailableError(f"cannot write the backup {final}: {exc}") from exc
    if missing:
        raise CorruptError(
            f"{missing}: its sessions are not in the backup {final}, which holds all others. `clew repair` "
            "makes a store of what is left of them"
        )
    return BackupReport(path=str(final), bytes=final.stat().st_size, sessions=sessions)


def _plain(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "://" in text:
        raise InvalidError(f"a backup is a file: name its path, not {path!r}")
    return text


def _check(engine: Engine, final: Path, *, overwrite: bool) -> None:
    from clew.backends.sqlite.connection import refuse_planted

    if str(final) == engine.backend.location:
        raise InvalidError(f"{final} is the store itself")
    if final.is_dir():
        raise InvalidError(f"{final} is a directory: name a file")
    if final.exists() and not overwrite:
        raise ConflictError(f"{final} exists: choose another path, or pass overwrite=True")
    refuse_planted(final)
    for end in ("-wal", "-journal"):
        log = final.with_name(final.name + end)
        if log.exists() and log.stat().st_size:
            # It would be taken for the log of the new file.
            raise ConflictError(f"{log} exists: a store at {final} is in use, or was not closed")


def _write(engine: Engine, made: Path, on_progress: OnCopyProgress | None) -> str:
    """What is not in it, and why; empty: all is."""
    from clew.backends.sqlite import SqliteBackend

    if isinstance(engine.backend, SqliteBackend):
        engine.backend.write_backup(made)
        _leave_out_grants(made)
        return ""
    with engine.backend.read_snapshot() as reader:
        source = cast("EngineLike", _Still(engine, reader))
        target = Engine(SqliteBackend(made, durability="process"))
        try:
            copying = Copying(source, target, on_progress=on_progress)
            copying.bring()
            return copying.stayed_behind
        finally:
            target.close()


def _leave_out_grants(made: Path) -> None:
    """No backup has the tokens and shares of a store: brought back, it would open for what was revoked since.
    All other ways out of a store take only what they name, and none names these."""
    from clew.backends.sqlite import SqliteBackend

    seen = SqliteBackend(made, read_only=True)
    try:
        with seen.read() as reader:
            found = [(kind, name) for kind in GRANTS for name, _ in reader.scan_records(STORE_WIDE, kind)]
    finally:
        seen.close()
    if not found:
        return
    opened = SqliteBackend(made, durability="process")
    try:
        with opened.write() as tx:
            for kind, name in found:
                tx.drop_record(STORE_WIDE, kind, name)
    finally:
        opened.close()


class _Still:
    """An engine to read from."""

    def __init__(self, engine: Engine, reader: Reader) -> None:
        self.backend = engine.backend
        self.host = engine.host
        self._reader = reader

    def read(self) -> AbstractContextManager[Reader]:
        return nullcontext(self._reader)

    def run(self, work: Callable[[Transaction], Any]) -> Any:
        raise ReadOnlyError(f"{self.backend.location} is only read here")


def _count(made: Path) -> int:
    """Open it as everybody would: what cannot be opened is no backup."""
    from clew.backends.sqlite import SqliteBackend

    opened = SqliteBackend(made, read_only=True)
    try:
        with opened.read() as reader:
            totals = reader.totals(0, log=False)
        return totals.sessions + totals.deleted
    finally:
        opened.close()


def rename(made: Path, final: Path, *, overwrite: bool) -> None:
    """Give a store that is closed its name, and make both durable."""
    log = made.with_name(made.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise BackendUnavailableError(f"cannot write {final}: its log was not merged; try again")
    handle = os.open(made, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    if overwrite:
        made.replace(final)
    else:
        try:
            os.link(made, final)  # fails if the file was made meanwhile; a rename would replace it
        except FileExistsError as exc:
            raise ConflictError(f"{final} exists: choose another path, or pass overwrite=True") from exc
        except OSError:  # a file system without links
            made.rename(final)
    sync_directory(final.parent)
