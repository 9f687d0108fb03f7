"""`clew restore`: make a directory what it was, and what to do about a restore that was cut off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import click

import clew
from clew.cli.app import PARTLY, Refused, Settings, command
from clew.cli.output import Output
from clew.cli.prompt import agreed, yes_option
from clew.cli.store import SHOWN, opened, spot_of
from clew.cli.text import count, local, one_line, quoted
from clew.errors import SessionNotFoundError, SnapshotNotFoundError

if TYPE_CHECKING:
    from clew.model.files import FileVerb, OnConflict, RestoreReport

conflict_option = click.option(
    "--on-conflict",
    type=click.Choice(["keep", "overwrite", "refuse"]),
    default="overwrite",
    show_default=True,
    help="What to do with files that changed, or were added, since the last snapshot.",
)

_SIGNS = {"create": "A", "overwrite": "M", "delete": "D", "mode": "m"}
_DONE: dict[FileVerb, str] = {
    "create": "created",
    "overwrite": "overwritten",
    "delete": "removed",
    "mode": "with another mode",
}
_USUAL = ("ignored", "secret", "repository", "nested repository", "store")
"""What stays in every restore is counted, not listed."""
_WHY = {"changed": "it changed since the last snapshot", "unknown": "no snapshot knows it"}


@command(
    "restore",
    "clew restore login@plan --dry-run      what would be done",
    "clew restore login@plan                the files of the checkpoint plan of login",
    "clew restore SNAPSHOT src/auth.py      one file, of a snapshot",
    "clew restore --undo RESTORE            bring back what a restore replaced",
    "clew restore --pending                 restores that were interrupted",
)
@click.argument("what", required=False, metavar="SNAPSHOT | ID@PLACE")
@click.argument("paths", nargs=-1)
@click.option(
    "--to",
    "--root",
    "to",
    type=click.Path(),
    help="Restore in this directory, not where the snapshot was taken.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--force", is_flag=True, help="Accept a directory that would be refused.")
@click.option("--undo", metavar="RESTORE", help="Take back a restore, finished or interrupted.")
@click.option("--finish", metavar="RESTORE", help="Finish a restore that was interrupted.")
@click.option("--pending", is_flag=True, help="List the restores that were interrupted.")
@conflict_option
@yes_option
@click.pass_obj
def restore_command(
    settings: Settings,
    what: str | None,
    paths: tuple[str, ...],
    to: str | None,
    dry_run: bool,
    force: bool,
    undo: str | None,
    finish: str | None,
    pending: bool,
    on_conflict: OnConflict,
    yes: bool,
) -> int:
    """The conversation does not move. Files that came since are deleted; the present state is kept first, so
    that you can take the restore back. Files that no snapshot holds, such as ignored ones, stay. The changes
    are shown, and you are asked. A directory in which you have not used this store before is not
    touched unless --to names it. Takes whole ids; clew files --json has those of snapshots.

    Piped: verb (A, M, D, m), path and size, separated by tabs.
    """
    if sum(map(bool, (what, undo, finish, pending))) != 1:
        raise click.UsageError("name a snapshot or ID@PLACE, or one of --undo, --finish, --pending")
    out = Output(settings)
    with opened(settings) as store:
        if pending:
            return _list_pending(out, store)
        if undo or finish:
            go_on = partial(store.undo_restore if undo else store.finish_restore, undo or str(finish), to)
            plan = go_on(dry_run=True)
            if dry_run:
                return _print_report(out, plan)
            ask_for(plan, yes=yes)
            return _print_report(out, go_on())
        snapshot = snapshot_of(store, str(what), whole=True)
        plan = store.restore(
            snapshot, to, paths=paths or None, dry_run=True, on_conflict=on_conflict, force=force
        )
        if dry_run:
            return _print_report(out, plan)
        ask_for(plan, yes=yes)
        from clew.cli.prompt import on_files, progress

        with progress("restoring") as told:
            report = store.restore(
                snapshot,
                to,
                paths=paths or None,
                on_conflict=on_conflict,
                force=force,
                on_progress=on_files(told),
            )
        return _print_report(out, report)


def snapshot_of(store: clew.Store, text: str, *, whole: bool = False) -> str:
    """The id of a snapshot: by the beginning of it, or that of a checkpoint as `ID@name`.

    `whole`: only by the whole id, for what changes files.
    """
    found = [one.id for one in store.snapshots(limit=100_000) if one.id.startswith(text)] if text else []
    if text in found:
        return text
    if len(found) == 1 and not whole:
        return found[0]
    if found:
        shown = ", ".join(found[:SHOWN])
        if whole:
            raise Refused(f"{text!r} is not a whole id, and this takes whole ids only: {shown}")
        raise Refused(f"{len(found)} snapshots begin with {text!r}: {shown}; type more of it")
    if "@" in text:
        try:
            return _kept_at(store, text, whole)
        except SessionNotFoundError:
            pass
    raise SnapshotNotFoundError(text)


def _kept_at(store: clew.Store, text: str, whole: bool) -> str:
    session, point = spot_of(store, text, whole=whole)
    missing = f"no checkpoint of session {session.id!r} up to there has files"
    if isinstance(point, str):
        kept = session.get_checkpoint(point).snapshot
        missing = f"checkpoint {point!r} of session {session.id!r} has no files"
    else:
        before = session.head.position if not isinstance(point, int) else point
        found = [(c.position, c.snapshot) for c in session.checkpoints() if c.snapshot]
        kept = max((one for one in found if one[0] <= before), default=(0, None))[1]
    if kept is None:
        raise SnapshotNotFoundError(None, missing)
    return kept


def ask_for(plan: RestoreReport, *, yes: bool) -> None:
    """Show where a restore works and what it will do there, and ask, if it does anything."""
    if not plan.changes:
        return
    verbs = Counter(change.verb for change in plan.changes)
    counted = ", ".join(f"{verbs[verb]:,} {word}" for verb, word in _DONE.items() if verbs[verb])
    lines = (counted, *change_lines(plan))
    agreed(f"Change {count(len(plan.changes), 'path')} in {plan.root}?", lines, yes=yes)


def change_lines(report: RestoreReport) -> Iterator[str]:
    """One line for each thing that a restore does, or would do."""
    for change in report.changes:
        note = "  changed since the last snapshot" if change.conflict else ""
        yield f"{_SIGNS[change.verb]}  {one_line(change.path)}{note}"
    for kept in report.kept:
        if kept.reason not in _USUAL:
            yield f"=  {one_line(kept.path)}  kept: {_WHY.get(kept.reason, kept.reason)}"


def _print_report(out: Output, report: RestoreReport) -> int:
    if out.json:
        out.record(report)
        return PARTLY if report.failed else 0
    if not out.is_terminal:
        for change in report.changes:
            out.row(_SIGNS[change.verb], change.path, change.size)
    else:
        out.texts(change_lines(report))
    for failure in report.failed:
        click.echo(f"clew: {one_line(failure.path)}: {one_line(failure.reason)}", err=True)
    back = f"; clew restore --undo {quoted(report.id)} takes it back" if report.id else ""
    click.echo(one_line(summary(report) + back), err=True)
    return PARTLY if report.failed else 0


def summary(report: RestoreReport) -> str:
    """How many paths were restored, deleted and kept, in one line."""
    parts = [f"{len(report.restored):,} restored", f"{len(report.deleted):,} deleted"]
    if report.kept:
        reasons = Counter(kept.reason for kept in report.kept).most_common()
        parts.append(
            f"{len(report.kept):,} kept ({', '.join(f'{number:,} {reason}' for reason, number in reasons)})"
        )
    would = "would be: " if report.dry_run else ""
    return f"{one_line(report.root)}: {would}{', '.join(parts)}"


def _list_pending(out: Output, store: clew.Store) -> int:
    for one in store.pending_restores():
        if out.json:
            out.record(one)
        elif out.is_terminal:
            out.line(f"{one.id}  {one.root}  cut off {local(one.at)}")
            out.line(f"  clew restore --finish {quoted(one.id)}  or  clew restore --undo {quoted(one.id)}")
        else:
            out.row(one.id, one.root, one.snapshot, one.at.isoformat(), one.session)
    return 0
