"""What a restore does to files, in words: before it is done, and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from clew.cli.output import agreed
from clew.cli.text import ago, count, one_line
from clew.core.messages.shell import quoted

if TYPE_CHECKING:
    from rich.text import Text

    import clew
    from clew.model.files import FileChange, RestoreReport

SHOWN: Final = 20
"""Lines of each kind that are printed; the rest is counted. --json has all."""
_USUAL: Final = ("ignored", "secret", "repository", "nested repository", "store")
"""What stays in every restore is counted, not listed."""
_WHY: Final = {"changed": "changed since the last snapshot", "unknown": "no snapshot knows it"}
_STYLES: Final = {"restore": "green", "delete": "red", "keep": "yellow", "fail": "bold red"}
_DONE: Final = {"restore": "restored", "delete": "deleted", "keep": "kept", "fail": "failed"}
_WILL: Final = {verb: f"would {verb}" for verb in _DONE}
_WIDTH: Final = {True: len("would restore"), False: len("restored")}


class Unfinished(NamedTuple):
    """A restore that began and is not over, and what to do about it."""

    text: str
    step: str


def unfinished(store: clew.Store) -> list[Unfinished]:
    """Restores of files that were cut off, in words."""
    return [
        Unfinished(
            f"the restore of {one.root} that began {ago(one.at)} is not finished"
            + ("" if one.session is None else f", so {one.session} did not move"),
            f"clew restore --finish {quoted(one.id)}, or clew restore --undo {quoted(one.id)}",
        )
        for one in store.pending_restores()
    ]


def say_unfinished(store: clew.Store) -> None:
    """Mention restores that were cut off, where somebody may take the files for whole."""
    for one in unfinished(store):
        click.echo(f"clew: {one_line(one.text)}; {one_line(one.step)}", err=True)


class Step(NamedTuple):
    """One path, and what became of it."""

    verb: str
    path: str
    note: str = ""


def steps(report: RestoreReport) -> Iterator[Step]:
    """What could not be done comes first, then what was done, then what stayed."""
    for failure in report.failed:
        yield Step("fail", failure.path, failure.reason)
    failed = {failure.path for failure in report.failed}
    for change in report.changes:
        if change.path not in failed:
            yield Step("delete" if change.verb == "delete" else "restore", change.path, _note(change))
    for kept in report.kept:
        if kept.reason not in _USUAL:
            yield Step("keep", kept.path, _WHY.get(kept.reason, kept.reason))


def _note(change: FileChange) -> str:
    notes = {"create": "it was gone", "mode": "only its mode"}
    found = [notes[change.verb]] if change.verb in notes else []
    if change.conflict:
        found.append(f"{'new or ' if change.verb == 'delete' else ''}changed since the last snapshot")
    return ", ".join(found)


def change_lines(report: RestoreReport) -> Iterator[str]:
    """One line for each path that a restore changes, or would change, or keeps for a reason of its own."""
    words = _WILL if report.dry_run else _DONE
    for step in steps(report):
        yield _line(step, words, _WIDTH[report.dry_run])


def _line(step: Step, words: dict[str, str], width: int) -> str:
    note = f"  ({one_line(step.note)})" if step.note else ""
    return f"{words[step.verb]:<{width}}  {one_line(step.path)}{note}"


def report_lines(report: RestoreReport) -> Iterator[Text]:
    """The same for the screen, up to a number, and how many there are of each kind."""
    from rich.text import Text

    words, width = (_WILL if report.dry_run else _DONE), _WIDTH[report.dry_run]
    told: Counter[str] = Counter()
    for step in steps(report):
        told[step.verb] += 1
        if told[step.verb] <= SHOWN:
            yield Text.assemble("  ", (_line(step, words, width), _STYLES[step.verb]))
    more = ", ".join(f"{words[verb]} {n - SHOWN:,} more" for verb, n in told.items() if n > SHOWN)
    if more:
        yield Text(f"  … and {more}; --json has all", style="bright_black")
    yield Text(summary(report))


def summary(report: RestoreReport) -> str:
    """How many paths were restored, deleted and kept, in one line."""
    failed = {failure.path for failure in report.failed}
    restored = sum(path not in failed for path in report.restored)
    deleted = sum(path not in failed for path in report.deleted)
    numbers = {"restore": restored, "delete": deleted, "keep": len(report.kept), "fail": len(failed)}
    words = {verb: verb for verb in _DONE} if report.dry_run else _DONE
    parts = [f"{words[verb]} {number:,}" for verb, number in numbers.items() if number]
    if report.kept:
        reasons = Counter(kept.reason for kept in report.kept).most_common()
        at = list(filter(numbers.get, numbers)).index("keep")
        parts[at] += f" ({', '.join(f'{many:,} {reason}' for reason, many in reasons)})"
    would = "would " if report.dry_run and parts else ""
    nothing = "" if restored or deleted or failed else "no file differs; " if parts else "no file differs"
    return f"{one_line(report.root)}: {nothing}{would}{', '.join(parts)}"


def ask_for(plan: RestoreReport, *, yes: bool) -> None:
    """Show where a restore works and what it will do there, and ask, if it does anything."""
    if plan.changes:
        question = f"Change {count(len(plan.changes), 'path')} in {plan.root}?"
        agreed(question, (summary(plan), *change_lines(plan)), yes=yes)


def safety_line(report: RestoreReport, back: str) -> str | None:
    """Where the state before the restore is, and the command that brings it back."""
    if report.safety is None or report.dry_run or not report.changes:
        return None
    return f"{back} brings back what was there before (snapshot {report.safety})"
