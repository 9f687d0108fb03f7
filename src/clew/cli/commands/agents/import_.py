"""`clew import`: sessions of other agents, from their usual places, from files and from pipes."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

import clew
from clew.cli.agents import AgentName
from clew.cli.app import ERROR, PARTLY, Refused, Settings, command
from clew.cli.output import ImportLine, Output
from clew.cli.store import exists
from clew.cli.views.imports import print_report
from clew.core.work_folder import work_folder
from clew.importers import OWN, READERS, run
from clew.importers.detect import known_places
from clew.importers.reading.files import suffix_of

if TYPE_CHECKING:
    pass


@command(
    "import",
    "clew import --scan                    import what is on this machine",
    "clew import --scan --dry-run          show what there is",
    "clew import ~/.claude/projects        import a directory",
    "clew import session.jsonl --strict    import all of it or nothing",
    "ssh host cat a.jsonl | clew import -  import a file from a pipe",
)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(allow_dash=True, readable=False))
@click.option("--scan", is_flag=True, help="Import from the usual places of all known agents.")
@click.option(
    "-f",
    "--format",
    "format",
    type=AgentName([OWN, *READERS], "format"),
    metavar="NAME",
    help="Read the files as this format (default: found by content)",
)
@click.option("--dry-run", is_flag=True, help="Show what would be imported, and import nothing")
@click.option("--rename", is_flag=True, help="Give a session a new id if another session has its id.")
@click.option("--strict", is_flag=True, help="Import nothing of a path if a part of it cannot be read.")
@click.option("--again", is_flag=True, help="Read all files, also those that did not change.")
@click.option(
    "--redact/--no-redact",
    default=None,
    help="Replace definite secrets, or do not (default: as clew secrets policy says).",
)
@click.option(
    "--max-unpacked",
    type=click.IntRange(min=0),
    metavar="MIB",
    help="Let the files unpack to this much beyond a multiple of their sizes (default: 32)",
)
@click.option("-v", "--verbose", is_flag=True, help="List every session and every problem.")
@click.option("-y", "--yes", is_flag=True, hidden=True, help="Not needed any more.")
@click.pass_obj
def import_command(
    settings: Settings,
    paths: tuple[str, ...],
    scan: bool,
    format: str | None,
    dry_run: bool,
    rename: bool,
    strict: bool,
    again: bool,
    redact: bool | None,
    max_unpacked: int | None,
    verbose: bool,
    yes: bool,
) -> int:
    """The files are only read. Import as often as you like: files that did not change are not opened, and of
    the others only what is new is added. `-` reads standard input.

    Piped: state (new, grown, unchanged, trashed), id, entries added, messages, format and file, separated by
    tabs. With --json: an object for each file, with its sessions and problems.

    What cannot be read is listed on standard error, and the rest is imported. Exit code 3: a part of a file
    is missing. Exit code 1: a file or directory that looks like a session was left out.
    """
    if scan == bool(paths):
        raise click.UsageError("name files or directories, or --scan")
    out = Output(settings)
    with ExitStack() as stack:
        places = _usual_places() if scan else [_place(path, format, stack) for path in paths]
        store = stack.enter_context(store_when_needed(settings))
        with ImportLine("Looking for sessions") as line:
            report = run.import_places(
                store,
                places,
                dry_run=dry_run,
                rename=rename,
                strict=strict,
                again=again,
                redact=redact,
                max_unpacked=None if max_unpacked is None else max_unpacked * 1024 * 1024,
                on_progress=line.on_progress,
            )
    if scan and not report.sources and not report.problems:
        raise Refused("no sessions of other agents in their usual places; clew import PATH takes others")
    print_report(out, settings, report, verbose=verbose, is_scan=scan)
    if report.left_out:
        return ERROR
    return 0 if report.ok else PARTLY


@contextmanager
def store_when_needed(settings: Settings) -> Iterator[Callable[..., clew.Store]]:
    """A store is made when the first session goes into it: not by an import that fails, or by a dry run."""
    if exists(settings.store):
        with clew.open(settings.store) as store:
            yield lambda *, writes: store
        return
    with ExitStack() as stack:
        made = cache(lambda address: stack.enter_context(clew.open(address)))
        yield lambda *, writes: made(settings.store if writes else "memory:")


# -- what to import


def _usual_places() -> list[run.Place]:
    return [run.Place(path, format, is_guess=True) for format, path in known_places()]


def _place(path: str, format: str | None, stack: ExitStack) -> run.Place:
    """A path, or what comes through a pipe that the shell opened."""
    number = _descriptor(path)
    if number is None:
        return run.Place(path, format)
    folder = stack.enter_context(work_folder("import"))
    with ImportLine("Reading standard input"):
        return run.Place(_taken(number, folder), format, name=run.PIPE)


_DESCRIPTOR: Final = re.compile(r"/dev/(stdin)|/(?:dev|proc/self)/fd/(\d+)")


def _descriptor(path: str) -> int | None:
    """The stream that the shell opened for us: `-`, /dev/stdin, /dev/fd/N as `<(…)` gives it. None: it is a
    file, or a pipe with a name, for which one could wait forever."""
    if path == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise Refused("standard input is closed")
        if sys.stdin.isatty():
            raise Refused("standard input is the keyboard; pipe a file into it, or name the file")
        return 0
    found = _DESCRIPTOR.fullmatch(path)
    if found is None:
        return None
    number = 0 if found[1] else int(found[2])
    try:
        mode = os.fstat(number).st_mode
    except OSError:
        return None
    return number if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None


def _taken(number: int, folder: Path) -> Path:
    """A file with all that comes through a descriptor, named so that readers know what they have."""
    taken = folder / "stdin"
    with open(number, "rb", closefd=False) as source, taken.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    if not taken.stat().st_size:
        raise Refused("there is nothing in standard input")
    return taken.rename(taken.with_suffix(suffix_of(taken)))
