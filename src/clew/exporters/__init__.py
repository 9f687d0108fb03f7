"""From a store to files: for people, for other programs, and in Clew's own format.

To add a format: a module with `pieces` or `write_file`, and its line in `EXPORTERS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from clew.errors import InvalidError

if TYPE_CHECKING:
    from clew.store import Store


class Format(NamedTuple):
    module: str
    is_text: bool = True
    """It has `pieces`. Without them the file must have a path."""
    writes_files: bool = False
    """It has `write_file`. Without it the pieces are the whole file."""


EXPORTERS: Final = {
    "jsonl": Format("jsonl"),
    "json": Format("json"),
    "markdown": Format("markdown"),
    "html": Format("html"),
    "claude-code": Format("programs.claude_code"),
    "codex": Format("programs.codex"),
    "pi": Format("programs.pi"),
    "picoclaw": Format("programs.picoclaw", writes_files=True),
    "ggcode": Format("programs.ggcode"),
    "tingly-box": Format("programs.tingly_box", is_text=False, writes_files=True),
    "ductwork": Format("programs.ductwork"),
    "openrouter": Format("programs.openrouter"),
    "gemini-cli": Format("programs.gemini_cli"),
    "opencode": Format("programs.opencode"),
}


class Exporter(Protocol):
    """A module of this package. Its options are the keyword-only arguments of these functions."""

    def pieces(self, store: Store, id: str, **options: Any) -> Iterator[bytes]:
        """The file, piece by piece."""

    def write_file(self, store: Store, id: str, target: Path, **options: Any) -> None:
        """Write the file, and the files that belong beside it."""


def export(
    store: Store, id: str, format: str, path: str | os.PathLike[str] | None, options: dict[str, Any]
) -> str:
    """The text of a session's file; with a path: the path that it was written to."""
    if path is None:
        return b"".join(pieces(store, id, format, options)).decode()
    known, exporter = _checked(format, options)
    from clew.exporters.file import place_of, write_whole

    target = place_of(path)
    if known.writes_files:
        exporter.write_file(store, id, target, **options)
    else:
        write_whole(target, exporter.pieces(store, id, **options))
    return str(target)


def pieces(store: Store, id: str, format: str, options: dict[str, Any]) -> Iterator[bytes]:
    """The same, piece by piece."""
    known, exporter = _checked(format, options)
    if not known.is_text:
        raise InvalidError(f"an export to {format} is no text but a file: say where with path=")
    return exporter.pieces(store, id, **options)


def _checked(format: str, options: dict[str, Any]) -> tuple[Format, Exporter]:
    if format not in EXPORTERS:
        raise InvalidError(f"no export to {format!r}; there is {', '.join(EXPORTERS)}")
    known = EXPORTERS[format]
    exporter = cast("Exporter", import_module(f"{__name__}.{known.module}"))
    _check_options(exporter.pieces if known.is_text else exporter.write_file, format, options)
    return known, exporter


def _check_options(function: Callable[..., object], format: str, options: dict[str, Any]) -> None:
    if not options:
        return
    from inspect import Parameter, signature  # slow to import

    parameters = signature(function).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            there_is = ", ".join(known) or "none"
            raise InvalidError(f"an export to {format} has no option {name!r}; there is {there_is}")
