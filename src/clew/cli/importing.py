"""`clew import`: sessions of files, and of the agents on this machine, into the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING

import click

import clew
from clew.cli.app import Settings, command
from clew.cli.endings import ERROR, PARTLY, Refused
from clew.cli.output import Output
from clew.cli.progress import Report, progress
from clew.cli.prompt import agreed, yes_option
from clew.cli.safe import one_line
from clew.cli.store import exists
from clew.cli.text import count, size
from clew.errors import InvalidError
from clew.importers import run

if TYPE_CHECKING:
    from clew.model.transfer import FoundPlace, ImportProgress, ImportReport


@command(
    "import",
    "clew import --scan --dry-run          what other agents keep on this machine",
    "clew import --scan                    bring all of it",
    "clew import ~/.claude/projects        all sessions in a directory",
    "clew import session.jsonl --strict    nothing, unless all of it can be read",
)
@click.argument("paths", nargs=-1, type=click.Path(exists=True))
@click.option("--scan", is_flag=True, help="What is in the known places of other agents.")
@click.option("--format", "format", metavar="NAME", help="What the files are; else their content tells.")
@click.option("--dry-run", is_flag=True, help="Only say what would be brought.")
@click.option("--rename", is_flag=True, help="Give a session a new id if the store has another of that id.")
@click.option("--strict", is_flag=True, help="Import nothing of a path of which something can not be read.")
@yes_option
@click.pass_obj
def import_command(
    settings: Settings,
    paths: tuple[str, ...],
    scan: bool,
    format: str | None,
    dry_run: bool,
    rename: bool,
    strict: bool,
    yes: bool,
) -> int:
    """Bring sessions into the store. Files are only read; again: what is new.

    Piped: state (new, grown, unchanged), id, entries added, messages, format and file, separated by tabs.
    What can not be read is listed on standard error, the rest is imported. Exit code 3: lines or parts of
    sessions are missing. Exit code 1: a file or a directory was left out that looks like a session.
    """
    if scan == bool(paths):
        raise click.UsageError("name files or directories, or --scan")
    places = _scanned(yes=yes or dry_run) if scan else [(path, format) for path in paths]
    out = Output(settings)
    reports: list[ImportReport] = []
    failed = False
    with _store_when_needed(settings, dry_run=dry_run) as store:
        for path, kind in places:
            try:
                with progress("importing") as told:
                    reports.append(
                        run.import_path(
                            store,
                            path,
                            kind,
                            dry_run=dry_run,
                            rename=rename,
                            strict=strict,
                            on_progress=_on_import(told),
                        )
                    )
            except InvalidError as exc:
                if len(places) == 1:
                    raise
                failed = True
                click.echo(f"clew: {one_line(str(exc))}", err=True)
            else:
                _print(out, reports[-1])
    _summary(out, reports)
    if failed or any(report.left_out for report in reports):
        return ERROR
    return 0 if all(report.ok for report in reports) else PARTLY


@contextmanager
def _store_when_needed(settings: Settings, *, dry_run: bool) -> Iterator[Callable[..., clew.Store]]:
    """A store is made when the first session goes into it: not by an import that fails, or by a dry run."""
    if exists(settings.store):
        with clew.open(settings.store) as store:
            yield lambda *, writes: store
        return
    with ExitStack() as stack:
        made = cache(lambda address: stack.enter_context(clew.open(address)))
        yield lambda *, writes: made(settings.store if writes else "memory:")


def _scanned(*, yes: bool) -> list[tuple[str, str | None]]:
    from clew.importers.detect import scan_places

    with progress("scanning"):
        found = scan_places()
    if not found:
        raise Refused("no sessions of other agents in their usual places; clew import PATH takes others")
    for place in found:
        click.echo(_place_line(place), err=True)
    total = count(sum(place.files for place in found), "file")
    agreed(f"Import {total} ({size(sum(place.bytes for place in found))})?", [], yes=yes)
    return [(place.path, place.format) for place in found]


def _place_line(place: FoundPlace) -> str:
    what = f"{count(place.files, 'file')}, {size(place.bytes)}"
    return f"  {place.format:<14} {what:<22} {one_line(place.path)}"


def _on_import(told: Report) -> clew.model.transfer.OnImportProgress:
    def tell(at: ImportProgress) -> None:
        told(f"{at.files:,} of {count(at.all_files, 'file')}", at.bytes, at.all_bytes or None)

    return tell


def _print(out: Output, report: ImportReport) -> None:
    for session in report.sessions:
        if out.json:
            out.record({**{name: getattr(session, name) for name in session.__struct_fields__}})
        elif session.state != "unchanged" or not out.is_terminal:
            out.row(
                session.state, session.id, session.entries, session.messages, session.format, session.source
            )
    for problem in report.problems:
        place = problem.path if problem.line is None else f"{problem.path}:{problem.line}"
        click.echo(f"clew: {one_line(place)}: {one_line(problem.reason)}", err=True)


def _summary(out: Output, reports: list[ImportReport]) -> None:
    new, grown = sum(report.new for report in reports), sum(report.grown for report in reports)
    same, entries = sum(report.unchanged for report in reports), sum(report.entries for report in reports)
    problems = sum(len(report.problems) for report in reports)
    would = "would be " if any(report.dry_run for report in reports) else ""
    bad = f"; {count(problems, 'problem')}" if problems else ""
    added = f"{count(entries, 'entry')} added" if not would else count(entries, "entry")
    click.echo(
        f"{count(new, 'session')} {would}new, {grown:,} grown, {same:,} unchanged; {added}{bad}", err=True
    )
