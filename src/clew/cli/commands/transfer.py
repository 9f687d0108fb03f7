"""`clew export`, `copy`, `backup`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, get_args
from urllib.parse import quote

import click
from blake3 import blake3

import clew
from clew.cli.agents import AgentName
from clew.cli.app import PARTLY, Refused, Settings, command, session_argument
from clew.cli.names import short_id
from clew.cli.output import Output, on_copy, progress
from clew.cli.store import all_sessions, must_exist, opened, session_of
from clew.cli.text import clean, count, one_line, size
from clew.core.disk import make_directories
from clew.core.messages.shell import quoted
from clew.core.messages.text import escape_json
from clew.model.transfer import ExportFormat, OnCopyConflict

if TYPE_CHECKING:
    from clew.exporters.redact import Redactor


# -- export

FORMATS: Final = get_args(ExportFormat)
SUFFIXES: Final = {
    "markdown": ".md",
    "html": ".html",
    "json": ".json",
    "jsonl": ".jsonl",
    "tingly-box": ".db",
    "ductwork": ".json",
    "openrouter": ".json",
    "opencode": ".json",
}
NO_TEXT: Final = frozenset({"tingly-box"})
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
    "clew export login -o login.jsonl      write all, to import it again",
    "clew export login -o login.html       write one page; or .md, .json",
    "clew export login --redact -f markdown  print it without secrets",
    "clew export --all -o sessions/        write one file per session",
    "clew export login -f picoclaw -o login.jsonl   write a file for picoclaw",
)
@session_argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "-f",
    "--format",
    "format",
    type=AgentName(FORMATS, "format"),
    help="Write this format, if the file name does not tell it",
)
@click.option(
    "-o", "--output", type=click.Path(), help="Write to this file, or directory for several sessions"
)
@click.option("--all", "everything", is_flag=True, help="Export all sessions of the store")
@click.option("--whole", is_flag=True, help="Export all branches; jsonl always has them")
@click.option("--tools/--no-tools", default=True, show_default=True, help="Include tool calls and results")
@click.option(
    "--thinking/--no-thinking", default=True, show_default=True, help="Include the thinking of the model"
)
@click.option("--redact", is_flag=True, help="Replace secrets, and say how many there were")
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
    """A file appears when it is complete, and replaces an older file of that name.
    Piped: id, format and file, separated by tabs; without -o the export itself. On a terminal HTML without
    -o is written to a new file that is named after the session; no other file is replaced.
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
        if target is None and chosen == "html" and out.is_terminal:
            target = _free_file(short_id(store, found[0]), chosen)  # a page is for a browser
        if target is None:
            _print_export(store.export(found[0], chosen, **options), chosen)
            _say_redacted(redactor)
            return
        names: dict[str, str] = {}
        if many:
            make_directories(target)
            named: set[str] = set()
            names = {id: _file_name(id, chosen, named) for id in found}
            options |= {"links": names} if chosen in ("markdown", "html") else {}
        with progress("exporting") as told:
            for number, id in enumerate(found):
                told(id, number, len(found))
                path = target / names[id] if many else target
                try:
                    written = store.export(id, chosen, path=path, **options)
                except clew.CorruptError as error:
                    if not everything:
                        raise
                    damaged[id] = error
                    continue
                if out.is_terminal and not out.json:
                    out.line(f"{short_id(store, id)} → {path} ({size(path.stat().st_size)})")
                else:
                    _say(out, id, chosen, written)
    if many or not out.is_terminal:
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


def _free_file(id: str, format: str) -> Path:
    """A file here that is named after a session. The user did not name it, so it replaces nothing."""
    path = Path(_file_name(id, format, set()))
    if os.path.lexists(path):
        raise Refused(f"{path} is here already; -o {quoted(str(path))} replaces it")
    return path


def _say(out: Output, id: str, format: str, written: str) -> None:
    if out.json:
        out.record({"id": id, "format": format, "path": written})
    else:
        out.row(one_line(id), format, written)


def _print_export(text: str, format: str) -> None:
    """Exact bytes into a pipe; on a terminal nothing that could steer it."""
    if sys.stdout.isatty():
        text = clean(text) if format in ("markdown", "html") else escape_json(text)
    stream: Any = sys.stdout
    stream.buffer.write(text.encode())
    stream.flush()


# -- copy and backup


@command(
    "copy",
    "clew copy agents.db postgresql://localhost/agents",
    "clew copy agents.db other.db --session login",
    "clew copy old.db new.db --on-conflict rename",
)
@click.argument("src")
@click.argument("dst")
@click.option(
    "--session",
    "ids",
    multiple=True,
    metavar="ID",
    help="Copy only this session, and those that share its history",
)
@click.option(
    "--on-conflict",
    type=click.Choice(["refuse", "skip", "rename"]),
    default="refuse",
    show_default=True,
    help="What to do if DST has another session with the id",
)
@click.pass_obj
def copy_command(
    settings: Settings, src: str, dst: str, ids: tuple[str, ...], on_conflict: OnCopyConflict
) -> int:
    """The stores may be of any kind. A second copy adds only what is new. Exit code 3 if sessions were
    skipped."""
    must_exist(src)
    out = Output(settings)
    with clew.open(src) as source, progress("copying") as told:
        wanted = [session_of(source, id).id for id in ids] or None
        total = len(wanted) if wanted else source.stats().sessions
        report = clew.copy(
            source, dst, sessions=wanted, on_conflict=on_conflict, on_progress=on_copy(told, total)
        )
    if out.json:
        out.record(report)
    else:
        what = f"{count(report.sessions, 'session')}, {count(report.entries, 'entry')}"
        out.line(f"{what}, {count(report.snapshots, 'snapshot')} ({size(report.bytes)}) copied")
        if report.unchanged:
            out.line(f"already there: {count(report.unchanged, 'session')}")
        for id in report.skipped:
            out.line(f"skipped: {id}")
        for was, now in report.renamed:
            out.line(f"renamed: {was} is {now} there")
    return PARTLY if report.skipped else 0


@command("backup", "clew backup agents-2026-11-15.db")
@click.argument("path", type=click.Path(dir_okay=False))
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists")
@click.pass_obj
def backup_command(settings: Settings, path: str, overwrite: bool) -> None:
    """Other processes can go on writing."""
    out = Output(settings)
    with opened(settings) as store, progress("backup") as told:
        report = store.backup(path, overwrite=overwrite, on_progress=on_copy(told))
    if out.json:
        out.record(report)
    else:
        out.line(f"{report.path}: {count(report.sessions, 'session')}, {size(report.bytes)}")
