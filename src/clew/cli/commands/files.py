"""`clew snapshot`, `files`, `cat`, `diff`, `restore` and `gc`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

import clew
from clew.cli.app import (
    PARTLY,
    Refused,
    SessionArgument,
    Settings,
    command,
    complete_with,
    session_argument,
)
from clew.cli.output import Output, on_files, progress, yes_option
from clew.cli.store import SHOWN, opened, session_of, spot_of
from clew.cli.text import ago, clean, clew_command, count, iso, local, one_line, size
from clew.cli.views.restoring import ask_for, report_lines, safety_line, summary
from clew.core.messages.shell import quoted, typed
from clew.errors import RootNotNamedError, SessionNotFoundError, SnapshotNotFoundError
from clew.files.roots import check_root

if TYPE_CHECKING:
    from rich.text import Text

    from clew.model.files import FileDiff, OnConflict, RestoreReport, Skipped

# -- restore

conflict_option = click.option(
    "--on-conflict",
    type=click.Choice(["keep", "overwrite", "refuse"]),
    default="overwrite",
    show_default=True,
    help="What to do with files that changed since the last snapshot",
)

_STEP_SIGNS = {"create": "A", "overwrite": "M", "delete": "D", "mode": "m"}


@command(
    "restore",
    "clew restore login@plan --dry-run      show what would be done",
    "clew restore login@plan                restore the files of the checkpoint plan",
    "clew restore SNAPSHOT src/auth.py      restore one file",
    "clew restore --undo RESTORE            undo a restore",
    "clew restore --pending                 list restores that were interrupted",
)
@click.argument(
    "what",
    cls=SessionArgument,
    required=False,
    metavar="SNAPSHOT | ID@PLACE",
    shell_complete=complete_with("complete_session"),
)
@click.argument("paths", nargs=-1)
@click.option(
    "--to",
    "--root",
    "to",
    type=click.Path(),
    help="Restore in this directory, not where the snapshot was taken",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing")
@click.option("--force", is_flag=True, help="Accept a directory that would be refused")
@click.option("--undo", metavar="RESTORE", help="Undo a restore, finished or interrupted")
@click.option("--finish", metavar="RESTORE", help="Finish a restore that was interrupted")
@click.option("--pending", is_flag=True, help="List the restores that were interrupted")
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
    """The conversation does not move. The changes are shown first, and you are asked.

    Files that are newer than the snapshot are deleted; the present state is saved first, so that you can undo
    the restore. Files that no snapshot holds, such as ignored ones, stay. A directory in which you have not
    used this store before is not touched unless --to names it.

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
                return _print_report(out, settings, plan)
            ask_for(plan, yes=yes)
            return _print_report(out, settings, go_on())
        snapshot = snapshot_of(store, str(what))
        plan = store.restore(
            snapshot, to, paths=paths or None, dry_run=True, on_conflict=on_conflict, force=force
        )
        if dry_run:
            return _print_report(out, settings, plan)
        ask_for(plan, yes=yes)
        with progress("restoring") as told:
            report = store.restore(
                snapshot,
                to,
                paths=paths or None,
                on_conflict=on_conflict,
                force=force,
                on_progress=on_files(told),
            )
        return _print_report(out, settings, report)


def snapshot_of(store: clew.Store, text: str) -> str:
    """The id of a snapshot: by the beginning of it, or that of a checkpoint as `ID@name`."""
    found = [one.id for one in store.snapshots(limit=100_000) if one.id.startswith(text)] if text else []
    if text in found:
        return text
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(found[:SHOWN])
        raise Refused(f"{len(found)} snapshots begin with {text!r}: {shown}; type more of it")
    if "@" in text:
        try:
            return _kept_at(store, text)
        except SessionNotFoundError:
            pass
    raise SnapshotNotFoundError(text)


def _kept_at(store: clew.Store, text: str) -> str:
    from clew.files.rewind import snapshot_at

    session, point = spot_of(store, text)
    with session._look() as (reader, row):
        return snapshot_at(reader, row, session.head if point is None else point)


def _print_report(out: Output, settings: Settings, report: RestoreReport) -> int:
    if out.json:
        out.record(report)
        return PARTLY if report.failed else 0
    back = safety_line(report, clew_command(settings, "restore", "--undo", report.id or ""))
    if out.is_terminal:
        out.texts([*report_lines(report), *([] if back is None else [one_line(back)])])
    else:
        for change in report.changes:
            out.row(_STEP_SIGNS[change.verb], change.path, change.size)
        for failure in report.failed:
            click.echo(f"clew: {one_line(failure.path)}: {one_line(failure.reason)}", err=True)
        click.echo(summary(report), err=True)
        if back is not None:
            click.echo(one_line(back), err=True)
    return PARTLY if report.failed else 0


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


# -- snapshot, files, cat, diff, gc

include_option = click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Save files that are left out otherwise, such as ignored ones",
)
exclude_option = click.option("--exclude", multiple=True, metavar="PATTERN", help="Leave out these files too")

_NAMED: Final = 5
"""Paths that one line lists: the rest is counted."""


def say_left_out(skipped: Sequence[Skipped]) -> None:
    """One line for all that may hold secrets, and one for each of the others."""
    secrets = [one_line(one.path) for one in skipped if one.reason == "secret"]
    if secrets:
        more = f" and {len(secrets) - _NAMED:,} more" if len(secrets) > _NAMED else ""
        click.echo(
            f"left out {len(secrets):,} that may hold secrets: {', '.join(secrets[:_NAMED])}{more};"
            f" --include takes {'it' if len(secrets) == 1 else 'them'}",
            err=True,
        )
    for one in skipped:
        if one.reason != "secret":
            click.echo(f"left out: {one_line(one.path)} ({one.reason})", err=True)


_SIGNS = {
    "added": "A", "removed": "D", "modified": "M", "mode": "m", "type": "T", "renamed": "R",
    "unrecorded": "?",
}  # fmt: skip
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@command(
    "snapshot",
    "clew snapshot  save this directory",
    "clew snapshot ~/shop --exclude '*.log'",
)
@click.argument("root", type=click.Path(exists=True, file_okay=False), default=".")
@include_option
@exclude_option
@click.option("--force", is_flag=True, help="Accept a directory that would be refused, such as a home")
@click.pass_obj
def snapshot_command(
    settings: Settings, root: str, include: tuple[str, ...], exclude: tuple[str, ...], force: bool
) -> None:
    """Secrets, and files that .gitignore and .clewignore name, are left out."""
    out = Output(settings)
    check_root(root, force=force)  # before there is a store
    with opened(settings, create=True) as store, progress("snapshot") as told:
        taken = store.snapshot(
            root, include=include, exclude=exclude, force=force, on_progress=on_files(told)
        )
    if out.json:
        out.record(taken)
        return
    out.line(f"{taken.id}  {count(taken.files, 'file')}, {size(taken.bytes)}, new: {size(taken.new_bytes)}")
    say_left_out(taken.skipped)


@command(
    "files",
    "clew files                            list all snapshots, newest first",
    "clew files --root .                   list those of this directory",
    "clew files login                      list the files that changed in a session",
    "clew files login src/auth.py          list where this file changed",
)
@session_argument("id", required=False)
@click.argument("path", required=False)
@click.option("--root", type=click.Path(), help="List only snapshots of this directory")
@click.option(
    "-n", "--limit", type=click.IntRange(1), default=50, show_default=True, help="List at most N snapshots"
)
@click.pass_obj
def files_command(settings: Settings, id: str | None, path: str | None, root: str | None, limit: int) -> None:
    """List snapshots of directories, or the files of a session that its checkpoints recorded.

    Piped: id, kind, time (UTC), files, bytes and root; of a session: path, how often it changed, time, verb
    and size of the last change; of one file: checkpoint, position, time, verb and size; separated by tabs."""
    out = Output(settings)
    with opened(settings) as store:
        if id is not None:
            session = session_of(store, id)
            if path is None:
                _files_of_session(out, store, session, limit)
            else:
                _file_history(out, session, path)
            return
        found = store.snapshots(root=root, limit=limit)
    if out.json:
        for one in found:
            out.record(one)
    elif not out.is_terminal:
        for one in found:
            out.row(one.id, one.kind, iso(one.created_at), one.files, one.bytes, one.root)
    elif not found:
        out.line("no snapshots")
    else:
        from clew.cli.names import beginnings
        from clew.cli.table import Column

        ids = beginnings([one.id for one in found])
        columns = (
            Column("ID", "cyan"),
            Column("KIND", "bright_black", optional=True),
            Column("TAKEN", "bright_black", optional=True),
            Column("FILES", right=True),
            Column("SIZE", right=True),
            Column("ROOT", flexible=True),
        )
        rows = [(ids[s.id], s.kind, ago(s.created_at), s.files, size(s.bytes), s.root) for s in found]
        out.rows(columns, rows)


def _files_of_session(out: Output, store: clew.Store, session: clew.Session, limit: int) -> None:
    """The files that are not the same at all checkpoints, those that changed last first."""
    found = [
        (path, versions)
        for path in _changed_paths(store, session)
        if (versions := session.file_history(path))
    ]
    found.sort(key=lambda one: (one[1][-1].at, one[0]), reverse=True)
    if out.json:
        for path, versions in found[:limit]:
            out.record({"path": path, "versions": versions})
        return
    if not out.is_terminal:
        for path, versions in found[:limit]:
            last = versions[-1]
            out.row(path, len(versions), iso(last.at), last.verb, last.size)
        return
    if not found:
        out.line("no file changed between its checkpoints")
        return
    from clew.cli.table import Column

    columns = (
        Column("FILE", flexible=True),
        Column("CHANGES", right=True, optional=True),
        Column("WHEN", "bright_black", optional=True),
        Column("LAST"),
        Column("SIZE", right=True),
    )
    out.rows(
        columns,
        [
            (path, len(versions), ago(versions[-1].at), versions[-1].verb, size(versions[-1].size or 0))
            for path, versions in found[:limit]
        ],
    )
    if len(found) > limit:
        click.echo(f"{limit:,} of {count(len(found), 'file')}; -n {len(found)} shows all", err=True)


def _changed_paths(store: clew.Store, session: clew.Session) -> set[str]:
    """Paths that differ between two checkpoints. Files that came with an import are those that its agent
    changed: all of them count."""
    taken = [checkpoint.snapshot for checkpoint in session.checkpoints() if checkpoint.snapshot is not None]
    paths: set[str] = set()
    for before, after in pairwise(dict.fromkeys(taken)):
        paths.update(one.path for one in store.diff(before, after, renames=False))
    for id in dict.fromkeys(taken):
        if not store.get_snapshot(id).root:
            paths.update(one.path for one in store.list_files(id) if one.kind != "directory")
    return paths


def _file_history(out: Output, session: clew.Session, path: str) -> None:
    found = session.file_history(path)
    if out.json:
        for version in found:
            out.record(version)
        return
    if not out.is_terminal:
        for one in found:
            out.row(one.checkpoint, one.position, iso(one.at), one.verb, one.size)
        return
    from clew.cli.table import Column
    from clew.cli.views.checkpoints import checkpoint_cells

    columns = (
        Column("CHECKPOINT", "yellow", flexible=True),
        Column("AT", right=True),
        Column("WHEN", "bright_black"),
        Column("DONE"),
        Column("SIZE", right=True),
    )
    cells = checkpoint_cells(session)
    rows = [
        (cells.get(v.checkpoint, v.checkpoint), v.position, ago(v.at), v.verb, size(v.size or 0))
        for v in found
    ]
    out.rows(columns, rows)


@command(
    "cat",
    "clew cat login@plan src/auth.py       print it as it was at the checkpoint plan",
    "clew cat 01a1e02d logo.png > logo.png  save its exact bytes",
)
@click.argument(
    "what",
    cls=SessionArgument,
    metavar="SNAPSHOT | ID@PLACE",
    shell_complete=complete_with("complete_session"),
)
@click.argument("path")
@click.pass_obj
def cat_command(settings: Settings, what: str, path: str) -> None:
    """It changes nothing on the disk.
    Piped: its exact bytes. With --json: its text is null if it is not UTF-8.
    """
    out = Output(settings)
    with opened(settings) as store:
        snapshot = snapshot_of(store, what)
        content = store.read_file(snapshot, path)
    if out.json:
        out.record({"snapshot": snapshot, "path": path, "size": len(content), "text": _text(content)})
    elif out.is_terminal:
        text = content.decode(errors="replace").replace("\r\n", "\n").removesuffix("\n")
        out.texts(clean(line) for line in text.split("\n"))
    else:
        sys.stdout.buffer.write(content)


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


@command(
    "diff",
    "clew diff 01a1e02d                    compare a snapshot with its directory now",
    "clew diff login@plan login@done       compare two checkpoints",
    "clew diff login@plan src --stat       compare with a directory, names only",
)
@click.argument(
    "a",
    cls=SessionArgument,
    metavar="SNAPSHOT | ID@PLACE",
    shell_complete=complete_with("complete_session"),
)
@click.argument("b", required=False, metavar="[SNAPSHOT | ID@PLACE | DIRECTORY]")
@click.option("--stat", is_flag=True, help="Show only the names of files that differ")
@click.pass_obj
def diff_command(settings: Settings, a: str, b: str | None, stat: bool) -> None:
    """Piped with --stat: sign (`?`: one side does not record the file), path, old path, old size and size,
    separated by tabs; without: a unified diff."""
    out = Output(settings)
    with opened(settings) as store:
        first = snapshot_of(store, a)
        root = store.get_snapshot(first).root
        other: str | Path | None
        if b is None:
            if not root:
                raise click.UsageError(
                    f"the files of {a} came with an import: name a directory to compare with"
                )
            other = None
        else:
            other = Path(b) if Path(b).is_dir() else snapshot_of(store, b)
        try:
            found = store.diff(first, other, text=not stat)
        except RootNotNamedError as exc:
            said = str(exc).partition("; pass ")[0]
            raise Refused(
                f"{said}; name the directory to compare with: clew diff {typed(a)} DIRECTORY"
            ) from exc
    if out.json:
        for one in found:
            out.record(one)
    elif stat and not out.is_terminal:
        for one in found:
            out.row(_SIGNS[one.status], one.path, one.old_path, one.old_size, one.size)
    else:
        lines = _diff_lines([one for one in found if one.status != "unrecorded"], stat=stat)
        out.texts(_coloured(lines) if out.is_terminal else lines)
        unrecorded = [one for one in found if one.status == "unrecorded"]
        now = root if other is None else str(other) if isinstance(other, Path) else None
        missing_there = f"left out of {now} now" if now is not None else f"not recorded at {b}"
        _say_unrecorded(f"not recorded at {a}", [one.path for one in unrecorded if one.old_size is None])
        _say_unrecorded(missing_there, [one.path for one in unrecorded if one.old_size is not None])


def _say_unrecorded(what: str, paths: Sequence[str]) -> None:
    """Not what a diff is made of: on standard error."""
    if paths:
        named = ", ".join(one_line(path) for path in paths[:_NAMED])
        more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
        click.echo(f"{one_line(what)}: {named}{more}", err=True)


def _diff_lines(found: list[FileDiff], *, stat: bool) -> Iterator[str]:
    for one in found:
        was = f"{one_line(one.old_path)} → " if one.old_path else ""
        if stat or one.text is None:
            yield f"{_SIGNS[one.status]}  {was}{one_line(one.path)}"
        else:
            # Each line by itself: a carriage return inside of one is shown, not obeyed.
            yield from (clean(line) for line in one.text.rstrip("\n").split("\n"))


def _coloured(lines: Iterator[str]) -> Iterator[Text]:
    from rich.text import Text

    for line in lines:
        bold = line.startswith(("--- ", "+++ "))
        yield Text(line, style="bold" if bold else _COLOURS.get(line[:1], ""))


@command("gc", "clew gc --dry-run  show what would be removed", "clew gc", "clew gc --merge")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing")
@click.option("--thorough", is_flag=True, help="Rewrite packs, so that no removed byte is left in them")
@click.option("--merge", is_flag=True, help="Join small packs, to save space")
@click.pass_obj
def gc_command(settings: Settings, dry_run: bool, thorough: bool, merge: bool) -> None:
    """It keeps the files of sessions in the trash. The store does not get smaller; `clew vacuum` returns the
    space to the system.
    """
    out = Output(settings)
    with opened(settings) as store, progress("gc") as told:
        report = store.gc(dry_run=dry_run, thorough=thorough, merge=merge, on_progress=on_files(told))
    if out.json:
        out.record(report)
    else:
        would = "would be removed" if dry_run else "removed"
        out.line(f"{count(report.objects, 'object')}, {size(report.bytes)} {would}")
        if merge:
            out.line(f"{size(report.merged)} {'would be saved' if dry_run else 'saved'} by merging packs")
