"""`clew export`, `copy`, `backup`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, get_args

import click

import clew
from clew.backends.registry import OF_FILES, masked, parse
from clew.cli.agents import AgentName
from clew.cli.app import PARTLY, Refused, Settings, command, session_argument
from clew.cli.names import short_id, short_ids
from clew.cli.output import Output, on_copy, progress
from clew.cli.store import all_sessions, must_exist, opened, session_of
from clew.cli.text import clean, count, one_line, size
from clew.core.disk import make_directories
from clew.core.messages.shell import quoted
from clew.core.messages.text import escape_json
from clew.exporters.file import file_stem, free_stem
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
BY_SUFFIX: Final = {".jsonl": "jsonl", ".md": "markdown", ".html": "html", ".json": "json"}
TOLD: Final = 10


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
@click.option("--redact", is_flag=True, help="Mask secrets, also possible ones, and say how many there were")
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
    chosen = cast("ExportFormat", format or ("jsonl" if many else _format_of(target)))
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
            (name,) = _names(store, found, chosen, redactor).values()
            target = _free_file(name)  # a page is for a browser
        if target is None:
            _print_export(store.export(found[0], chosen, **options), chosen)
            _say_redacted(redactor)
            return
        names: dict[str, str] = {}
        if many:
            make_directories(target)
            names = _names(store, found, chosen, redactor)
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
        from clew.exporters.facts import secrets_in

        report = redactor.report()
        kinds = ", ".join(f"{number} {kind}" for kind, number in report.by_kind.items())
        click.echo(f"{secrets_in(report)} masked{f': {kinds}' if kinds else ''}", err=True)


def _ids(store: clew.Store, texts: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(session_of(store, text).id for text in texts))


def _format_of(target: Path | None) -> str:
    """The format that the name of a file tells; one without an ending gets what can be imported again."""
    if target is None or not target.suffix:
        return "jsonl"
    found = BY_SUFFIX.get(target.suffix.lower())
    if found is None:
        raise click.UsageError(
            f"{one_line(target.name)} tells no format: end it with {', '.join(BY_SUFFIX)}, or name one"
            f" with -f ({', '.join(FORMATS)})"
        )
    return found


def _names(store: clew.Store, ids: Sequence[str], format: str, redactor: Redactor | None) -> dict[str, str]:
    """Names of files for several sessions, none of which two have."""
    shown, taken, names = short_ids(store, ids), set[str](), dict[str, str]()
    for id in ids:
        title = None
        with suppress(clew.CorruptError):  # its name is no reason to refuse the others
            session = store.find(id)
            title = None if session is None else session.info.title
        if title is not None and redactor is not None:
            title = redactor.uncounted().text(title, "")
        stem = free_stem(file_stem(id, title, shown.get(id)), id, taken)
        names[id] = stem + SUFFIXES.get(format, ".jsonl")
    return names


def _free_file(name: str) -> Path:
    """A file here that is named after a session. The user did not name it, so it replaces nothing."""
    path = Path(name)
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
        what += f", {count(report.snapshots, 'snapshot')} ({size(report.bytes)})"
        out.line(f"{what} copied to {_place_of(dst)}")
        if report.unchanged:
            out.line(f"already there: {count(report.unchanged, 'session')}")
        for id in report.skipped:
            out.line(f"skipped: {id}")
        for was, now in report.renamed:
            out.line(f"renamed: {was} is {now} there")
    return PARTLY if report.skipped else 0


def _place_of(address: str) -> str:
    """Where a store is, without a password."""
    scheme, path, _ = parse(address)
    return os.path.abspath(path) if scheme in OF_FILES else masked(address)


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
