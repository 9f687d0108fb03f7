"""`clew export`: sessions as files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, get_args
from urllib.parse import quote

import click
from blake3 import blake3

import clew
from clew.backends.private_files import make_directories
from clew.cli.app import Settings, command, session_argument
from clew.cli.output import Output
from clew.cli.progress import progress
from clew.cli.safe import clean, one_line
from clew.cli.store import all_sessions, opened, session_of
from clew.cli.text import count
from clew.core.messages.characters import escape_json
from clew.model.transfer import ExportFormat

if TYPE_CHECKING:
    from clew.exporters.redact import Redactor

FORMATS: Final = get_args(ExportFormat)
SUFFIXES: Final = {
    "markdown": ".md",
    "html": ".html",
    "json": ".json",
    "jsonl": ".jsonl",
    "tingly": ".db",
    "ductwork": ".json",
}
NO_TEXT: Final = frozenset({"tingly"})
BY_SUFFIX: Final = {".md": "markdown", ".html": "html", ".json": "json", ".jsonl": "jsonl"}
RESERVED: Final = frozenset(
    {"CON", "PRN", "AUX", "NUL", *(f"{port}{number}" for port in ("COM", "LPT") for number in range(10))}
)
"""Windows takes these for devices, whatever follows a dot."""
TOLD: Final = 10
LONGEST: Final = 120
"""Characters of a file's name that come from an id."""


@command(
    "export",
    "clew export login -o login.jsonl      everything, to be imported again",
    "clew export login -o login.html       one page, readable anywhere; .md and .json too",
    "clew export login --redact -f markdown  without secrets, to standard output",
    "clew export --all -o sessions/        one file for each session",
    "clew export login -f picoclaw -o login.jsonl   as picoclaw keeps it: login.meta.json comes with it",
)
@session_argument("ids", nargs=-1, metavar="[ID]...")
@click.option("-f", "--format", "format", type=click.Choice(FORMATS), help="Else the name of the file tells.")
@click.option("-o", "--output", type=click.Path(), help="A file; of several sessions a directory.")
@click.option("--all", "everything", is_flag=True, help="All sessions of the store.")
@click.option("--whole", is_flag=True, help="All branches, not only the path; jsonl always has all.")
@click.option("--tools/--no-tools", default=True, show_default=True, help="For markdown and html.")
@click.option("--thinking/--no-thinking", default=True, show_default=True, help="For markdown and html.")
@click.option("--redact", is_flag=True, help="Replace secrets, and say how many on standard error.")
@click.pass_obj
def export_command(
    settings: Settings,
    ids: tuple[str, ...],
    format: str | None,
    output: str | None,
    everything: bool,
    whole: bool,
    tools: bool,
    thinking: bool,
    redact: bool,
) -> None:
    """Write sessions as files. A file appears when it is whole; one that is there is replaced.

    Piped: id, format and file, separated by tabs; without -o the export itself.
    """
    if everything == bool(ids):
        raise click.UsageError("name sessions, or --all")
    target = None if output is None else Path(output)
    many = everything or len(ids) > 1 or (target is not None and target.is_dir())
    if many and target is None:
        raise click.UsageError("several sessions need -o DIRECTORY")
    chosen = cast("ExportFormat", format or _format_of(target))
    if target is None and chosen in NO_TEXT:
        raise click.UsageError(f"{chosen} is an SQLite file, not a text: name it with -o FILE")
    options: dict[str, Any] = {"whole": whole} if whole else {}
    options |= {name: False for name, wanted in (("tools", tools), ("thinking", thinking)) if not wanted}
    redactor = _redactor() if redact else None
    options |= {"redact": redactor} if redactor else {}
    out = Output(settings)
    damaged: dict[str, clew.CorruptError] = {}
    with opened(settings) as store:
        found = [info.id for info in all_sessions(store)] if everything else _ids(store, ids)
        if target is None:
            _print(store.export(found[0], chosen, **options), chosen)
            _say_redacted(redactor)
            return
        if many:
            make_directories(target)
            named: set[str] = set()
        with progress("exporting") as told:
            for number, id in enumerate(found):
                told(id, number, len(found))
                path = target / _file_name(id, chosen, named) if many else target
                try:
                    written = store.export(id, chosen, path=path, **options)
                except clew.CorruptError as error:
                    if not everything:
                        raise
                    damaged[id] = error
                    continue
                _say(out, id, chosen, written)
    click.echo(f"{count(len(found) - len(damaged), 'session')} exported", err=True)
    _say_redacted(redactor)
    if damaged:
        shown = "; ".join(str(error) for error in list(damaged.values())[:TOLD])
        raise clew.CorruptError(f"{count(len(damaged), 'session')} not exported: {shown}")


def _redactor() -> Redactor:
    from clew.exporters.redact import Redactor

    return Redactor()


def _say_redacted(redactor: Redactor | None) -> None:
    if redactor is not None:
        report = redactor.report()
        kinds = ", ".join(f"{number} {kind}" for kind, number in report.by_kind.items())
        click.echo(f"{count(report.total, 'secret')} replaced{f': {kinds}' if kinds else ''}", err=True)


def _ids(store: clew.Store, texts: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(session_of(store, text).id for text in texts))


def _format_of(target: Path | None) -> str:
    if target is None:
        return "jsonl"
    return BY_SUFFIX.get(target.suffix, "jsonl")


def _file_name(id: str, format: str, named: set[str]) -> str:
    """Of an id, which may be any text, a name that is safe everywhere. `named`: those that others have."""
    name = quote(id, safe=" #=,;@")
    if name[:1] in (".", "-", "~", " ") or name.partition(".")[0].upper() in RESERVED:
        name = f"%{ord(name[0]):02X}{name[1:]}"
    if len(name) > LONGEST or name.casefold() in named:  # on some disks "A" is the same name as "a"
        name = f"{name[:LONGEST]}~{blake3(id.encode()).hexdigest()[:16]}"
    named.add(name.casefold())
    return name + SUFFIXES.get(format, ".jsonl")


def _say(out: Output, id: str, format: str, written: str) -> None:
    if out.json:
        out.record({"id": id, "format": format, "path": written})
    else:
        out.row(one_line(id), format, written)


def _print(text: str, format: str) -> None:
    """Exact bytes into a pipe; on a terminal nothing that could steer it."""
    if sys.stdout.isatty():
        text = clean(text) if format in ("markdown", "html") else escape_json(text)
    stream: Any = sys.stdout
    stream.buffer.write(text.encode())
    stream.flush()
