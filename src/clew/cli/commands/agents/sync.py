"""`clew sync`: what agents wrote since the last time."""

from __future__ import annotations

import click

from clew.cli.app import ERROR, PARTLY, Refused, Settings, command
from clew.cli.commands.agents.import_ import store_when_needed
from clew.cli.output import ImportLine, Output
from clew.cli.views.imports import print_news
from clew.importers.sync import Sync


@command(
    "sync",
    "clew sync                      bring what is new on this machine",
    "clew sync -v                   and list the sessions that it went to",
    "clew sync --dry-run            only show what is new",
    "clew sync ~/.claude/projects   look at one directory",
)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(readable=False))
@click.option("--dry-run", is_flag=True, help="Show what would come, and bring nothing.")
@click.option("-v", "--verbose", is_flag=True, help="List every session, problem and file that is gone.")
@click.option("-q", "--quiet", is_flag=True, help="Print only what could not be read.")
@click.pass_obj
def sync_command(
    settings: Settings, paths: tuple[str, ...], dry_run: bool, verbose: bool, quiet: bool
) -> int:
    """Without PATH: from the usual places of all known agents. The files are only read. A file that did not
    change costs a look at its times; of one that has grown, what is new is read. A last line without its end
    waits for the next time. Sessions whose files are gone stay.

    Piped: state (new, grown, trashed), id, entries added, messages, format and file, separated by tabs. With
    --json: an object for each file that was read, with its sessions and problems, and for each file that
    is gone.

    What cannot be read is listed on standard error, and the rest is brought. Exit code 3: a part of a file
    is missing. Exit code 1: a file or directory that looks like a session was left out.
    """
    out = Output(settings)
    with store_when_needed(settings) as store, ImportLine("Looking for sessions") as line:
        sync = Sync(store, paths or None, dry_run=dry_run, on_progress=line.on_progress)
        report = sync.all()
    if not paths and not report.files and not report.gone and not report.problems and not sync.has_records:
        raise Refused("no sessions of other agents in their usual places; clew sync PATH takes others")
    print_news(out, settings, report, verbose=verbose, quiet=quiet, is_scan=not paths)
    if report.left_out:
        return ERROR
    return 0 if report.ok else PARTLY
