"""`clew import`: sessions of other agents, from their usual places, from files and from pipes."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import click

import clew
from clew.cli.app import ERROR, PARTLY, Refused, Settings, command
from clew.cli.output import ImportLine, Output
from clew.cli.store import exists
from clew.cli.table import Column
from clew.cli.text import clew_command, count, from_home, now, one_line
from clew.cli.wording import in_words
from clew.importers import run
from clew.importers.detect import known_places

if TYPE_CHECKING:
    from clew.importers.contract import Problem
    from clew.model.transfer import ImportedFile, ImportedSession, ImportReport

SHOWN: Final = 5
"""Problems that are listed on a terminal without -v."""
_OF_A_LINE: Final = (
    (re.compile(r"^the line (is|has|begins)\b"), r"line {} \1"),
    (re.compile(r"^not valid\b"), "line {} is not valid"),
)
"""How reasons begin that say something of a line."""


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
    "--format", "format", metavar="NAME", help="Read the files as this format (default: found by content)"
)
@click.option("--dry-run", is_flag=True, help="Show what would be imported, and import nothing")
@click.option("--rename", is_flag=True, help="Give a session a new id if another session has its id.")
@click.option("--strict", is_flag=True, help="Import nothing of a path if a part of it cannot be read.")
@click.option("--again", is_flag=True, help="Read all files, also those that did not change.")
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
        store = stack.enter_context(_store_when_needed(settings))
        with ImportLine("Looking for sessions") as line:
            report = run.import_places(
                store,
                places,
                dry_run=dry_run,
                rename=rename,
                strict=strict,
                again=again,
                on_progress=line.on_progress,
            )
    if scan and not report.sources and not report.problems:
        raise Refused("no sessions of other agents in their usual places; clew import PATH takes others")
    _print(out, settings, report, verbose=verbose)
    if report.left_out:
        return ERROR
    return 0 if report.ok else PARTLY


@contextmanager
def _store_when_needed(settings: Settings) -> Iterator[Callable[..., clew.Store]]:
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
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="clew-import-")))
    with ImportLine("Reading standard input"):
        return run.Place(_taken(number, folder), format, name="-")


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
    return taken.rename(taken.with_suffix(_suffix(taken)))


def _suffix(file: Path) -> str:
    from clew.importers.reading.files import begins_with_object, first_keys, first_objects, read_beginning

    with file.open("rb") as raw:
        start = raw.read(16)
    if start.startswith(b"SQLite format 3\0"):
        return ".db"
    beginning = read_beginning(file)
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return ".jsonl.zst"
    if begins_with_object(beginning):
        is_document = not first_objects(beginning, most=1) or "messages" in first_keys(beginning)
        return ".json" if is_document else ".jsonl"
    return ".json" if beginning.lstrip().startswith(b"[") else ".md"


# -- what came of it


def _print(out: Output, settings: Settings, report: ImportReport, *, verbose: bool) -> None:
    if out.json:
        for source in report.sources:
            out.record(_as_record(source))
        for problem in _of_no_source(report):
            out.record(
                {"path": problem.path, "format": None, "read": False, "sessions": [], "problems": [problem]}
            )
    elif not out.is_terminal:
        for session in report.sessions:
            out.row(
                session.state, session.id, session.entries, session.messages, session.format, session.source
            )
    if out.is_terminal and report.sessions:
        if verbose:
            out.rows(*_sessions(report))
            out.line()
        out.rows(*_table(report))
        out.line()
    _print_problems(report, is_terminal=out.is_terminal, verbose=verbose)
    if not out.is_terminal or not report.sessions:
        click.echo(_sentence(report), err=True)
        return
    out.line(_told(report))
    for line in _next(settings, report):
        out.line(line)


def _as_record(source: ImportedFile) -> dict[str, object]:
    fields = ("id", "state", "entries", "messages", "parent", "is_copy", "created_at", "updated_at")
    sessions = [{name: getattr(session, name) for name in fields} for session in source.sessions]
    return {
        "path": source.path,
        "format": source.format,
        "read": source.read,
        "sessions": sessions,
        "problems": source.problems,
    }


def _sessions(report: ImportReport) -> tuple[Sequence[Column], list[list[object]]]:
    columns = [
        Column("STATE"),
        Column("ADDED", right=True),
        Column("MESSAGES", right=True),
        Column("ID"),
        Column("FILE", style="dim", flexible=True),
    ]
    rows: list[list[object]] = [
        [one.state, f"{one.entries:,}", f"{one.messages:,}", one.id, from_home(one.source)]
        for one in report.sessions
    ]
    return columns, rows


def _table(report: ImportReport) -> tuple[Sequence[Column], list[list[object]]]:
    """A row for each agent, the one with the most sessions first."""
    agents: dict[str, list[ImportedSession]] = {}
    for session in report.sessions:
        agents.setdefault(session.format, []).append(session)
    columns = [
        Column("AGENT", flexible=True),
        Column("SESSIONS", right=True),
        Column("", style="dim", optional=True),
        Column("MESSAGES", right=True),
        Column("PERIOD"),
    ]
    rows: list[list[object]] = []
    for agent, sessions in sorted(agents.items(), key=lambda item: -len(item[1])):
        inner = sum(map(_is_agent, sessions))
        messages = sum(session.messages for session in sessions)
        beside = f"+{count(inner, 'agent')}" if inner else ""
        rows.append([agent, f"{len(sessions) - inner:,}", beside, f"{messages:,}", _period(sessions)])
    if not any(row[2] for row in rows):
        del columns[2]
        rows = [[*row[:2], *row[3:]] for row in rows]
    return columns, rows


def _period(sessions: Sequence[ImportedSession]) -> str:
    """From the first to the last activity, in days where the reader is."""
    times = [time for session in sessions for time in (session.created_at, session.updated_at) if time]
    if not times:
        return ""
    today = now().astimezone().date()
    near = {today: "today", today - timedelta(days=1): "yesterday"}
    first, last = min(times).astimezone().date(), max(times).astimezone().date()
    end = near.get(last, last.isoformat())
    return end if first == last else f"{first.isoformat()} to {end}"


def _sentence(report: ImportReport) -> str:
    """For programs and logs: always the same words."""
    if not report.sessions:
        return "no session was imported"
    would = "would be " if report.dry_run else ""
    added = count(report.entries, "entry") + ("" if report.dry_run else " added")
    bad = f"; {count(len(report.problems), 'problem')}" if report.problems else ""
    unchanged = report.unchanged - _trashed(report)
    return (
        f"{count(report.new, 'session')} {would}new, {report.grown:,} grown, {unchanged:,} unchanged"
        f"{_and_trashed(report)}; {added}{bad}"
    )


def _told(report: ImportReport) -> str:
    """For people: what happened, and nothing that did not."""
    by_state: dict[str, list[ImportedSession]] = {}
    for session in report.sessions:
        by_state.setdefault(session.state, []).append(session)
    new, grown, same = (by_state.get(state, []) for state in ("new", "grown", "unchanged"))
    trashed = _and_trashed(report)
    if not new and not grown:
        return f"Nothing new: {_number(same)} unchanged{trashed}."
    would = "would be " if report.dry_run else ""
    is_new = "would be" if would else "is" if len(new) == 1 else "are"
    became = f"{'would have ' if would else ''}{'grown' if report.entries else 'changed'}"
    parts = [
        f"{_number(new)} {is_new} new" if new else "",
        f"{_number(grown)} {became}" if grown else "",
        f"{_number(same)} unchanged" if same else "",
    ]
    added = f" (+{count(report.entries, 'entry')})" if report.entries else ""
    return f"{', '.join(filter(None, parts))}{trashed}{added}."


def _number(sessions: Sequence[ImportedSession]) -> str:
    """As the table counts them."""
    inner = sum(map(_is_agent, sessions))
    if inner == len(sessions) and inner:
        return count(inner, "agent")
    outer = count(len(sessions) - inner, "session")
    return f"{outer} and {count(inner, 'agent')}" if inner else outer


def _is_agent(session: ImportedSession) -> bool:
    return session.parent is not None and not session.is_copy


def _trashed(report: ImportReport) -> int:
    return sum(session.state == "trashed" for session in report.sessions)


def _and_trashed(report: ImportReport) -> str:
    number = _trashed(report)
    return f", {number:,} in the trash" if number else ""


def _next(settings: Settings, report: ImportReport) -> list[str]:
    if report.dry_run:
        return ["Nothing was written: leave out --dry-run to import."]
    steps = {
        clew_command(settings, "ls"): "the sessions, newest first",
        clew_command(settings, "search", "WORDS"): "where something was said",
    }
    if not report.new and not report.grown:
        return []
    width = max(map(len, steps))
    return ["", *(f"  {typed:<{width}}   {what}" for typed, what in steps.items())]


def _of_no_source(report: ImportReport) -> list[Problem]:
    """Problems of files and directories in which no session was found."""
    known = {id(problem) for source in report.sources for problem in source.problems}
    return [problem for problem in report.problems if id(problem) not in known]


def _print_problems(report: ImportReport, *, is_terminal: bool, verbose: bool) -> None:
    """On a terminal one for each file, and not of too many files; else all. Those of files that did not
    change were told before: one for each file."""
    lines = [_line_of(problem, is_terminal) for problem in _of_no_source(report)]
    for source in report.sources:
        is_whole = verbose or (source.read and not is_terminal)
        told = source.problems if is_whole else source.problems[:1]
        lines += [_line_of(problem, is_terminal) for problem in told]
        if len(source.problems) > len(told):
            before = "" if source.read else ", as at the last import"
            lines[-1] += f" (and {len(source.problems) - 1:,} more{before})"
    shown = lines[:SHOWN] if is_terminal and not verbose else lines
    for line in shown:
        click.echo(f"clew: {one_line(line)}", err=True)
    hidden = len(lines) - len(shown)
    if is_terminal and not verbose and len(report.problems) > len(shown):
        others = f"problems in {count(hidden, 'other file')}; " if hidden else ""
        click.echo(f"clew: {others}-v lists all {len(report.problems):,} problems", err=True)
    if is_terminal and lines and report.sessions:
        click.echo(err=True)


def _line_of(problem: Problem, is_terminal: bool) -> str:
    path = from_home(problem.path) if is_terminal else problem.path
    reason = in_words(problem.reason)
    if problem.line is None:
        return f"{path}: {reason}"
    for begins, instead in _OF_A_LINE:
        if begins.match(reason):
            return f"{path}: {begins.sub(instead.format(problem.line), reason)}"
    return f"{path}: line {problem.line}: {reason}"
