"""Export and import: a store's sessions as files, and files as sessions of a store.

Each format is a module beyond the public objects, found by its name here. It uses only what they offer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from clew.errors import InvalidError

if TYPE_CHECKING:
    from clew.model.source import Loaded, SourceSession
    from clew.model.transfer import ExportFormat, ImportFormat, ImportReport, OnImportProgress
    from clew.store import Store

_EXPORTERS: Final = {
    "jsonl": "clew.exporters.jsonl",
    "json": "clew.exporters.json",
    "markdown": "clew.exporters.markdown",
    "html": "clew.exporters.html",
    "picoclaw": "clew.exporters.programs.picoclaw",
    "ggcode": "clew.exporters.programs.ggcode",
    "tingly": "clew.exporters.programs.tingly_box",
    "ductwork": "clew.exporters.programs.ductwork",
}
_APPEARING: Final = "clew.exporters.file"
_LANDING: Final = "clew.importers.run"


class Exporter(Protocol):
    """A module of clew.exporters. It has one of these functions or both; the options are its own: all their
    arguments that have names only."""

    def pieces(self, store: Store, id: str, **options: Any) -> Iterator[bytes]:
        """The file, piece by piece. Without it: the file is no text, and must have a path."""

    def write_file(self, store: Store, id: str, target: Path, **options: Any) -> None:
        """Write the file, with whatever stands beside it. Without it: the pieces are all."""


class Porting:
    """What `Store` can do with files of sessions."""

    def export(
        self, id: str, format: ExportFormat, *, path: str | os.PathLike[str] | None = None, **options: Any
    ) -> str:
        """A session as a file: its text, or, with a path, where it was written to.

        Args:
            id: The session, by id or alias.
            format: "jsonl": all of it, as `import_path` and JSONL stores take it (docs/reference/format.md).
                "json", "markdown", "html": for programs and people to read. "picoclaw", "ggcode",
                "tingly", "ductwork": as these agents keep it.
            path: The file. It appears when it is whole and durable, readable by its owner only; one that
                is there is replaced, and so is a link: what it leads to stays as it is. "tingly" is an
                SQLite file and needs a path; "picoclaw" puts its `.meta.json` beside it.
            options: `redact` (without secrets: True, or a `clew.exporters.redact.Redactor` that reports);
                `whole` (all branches, not only the path; not for jsonl, which always has all); `tools` and
                `thinking` (False leaves them out; for markdown and html).
        """
        exporter = _exporter(format)
        _check_options(exporter, format, options)
        store = cast("Store", self)
        if path is None:
            if not hasattr(exporter, "pieces"):
                raise InvalidError(f"an export to {format} is no text but a file: say where with path=")
            return b"".join(exporter.pieces(store, id, **options)).decode()
        appearing = import_module(_APPEARING)
        target = appearing.place_of(path)
        if hasattr(exporter, "write_file"):
            exporter.write_file(store, id, target, **options)
        else:
            appearing.write_whole(target, exporter.pieces(store, id, **options))
        return str(target)

    def import_path(
        self,
        path: str | os.PathLike[str],
        format: ImportFormat | None = None,
        *,
        dry_run: bool = False,
        rename: bool = False,
        strict: bool = False,
        on_progress: OnImportProgress | None = None,
    ) -> ImportReport:
        """Bring the sessions of a file, or of all files in a directory, into this store. Files are only
        read; the same one again adds nothing, one that has grown adds what is new.

        Args:
            path: The file, or the directory.
            format: What it is, such as "claude-code"; None: its content tells.
            dry_run: Only say what would be brought. Writes nothing.
            rename: Give a session a new id if the store has another one of that id; else ConflictError.
            strict: Import nothing if anything can not be read: InvalidError. Else the report lists it, and
                files of which nothing came are its `left_out`.
            on_progress: Told how far it is.
        """
        cast("Store", self)._scope.outside("Store.import_path()")
        landing = import_module(_LANDING)
        report: ImportReport = landing.import_path(
            lambda **_: cast("Store", self),
            path,
            format,
            dry_run=dry_run,
            rename=rename,
            strict=strict,
            on_progress=on_progress,
        )
        return report

    def load(
        self,
        source: SourceSession,
        *,
        dry_run: bool = False,
        rename: bool = False,
        on_refused: Callable[[str, InvalidError], None] | None = None,
    ) -> Loaded:
        """Bring one session of another program into this store: once, and the next time what is new.

        Its entries keep their own times, and go behind the parents that they name; the head is where the
        source says, unless it was moved here since. There is nothing to undo. A model call of which the
        source does not tell the cost is estimated by the price list, as in `add_usage`, at its own time.

        Args:
            source: As `clew.importers.contract` describes it.
            dry_run: Only say what would be brought. Writes nothing.
            rename: Give it a new id if the store has another session of its id; else ConflictError.
            on_refused: Told of entries that can not be kept, and why; without it the first one raises.
        """
        from clew.core.load.load import load

        engine = cast("Store", self)._scope.outside("Store.load()")
        return load(engine, source, dry_run=dry_run, rename=rename, on_refused=on_refused or _refuse)


def _refuse(uid: str, error: InvalidError) -> None:
    raise error


def _exporter(format: str) -> Exporter:
    if format not in _EXPORTERS:
        raise InvalidError(f"no export to {format!r}; there is {', '.join(_EXPORTERS)}")
    try:
        return cast("Exporter", import_module(_EXPORTERS[format]))
    except ModuleNotFoundError as exc:
        raise InvalidError(
            f"an export to {format} needs the package {exc.name}: pip install 'clew[export]'"
        ) from exc


def _check_options(exporter: Exporter, format: str, options: dict[str, Any]) -> None:
    if not options:
        return
    from inspect import Parameter, signature  # slow to import

    function = exporter.pieces if hasattr(exporter, "pieces") else exporter.write_file
    parameters = signature(function).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            there_is = ", ".join(known) or "none"
            raise InvalidError(f"an export to {format} has no option {name!r}; there is {there_is}")
