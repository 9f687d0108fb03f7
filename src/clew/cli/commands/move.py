"""`clew checkpoint`, `rewind`, `undo`, `redo`, `fork`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

import clew
from clew.cli.app import Settings, command, session_argument
from clew.cli.commands.files import conflict_option, exclude_option, include_option, say_left_out
from clew.cli.output import Output, yes_option
from clew.cli.store import opened, point_in, session_of, spot_of
from clew.cli.text import count
from clew.model.files import RestoreReport

if TYPE_CHECKING:
    from clew.model.files import OnConflict


@command(
    "checkpoint",
    "clew checkpoint login plan            name the place where login stands",
    "clew checkpoint login plan --files .  with the files of this directory",
    "clew checkpoint login                 list them",
)
@session_argument("id")
@click.argument("name", required=False)
@click.option(
    "--files", type=click.Path(exists=True, file_okay=False), help="Store this directory with the checkpoint."
)
@include_option
@exclude_option
@click.option("-d", "--delete", is_flag=True, help="Remove the name; the entries stay.")
@click.pass_obj
def checkpoint_command(
    settings: Settings,
    id: str,
    name: str | None,
    files: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    delete: bool,
) -> None:
    """Piped list: name, position, time (UTC), session and snapshot, separated by tabs."""
    if files is None and (include or exclude):
        raise click.UsageError("--include and --exclude go with --files")
    out = Output(settings)
    with opened(settings) as store:
        session = session_of(store, id, whole=delete)
        if name is None:
            _list_checkpoints(out, session)
            return
        if delete:
            session.get_checkpoint(name)
            session.delete_checkpoint(name)
            out.line(f"{name} is forgotten; the entries stay")
            return
        made = session.checkpoint(name, files=files, include=include, exclude=exclude)
        left_out = store.get_snapshot(made.snapshot).skipped if made.snapshot else ()
    if out.json:
        out.record(made)
    else:
        kept = f", with the files of {Path(files).resolve()}" if files else ""
        out.line(f"{made.name} is entry {made.position} of {session.id}{kept}")
    say_left_out(left_out)


def _list_checkpoints(out: Output, session: clew.Session) -> None:
    from clew.cli.text import ago, iso

    found = session.checkpoints()
    if out.json:
        for checkpoint in found:
            out.record(checkpoint)
    elif not out.is_terminal:
        for one in found:
            out.row(one.name, one.position, iso(one.created_at), one.session, one.snapshot)
    else:
        from clew.cli.output import Column

        columns = (
            Column("NAME", "yellow", flexible=True),
            Column("AT", right=True),
            Column("SET", "bright_black"),
            Column("FILES", "bright_black"),
        )
        out.rows(columns, [(c.name, c.position, ago(c.created_at), c.snapshot) for c in found])


@command(
    "rewind",
    "clew rewind login plan            to the checkpoint plan",
    "clew rewind login 12              so that entry 12 is the last one",
    "clew rewind login plan --files    with the files of the checkpoint",
    "clew undo login                   back again",
)
@session_argument("id")
@click.argument("to")
@click.option("--files", is_flag=True, help="Also restore the files of that place.")
@click.option("--root", type=click.Path(), help="With --files: the directory to restore them in.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@conflict_option
@yes_option
@click.pass_obj
def rewind_command(
    settings: Settings,
    id: str,
    to: str,
    files: bool,
    root: str | None,
    dry_run: bool,
    on_conflict: OnConflict,
    yes: bool,
) -> None:
    """A place is a checkpoint, a position or the id of an entry. With --files the directory becomes what it
    was there: the changes are shown, and you are asked. The present state is kept first, and clew undo
    brings it back. --files takes a whole id, not the beginning of one.
    """
    from clew.cli.commands.files import ask_for
    from clew.cli.store import place_of

    if root is not None and not files:
        raise click.UsageError("--root is for --files: the conversation has no directory")
    out = Output(settings)
    with opened(settings) as store:
        session = session_of(store, id, whole=files)
        point = point_in(session, to)
        before = session.info
        plan = session.restore_files(point, root, dry_run=True, on_conflict=on_conflict) if files else None
        if dry_run:
            _say_dry(out, session, place_of(session, point), before, plan)
            return
        if plan is not None:
            ask_for(plan, yes=yes)
        moved = session.rewind(point, files=root or files, on_conflict=on_conflict)
        _say_moved(out, session, before, moved)


def _say_dry(
    out: Output,
    session: clew.Session,
    there: clew.Head,
    before: clew.SessionInfo,
    plan: RestoreReport | None,
) -> None:
    from clew.cli.commands.files import change_lines, summary

    if out.json:
        out.record({"id": session.id, "dry_run": True, "head": before.head, "to": there, "files": plan})
        return
    if plan is not None:
        out.texts(change_lines(plan))
        out.line(summary(plan))
    out.line(f"{session.id} would go from {place_words(before.head)} to {place_words(there)}")


root_option = click.option("--root", type=click.Path(), help="The directory to restore the files in.")
dry_option = click.option("--dry-run", is_flag=True, help="Only show what would be done.")


@command("undo", "clew undo login", "clew undo login --dry-run         what would be done")
@session_argument("id")
@root_option
@dry_option
@yes_option
@click.pass_obj
def undo_command(settings: Settings, id: str, root: str | None, dry_run: bool, yes: bool) -> None:
    """Files that it restored come back too: the changes are shown, and you are asked. A directory in
    which you have not used this store before is not touched unless --root names it. Takes a whole id or an
    alias.
    """
    _move(settings, id, "undo", root, dry_run=dry_run, yes=yes)


@command("redo", "clew redo login")
@session_argument("id")
@root_option
@dry_option
@yes_option
@click.pass_obj
def redo_command(settings: Settings, id: str, root: str | None, dry_run: bool, yes: bool) -> None:
    """Files are treated as by clew undo. Takes a whole id or an alias."""
    _move(settings, id, "redo", root, dry_run=dry_run, yes=yes)


def _move(settings: Settings, id: str, verb: str, root: str | None, *, dry_run: bool, yes: bool) -> None:
    from clew.cli.commands.files import ask_for

    out = Output(settings)
    with opened(settings) as store:
        session = session_of(store, id, whole=True)  # it may change files
        before = session.info
        move = session.undo if verb == "undo" else session.redo
        plan = move(root=root, dry_run=True)
        if dry_run:
            _say_dry(out, session, clew.Head(plan.branch, plan.position), before, plan.files)
            return
        if plan.files is not None:
            ask_for(plan.files, yes=yes)
        _say_moved(out, session, before, move(root=root))


def _say_moved(out: Output, session: clew.Session, before: clew.SessionInfo, moved: clew.model.Moved) -> None:
    after = session.info
    if out.json:
        out.record(
            {
                "id": after.id,
                "head": after.head,
                "messages": after.messages,
                "came_from": before.head,
                "files": moved.files,
            }
        )
        return
    if moved.files is not None:
        from clew.cli.commands.files import summary

        out.line(summary(moved.files))
    out.line(
        f"{after.id} stands at {place_words(after.head)} with {count(after.messages, 'message')}; "
        f"it was at {place_words(before.head)} with {before.messages:,}"
    )


def place_words(head: clew.Head) -> str:
    return f"entry {head.position}" if head.position >= 0 else "the beginning"


@command(
    "fork",
    "clew fork login                   login#fork-1 begins where login stands",
    "clew fork login@plan try-b        try-b begins at the checkpoint plan",
)
@session_argument("id", metavar="ID[@PLACE]")
@click.argument("new_id", required=False)
@click.pass_obj
def fork_command(settings: Settings, id: str, new_id: str | None) -> None:
    """No message is copied, and neither session changes the other."""
    out = Output(settings)
    with opened(settings) as store:
        session, point = spot_of(store, id)
        forked = session.fork(new_id, at=point).info
    if out.json:
        out.record(forked)
    else:
        out.line(f"{forked.id} begins at {place_words(forked.head)} of {session.id}")
