"""From a store to files of other programs, and to our own format.

Each format is a module of its own, found by its name here. It uses only what `Store` and `Session` offer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from clew.errors import InvalidError

if TYPE_CHECKING:
    from clew.model.transfer import ExportFormat
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


class Exporter(Protocol):
    """A module of clew.exporters. It has one of these functions or both; the options are its own: all their
    arguments that have names only."""

    def pieces(self, store: Store, id: str, **options: Any) -> Iterator[bytes]:
        """The file, piece by piece. Without it: the file is no text, and must have a path."""

    def write_file(self, store: Store, id: str, target: Path, **options: Any) -> None:
        """Write the file, with whatever stands beside it. Without it: the pieces are all."""


def export(
    store: Store,
    id: str,
    format: ExportFormat,
    path: str | os.PathLike[str] | None,
    options: dict[str, Any],
) -> str:
    """A session as a file: its text, or, with a path, where it was written to."""
    exporter = _exporter(format)
    _check_options(exporter, format, options)
    if path is None:
        if not hasattr(exporter, "pieces"):
            raise InvalidError(f"an export to {format} is no text but a file: say where with path=")
        return b"".join(exporter.pieces(store, id, **options)).decode()
    from clew.exporters.file import place_of, write_whole

    target = place_of(path)
    if hasattr(exporter, "write_file"):
        exporter.write_file(store, id, target, **options)
    else:
        write_whole(target, exporter.pieces(store, id, **options))
    return str(target)


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
