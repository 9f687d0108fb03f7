"""Export and import: a store's sessions as files, and files as sessions of a store.

Each format is a module beyond the public objects, found by its name here. It uses only what they offer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from clew.errors import InvalidError

if TYPE_CHECKING:
    from clew.model.porting import ExportFormat, ImportFormat, ImportReport
    from clew.store import Store

_EXPORTERS: Final = {"jsonl": "clew.exporters.jsonl"}
_IMPORTERS: Final = {"jsonl": "clew.importers.jsonl"}


class Exporter(Protocol):
    """A module of clew.exporters."""

    def pieces(self, store: Store, id: str) -> Iterator[bytes]:
        """The file, piece by piece."""


class Importer(Protocol):
    """A module of clew.importers."""

    def recognises(self, path: Path) -> bool:
        """Whether a file is of this format, by its content."""

    def bring(self, store: Store, path: Path, *, dry_run: bool, rename: bool) -> ImportReport: ...


class Porting:
    """What `Store` can do with files of sessions."""

    def export(self, id: str, format: ExportFormat, *, path: str | os.PathLike[str] | None = None) -> str:
        """A session as a file: its text, or, with a path, where it was written to.

        Args:
            id: The session, by id or alias.
            format: "jsonl": all of it, as `import_path` and JSONL stores take it (docs/reference/format.md).
            path: The file. It appears when it is whole and durable, readable by its owner only; one that
                is there is replaced.
        """
        pieces = _exporter(format).pieces(cast("Store", self), id)
        if path is None:
            return b"".join(pieces).decode()
        return _write_whole(Path(os.path.realpath(path)), pieces)

    def import_path(
        self,
        path: str | os.PathLike[str],
        format: ImportFormat | None = None,
        *,
        dry_run: bool = False,
        rename: bool = False,
    ) -> ImportReport:
        """Bring the sessions of a file into this store. The file is only read; the same one again adds
        nothing, one that has grown adds what is new.

        Args:
            path: The file.
            format: What it is; None: its content tells.
            dry_run: Only say what would be brought. Writes nothing.
            rename: Give a session a new id if the store has another one of that id; else ConflictError.
        """
        place = Path(os.path.realpath(path))
        if not place.is_file():
            raise InvalidError(f"there is no file {place}")
        importer = _importer(format, place)
        return importer.bring(cast("Store", self), place, dry_run=dry_run, rename=rename)


def _exporter(format: str) -> Exporter:
    if format not in _EXPORTERS:
        raise InvalidError(f"no export to {format!r}; there is {', '.join(_EXPORTERS)}")
    return cast("Exporter", import_module(_EXPORTERS[format]))


def _importer(format: str | None, path: Path) -> Importer:
    if format is not None and format not in _IMPORTERS:
        raise InvalidError(f"no import of {format!r}; there is {', '.join(_IMPORTERS)}")
    for name in _IMPORTERS if format is None else [format]:
        importer = cast("Importer", import_module(_IMPORTERS[name]))
        if format is not None or importer.recognises(path):
            return importer
    raise InvalidError(f"{path} is of no format that can be imported ({', '.join(_IMPORTERS)})")


def _write_whole(target: Path, pieces: Iterator[bytes]) -> str:
    beside = target.with_name(f"{target.name}.{os.getpid()}.{os.urandom(4).hex()}.new")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return str(target)
