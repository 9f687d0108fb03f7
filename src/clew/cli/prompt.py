"""Questions before operations that are hard to take back, and progress bars."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Final

import click

from clew.cli.app import Refused
from clew.cli.text import clean, one_line, size

if TYPE_CHECKING:
    from clew.model.files import FileProgress
    from clew.model.transfer import CopyProgress

LINES_SHOWN: Final = 20

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


def agreed(question: str, details: Iterable[str], *, yes: bool) -> None:
    """Show what will be done, and go on only if the user says yes. Without a terminal the answer is no."""
    if yes:
        return
    shown = list(details)
    for line in shown[:LINES_SHOWN]:
        click.echo(f"  {clean(line.replace(chr(10), ' '))}", err=True)
    if len(shown) > LINES_SHOWN:
        click.echo(f"  … and {len(shown) - LINES_SHOWN:,} more", err=True)
    if not sys.stdin.isatty():
        raise Refused(f"{one_line(question)} There is no terminal to ask on: add --yes")
    if not click.confirm(one_line(question), err=True):
        raise Refused("nothing was done")


# -- progress on a terminal, for everything that can take more than a second; standard error, never a pipe

PATIENCE: Final = 0.4
"""Seconds before a bar appears: a shorter operation needs none."""

Report = Callable[[str, int, int | None], None]
"""What is being done, how far it is, and of how much (None: unknown)."""


@contextmanager
def progress(title: str) -> Iterator[Report]:
    """A bar while the block runs; gone when it ends."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from clew.cli.output import errors
    from clew.cli.text import one_line

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
    )
    bar = Progress(*columns, console=errors(), transient=True)
    task = bar.add_task(title, total=None)

    def report(what: str, done: int, total: int | None) -> None:
        bar.update(task, description=one_line(f"{title}  {what}"), completed=done, total=total)

    late = Timer(PATIENCE, bar.start)
    late.daemon = True
    late.start()
    try:
        yield report
    finally:
        late.cancel()
        late.join()
        bar.stop()


def on_files(report: Report) -> Callable[[FileProgress], None]:
    """For `on_progress` of snapshots, restores, gc and verify."""

    def told(at: FileProgress) -> None:
        report(f"{at.phase} {at.files:,} ({size(at.bytes)})", at.files, at.total_files)

    return told


def on_copy(report: Report, total: int | None = None) -> Callable[[CopyProgress], None]:
    """For `on_progress` of copies, backups and repairs."""

    def told(at: CopyProgress) -> None:
        what = f"{at.sessions:,} sessions, {at.entries:,} entries ({size(at.bytes)})"
        report(what if at.phase == "sessions" else f"files ({size(at.bytes)})", at.sessions, total)

    return told
