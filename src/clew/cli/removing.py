"""`clew rm` and `clew trash`."""

from __future__ import annotations

import click

import clew
from clew.cli.asking import agreed, yes_option
from clew.cli.output import Output
from clew.cli.settings import Command, Settings, command, session_argument
from clew.cli.store import all_sessions, deleted_id, opened, session_of
from clew.cli.wording import ago, count, iso
from clew.errors import SessionDeletedError, SessionNotFoundError


@command(
    "rm",
    "clew rm login                    into the trash",
    "clew trash restore login         and back",
    "clew rm --purge login            for good, from the trash too",
)
@session_argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--purge", is_flag=True, help="Remove for good: no byte of it stays in the store.")
@click.option("--force", is_flag=True, help="Even while somebody works on it.")
@yes_option
@click.pass_obj
def rm_command(settings: Settings, ids: tuple[str, ...], purge: bool, force: bool, yes: bool) -> None:
    """Put sessions in the trash; with --purge remove them for good."""
    out = Output(settings)
    with opened(settings) as store:
        found = dict.fromkeys(_id_of(store, text, purge) for text in ids)
        question = f"Remove {count(len(found), 'session')} for good?" if purge else "Put this in the trash?"
        agreed(question, [_described(store, id) for id in found], yes=yes or not purge)
        for id in found:
            store.delete(id, purge=purge, force=force)
            done = "purged" if purge else "trashed"
            if out.json:
                out.record({"id": id, "done": done})
            else:
                back = "" if purge else f"; clew trash restore {id} brings it back"
                out.line(f"{id} is {'removed for good' if purge else 'in the trash'}{back}")


def _id_of(store: clew.Store, text: str, purge: bool) -> str:
    try:
        return session_of(store, text).id
    except (SessionDeletedError, SessionNotFoundError):
        if not purge:
            raise
        return deleted_id(store, text)


def _described(store: clew.Store, id: str) -> str:
    session = store.find(id)
    if session is None:
        return f"{id}  (in the trash)"
    info = session.info
    return f"{id}  {count(info.messages, 'message')}, active {ago(info.updated_at)}  {info.title or ''}"


@click.group(
    "trash",
    short_help="List, restore or empty the trash.",
    epilog="\b\nExamples:\n  clew trash ls\n  clew trash restore login\n  clew trash empty",
    context_settings={"help_option_names": ["-h", "--help"]},
)
def trash_command() -> None:
    """List, restore or empty the trash."""


@trash_command.command("ls", cls=Command)
@click.pass_obj
def trash_ls(settings: Settings) -> None:
    """What is in the trash, last removed first.

    Piped: id, messages, when it was removed (UTC) and title, separated by tabs.
    """
    out = Output(settings)
    with opened(settings) as store:
        found = list(all_sessions(store, deleted=True))
    if out.json:
        for info in found:
            out.record(info)
    elif not out.is_terminal:
        for info in found:
            out.row(info.id, info.messages, iso(info.deleted_at), info.title)
    elif not found:
        out.line("the trash is empty")
    else:
        from clew.cli.listing import short_ids
        from clew.cli.table import Column

        ids = short_ids(info.id for info in found)
        columns = (
            Column("ID", "cyan", flexible=True),
            Column("MSGS", right=True),
            Column("REMOVED", "bright_black", optional=True),
            Column("TITLE", flexible=True),
        )
        gone = [(info, info.deleted_at or info.updated_at) for info in found]
        out.rows(columns, [(ids[info.id], info.messages, ago(at), info.title) for info, at in gone])


@trash_command.command("restore", cls=Command)
@session_argument("ids", nargs=-1, required=True, metavar="ID...")
@click.pass_obj
def trash_restore(settings: Settings, ids: tuple[str, ...]) -> None:
    """Bring sessions back."""
    out = Output(settings)
    with opened(settings) as store:
        for id in [deleted_id(store, text) for text in ids]:
            info = store.restore_deleted(id).info
            if out.json:
                out.record(info)
            else:
                out.line(f"{info.id} is back with {count(info.messages, 'message')}")


@trash_command.command("empty", cls=Command)
@yes_option
@click.pass_obj
def trash_empty(settings: Settings, yes: bool) -> None:
    """Remove all that is in the trash for good."""
    from clew.cli.progress import progress

    out = Output(settings)
    with opened(settings) as store:
        found = list(dict.fromkeys(info.id for info in all_sessions(store, deleted=True)))
        kept = {id for id in found if store.find(id) is not None}
        gone = [id for id in found if id not in kept]
        if gone:
            question = f"Remove {count(len(gone), 'session')} for good?"
            agreed(question, gone, yes=yes)
        with progress("purging") as report:
            for number, id in enumerate(gone):
                report(id, number, len(gone))
                store.delete(id, purge=True)
    if out.json:
        out.record({"purged": len(gone), "kept": sorted(kept)})
        return
    out.line(f"{count(len(gone), 'session')} removed for good")
    for id in sorted(kept):
        out.line(f"{id} stays: a session of the same id is in use; clew rm --purge would remove both")
