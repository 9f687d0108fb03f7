"""`clew verify`, `repair`, `vacuum` and `sweep`, with retention rules as they are typed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click

import clew
from clew.cli.app import ERROR, PARTLY, Settings, command
from clew.cli.output import Output
from clew.cli.prompt import agreed, on_copy, on_files, progress, yes_option
from clew.cli.store import opened
from clew.cli.text import count, one_line, size, span
from clew.core.retention.rules import COUNTS, LENGTHS


@command(
    "verify",
    "clew verify                           read everything and compare it with its hash",
    "clew verify --quick                   only that nothing is missing",
)
@click.option("--quick", is_flag=True, help="Only check that nothing is missing.")
@click.option(
    "--time-limit",
    type=float,
    metavar="SECONDS",
    help="Stop after this many seconds and report what was found.",
)
@click.pass_obj
def verify_command(settings: Settings, quick: bool, time_limit: float | None) -> int:
    """It also checks the trash, and changes nothing. Prints one problem a line; exit code 1 if there are any,
    3 if the time limit ended the check early.
    """
    out = Output(settings)
    with opened(settings) as store, progress("verifying") as told:
        report = store.verify(full=not quick, time_limit=time_limit, on_progress=on_files(told))
    if out.json:
        out.record(report)
    else:
        for problem in report.problems:
            out.line(one_line(problem))
        seen = f"{count(report.sessions, 'session')}, {count(report.entries, 'entry')}"
        what = f"{seen}, {count(report.objects, 'object')} ({size(report.bytes)})"
        verdict = (
            "all is whole" if report.ok else f"{count(len(report.problems), 'problem')}; clew repair --to NEW"
        )
        click.echo(f"{what}: {verdict}{'' if report.complete else ' (not all was looked at)'}", err=True)
    if not report.ok:
        return ERROR
    return 0 if report.complete else PARTLY


@command("repair", "clew repair --to rescued.db")
@click.option("--to", required=True, metavar="ADDRESS", help="The new store; it must be empty.")
@click.pass_obj
def repair_command(settings: Settings, to: str) -> int:
    """Lists what cannot be read. The damaged store is not changed. Exit code 3 if something is lost."""
    out = Output(settings)
    with opened(settings) as store, progress("repairing") as told:
        report = store.repair(to=to, on_progress=on_copy(told))
    if out.json:
        out.record(report)
        return 0 if report.ok else PARTLY
    for lost in report.lost:
        where = " ".join(str(part) for part in (lost.session, lost.position, lost.name) if part is not None)
        out.line(f"lost: {lost.kind} {where}: {lost.reason}")
    brought = f"{count(report.sessions, 'session')}, {count(report.entries, 'entry')}"
    out.line(f"{brought} and {count(report.snapshots, 'snapshot')} are whole in {report.location}")
    return 0 if report.ok else PARTLY


@command("vacuum", "clew vacuum")
@click.pass_obj
def vacuum_command(settings: Settings) -> None:
    """Takes as long as copying the store; removes nothing."""
    out = Output(settings)
    with opened(settings) as store, progress("vacuum"):
        freed = store.vacuum()
    if out.json:
        out.record({"bytes": freed})
    else:
        out.line(f"{size(freed)} given back")


@command(
    "sweep",
    "clew sweep --dry-run                  what the rules would do now",
    "clew sweep",
    "clew sweep --rule max_idle=90d        by this rule, this once",
)
@click.option(
    "--rule",
    multiple=True,
    metavar="NAME=VALUE",
    help="Apply this rule instead of the store's, this time only; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--scrub", is_flag=True, help="Also rewrite the store, so that no removed byte is left.")
@yes_option
@click.pass_obj
def sweep_command(settings: Settings, rule: tuple[str, ...], dry_run: bool, scrub: bool, yes: bool) -> None:
    """Rules expire, trash and purge sessions, and remove messages. They have the names of `clew.Retention`:
    max_idle=90d, max_messages=500, keep_tags=a,b.
    Piped: verb, session, messages and reason, separated by tabs.
    """
    out = Output(settings)
    rules = rules_of(rule)
    with opened(settings) as store:
        report = store.sweep(rules=rules, dry_run=True)
        if not dry_run:
            if report.actions:
                lines = [f"{action.verb}  {action.session}: {action.reason}" for action in report.actions]
                agreed(f"Do {count(len(lines), 'thing')}?", lines, yes=yes)
            with progress("sweeping"):
                report = store.sweep(rules=rules, scrub=scrub)
    if out.json:
        out.record(report)
        return
    for action in report.actions:
        out.row(action.verb, action.session, action.messages or None, action.reason)
    if not report.actions:
        click.echo("nothing is due", err=True)


# -- retention rules as they are typed: max_idle=30d, max_messages=500, keep_tags=a,b

_NAMES: Final = (*LENGTHS, *(name for name in COUNTS if name != "max_events"), "trash_expired", "keep_tags")


def rules_of(given: Iterable[str]) -> clew.Retention | None:
    """The rules of these `NAME=VALUE`; None: there are none."""
    found: dict[str, object] = {}
    for one in given:
        name, _, value = one.partition("=")
        if name not in _NAMES:
            raise click.UsageError(
                f"{one!r} is not a rule: write NAME=VALUE, with one of {', '.join(_NAMES)}"
            )
        found[name] = _value(one, name, value)
    return clew.Retention(**found) if found else None  # type: ignore[arg-type]  # checked by the sweep


def _value(given: str, name: str, value: str) -> object:
    if name == "keep_tags":
        return tuple(tag for tag in value.split(",") if tag)
    if name == "trash_expired":
        if value not in ("", "yes", "no"):
            raise click.UsageError(f"{given!r}: write trash_expired=yes or trash_expired=no")
        return value != "no"
    if name in LENGTHS:
        length = span(value)
        if length is None:
            raise click.UsageError(f"{given!r} is not a length of time: write 90m, 12h, 30d or 2w")
        return length
    if not (value.isascii() and value.isdecimal()):
        raise click.UsageError(f"{given!r} is not a number: write {name}=500")
    return int(value)
