"""`clew copy` and `clew backup`."""

from __future__ import annotations

import click

import clew
from clew.cli.app import Settings, command
from clew.cli.endings import PARTLY
from clew.cli.output import Output
from clew.cli.progress import on_copy, progress
from clew.cli.store import must_exist, opened, session_of
from clew.cli.text import count, size
from clew.model.transfer import OnCopyConflict


@command(
    "copy",
    "clew copy agents.db postgresql://localhost/agents",
    "clew copy agents.db other.db --session login",
    "clew copy old.db new.db --on-conflict rename",
)
@click.argument("src")
@click.argument("dst")
@click.option(
    "--session", "ids", multiple=True, metavar="ID", help="Only this one, and what shares its history."
)
@click.option(
    "--on-conflict",
    type=click.Choice(["refuse", "skip", "rename"]),
    default="refuse",
    show_default=True,
    help="Sessions of which DST holds something else.",
)
@click.pass_obj
def copy_command(
    settings: Settings, src: str, dst: str, ids: tuple[str, ...], on_conflict: OnCopyConflict
) -> int:
    """Copy sessions and snapshots from one store into another of any kind; again: what is new.

    Exit code 3 if sessions were skipped.
    """
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
            out.line(f"{count(report.unchanged, 'session')} were there already")
        for id in report.skipped:
            out.line(f"skipped: {id}")
        for was, now in report.renamed:
            out.line(f"renamed: {was} is {now} there")
    return PARTLY if report.skipped else 0


@command("backup", "clew backup agents-2026-11-15.db")
@click.argument("path", type=click.Path(dir_okay=False))
@click.option("--overwrite", is_flag=True, help="Replace the file if it is there.")
@click.pass_obj
def backup_command(settings: Settings, path: str, overwrite: bool) -> None:
    """Write the whole store, as it is at one moment, into one SQLite file. Others go on writing."""
    out = Output(settings)
    with opened(settings) as store, progress("backup") as told:
        report = store.backup(path, overwrite=overwrite, on_progress=on_copy(told))
    if out.json:
        out.record(report)
    else:
        out.line(f"{report.path}: {count(report.sessions, 'session')}, {size(report.bytes)}")
