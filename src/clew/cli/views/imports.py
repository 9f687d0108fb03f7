"""What an import or a sync brought, in words and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import click
import msgspec

from clew.cli.app import Settings
from clew.cli.output import Output
from clew.cli.table import Column
from clew.cli.text import clew_command, count, from_home, now, one_line
from clew.cli.wording import in_words

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


def print_report(
    out: Output, settings: Settings, report: ImportReport, *, verbose: bool, is_scan: bool = False
) -> None:
    """`is_scan`: of the usual places of agents, which a watcher can follow."""
    if out.json:
        for source in report.sources:
            out.record(_as_record(source))
        for problem in _of_no_source(report):
            out.record(_record_of(problem.path, [problem]))
    elif not out.is_terminal:
        for session in report.sessions:
            out.row(
                session.state, session.id, session.entries, session.messages, session.format, session.source
            )
    if out.is_terminal and report.sessions:
        if verbose:
            out.rows(*_sessions(report.sessions))
            out.line()
        out.rows(*_table(report))
        out.line()
    _print_problems(report, is_terminal=out.is_terminal, verbose=verbose)
    if not out.is_terminal or not report.sessions:
        click.echo(_sentence(report), err=True)
        return
    out.line(_told(report) + _and_redacted(report))
    for line in _next(settings, report, is_scan=is_scan):
        out.line(line)


def print_news(
    out: Output,
    settings: Settings,
    report: ImportReport,
    *,
    verbose: bool,
    quiet: bool = False,
    is_scan: bool = False,
) -> None:
    """Of a sync: only what is new. `is_scan`: of the usual places of agents."""
    changed = [session for session in report.sessions if session.state in ("new", "grown")]
    if out.json and not quiet:
        for source in report.sources:
            out.record(_as_record(source))
        for problem in _of_no_source(report):
            out.record(_record_of(problem.path, [problem]))
        for path in report.gone:
            out.record({**_record_of(path, []), "gone": True})
    elif not out.is_terminal and not quiet:
        for session in changed:
            out.row(
                session.state, session.id, session.entries, session.messages, session.format, session.source
            )
        for path in report.gone if verbose else ():
            out.row("gone", "", 0, 0, "", path)
    if out.is_terminal and changed and not quiet:
        if verbose:
            out.rows(*_sessions(changed))
            out.line()
        out.rows(*_news(changed))
        out.line()
    _print_problems(report, is_terminal=out.is_terminal, verbose=verbose)
    if quiet:
        return
    if not out.is_terminal:
        click.echo(_sentence_of_news(report), err=True)
        return
    out.line(_told_of_news(report, changed))
    if report.gone:
        stay = "is gone; its sessions stay" if len(report.gone) == 1 else "are gone; their sessions stay"
        out.line(f"{count(len(report.gone), 'file')} {stay}{':' if verbose else '.'}")
        for path in report.gone if verbose else ():
            out.line(f"  {one_line(from_home(path))}")
    if changed:
        for line in _next(settings, report, is_scan=is_scan):
            out.line(line)


def _record_of(path: str, problems: list[Problem]) -> dict[str, object]:
    return {"path": path, "format": None, "read": False, "sessions": [], "problems": problems}


def _news(sessions: Sequence[ImportedSession]) -> tuple[Sequence[Column], list[list[object]]]:
    """A row for each agent, the one with the most that is new first."""
    agents: dict[str, list[ImportedSession]] = {}
    for session in sessions:
        agents.setdefault(session.format, []).append(session)
    columns = [
        Column("AGENT", flexible=True),
        Column("NEW", right=True),
        Column("GROWN", right=True),
        Column("ENTRIES", right=True),
    ]
    rows: list[list[object]] = []
    for agent, own in sorted(agents.items(), key=lambda item: -sum(one.entries for one in item[1])):
        new = sum(one.state == "new" for one in own)
        added = sum(one.entries for one in own)
        rows.append([agent, f"{new:,}", f"{len(own) - new:,}", f"+{added:,}"])
    return columns, rows


def _sentence_of_news(report: ImportReport) -> str:
    """For programs and logs: always the same words."""
    would = "would be " if report.dry_run else ""
    gone = f"; {count(len(report.gone), 'file')} gone" if report.gone else ""
    bad = _of_secrets(report) + (f"; {count(len(report.problems), 'problem')}" if report.problems else "")
    return (
        f"{count(report.new, 'session')} {would}new, {report.grown:,} grown; {count(report.entries, 'entry')}"
        f"{'' if report.dry_run else ' added'}; {report.files_read:,} of {count(report.files, 'file')} read"
        f"{gone}{bad}"
    )


def _told_of_news(report: ImportReport, changed: Sequence[ImportedSession]) -> str:
    """For people."""
    if changed:
        return _told(msgspec.structs.replace(report, sessions=tuple(changed))) + _and_redacted(report)
    return f"Nothing new in {count(report.files, 'file')}."


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


def _sessions(sessions: Sequence[ImportedSession]) -> tuple[Sequence[Column], list[list[object]]]:
    columns = [
        Column("STATE"),
        Column("ADDED", right=True),
        Column("MESSAGES", right=True),
        Column("ID", flexible=True),
        Column("FILE", style="dim", flexible=True, optional=True, leaves=40),
    ]
    rows: list[list[object]] = [
        [one.state, f"{one.entries:,}", f"{one.messages:,}", one.id, from_home(one.source)]
        for one in sessions
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
        f"{_and_trashed(report)}; {added}{_of_secrets(report)}{bad}"
    )


def _of_secrets(report: ImportReport) -> str:
    return f"; {count(report.redacted, 'secret')} replaced" if report.redacted else ""


def _and_redacted(report: ImportReport) -> str:
    """For people."""
    if not report.redacted:
        return ""
    become = "would be" if report.dry_run else "is" if report.redacted == 1 else "are"
    return f" {count(report.redacted, 'secret')} {become} replaced by markers."


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


def _next(settings: Settings, report: ImportReport, *, is_scan: bool) -> list[str]:
    if report.dry_run:
        return ["Nothing was written: leave out --dry-run to import."]
    steps = {
        clew_command(settings, "ls"): "the sessions, newest first",
        clew_command(settings, "search", "WORDS"): "where something was said",
    }
    if not report.new and not report.grown:
        return []
    if is_scan and not _is_followed(settings):
        steps[f"{clew_command(settings, 'watch')} --install"] = "bring what is to come, by itself"
    width = max(map(len, steps))
    return ["", *(f"  {typed:<{width}}   {what}" for typed, what in steps.items())]


def _is_followed(settings: Settings) -> bool:
    """Whether a watcher does this already."""
    from clew.importers.follow.lease import holder_of

    return holder_of(settings.store) is not None


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
