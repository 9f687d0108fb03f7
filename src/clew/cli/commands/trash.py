"""`clew rm` and `clew trash`."""

from __future__ import annotations

import click

import clew
from clew.cli.app import Command, Settings, command, group, session_argument
from clew.cli.output import Output, agreed, yes_option
from clew.cli.store import all_sessions, deleted_id, not_whole, opened
from clew.cli.text import ago, count
from clew.core.conversation.points import find_deleted
from clew.core.messages.shell import typed


@command(
    "rm",
    "clew rm login               move it to the trash",
    "clew trash restore login    bring it back",
    "clew rm --purge login       remove it for good, from the trash too",
)
@session_argument("ids", whole=True, nargs=-1, required=True, metavar="ID...")
@click.option("--purge", is_flag=True, help="Remove for good; no byte stays in the store")
@click.option("--force", is_flag=True, help="Remove it even while a worker uses it")
@yes_option
@click.pass_obj
def rm_command(settings: Settings, ids: tuple[str, ...], purge: bool, force: bool, yes: bool) -> None:
    """It takes whole ids or aliases, never the beginning of an id. --purge removes for good, and asks."""
    out = Output(settings)
    with opened(settings) as store:
        found = {text: _id_of(store, text, purge) for text in ids}
        question = f"Remove {count(len(found), 'session')} for good?" if purge else "Put this in the trash?"
        agreed(question, [_described(store, text, id) for text, id in found.items()], yes=yes or not purge)
        for text, id in found.items():
            store.delete(text, purge=purge, force=force)
            done = "purged" if purge else "trashed"
            if out.json:
                out.record({"id": id, "done": done})
            else:
                back = "" if purge else f"; clew trash restore {typed(id)} brings it back"
                out.line(f"{id} is {'removed for good' if purge else 'in the trash'}{back}")


def _id_of(store: clew.Store, text: str, purge: bool) -> str:
    """The id of what `delete` removes by this text, which is a whole id or an alias, never a beginning."""
    session = store.find(text)
    if session is not None and (session.id == text or not purge):
        return session.id
    if purge:
        with store._engine.read() as reader:
            gone = find_deleted(reader, text)
        if gone is not None and (gone.id == text or session is None):
            return gone.id
        if session is not None:
            return session.id
    raise not_whole(store, text, with_trash=purge)


def _described(store: clew.Store, text: str, id: str) -> str:
    session = store.find(text)
    if session is None or session.id != id:
        return f"{id}  (in the trash)"
    info = session.info
    return f"{id}  {count(info.messages, 'message')}, active {ago(info.updated_at)}  {info.title or ''}"


@group(
    "trash",
    "clew trash ls             list what is in the trash",
    "clew trash restore login  bring a session back",
    "clew trash empty          remove all of it for good",
)
def trash_command() -> None:
    pass


@trash_command.command("ls", cls=Command)
@click.pass_obj
def trash_ls(settings: Settings) -> None:
    """List the trash, last removed first.

    Piped: id, messages, when it was removed (UTC) and title, separated by tabs.
    """
    from clew.cli.views.sessions import TRASH, Line, print_lines

    out = Output(settings)
    with opened(settings) as store:
        found = [Line(info) for info in all_sessions(store, deleted=True)]
        piped = ("id", "messages", "removed", "title")
        print_lines(out, store, found, usual=TRASH, piped=piped)
    if out.is_terminal and not found:
        out.line("the trash is empty")


@trash_command.command("restore", cls=Command)
@session_argument("ids", trash=True, nargs=-1, required=True, metavar="ID...")
@click.pass_obj
def trash_restore(settings: Settings, ids: tuple[str, ...]) -> None:
    """Restore sessions from the trash, each with its subagents."""
    out = Output(settings)
    with opened(settings) as store:
        wanted = [deleted_id(store, text) for text in ids]
        for id in dict.fromkeys(id for main in wanted for id in (main, *_subagents(store, main))):
            info = store.restore_deleted(id).info
            if out.json:
                out.record(info)
            else:
                out.line(f"{info.id} is back with {count(info.messages, 'message')}")


def _subagents(store: clew.Store, id: str) -> list[str]:
    """The sessions in the trash that name this one as their parent and were not created again."""
    gone = [info.id for info in all_sessions(store, deleted=True, parent=id)]
    return [each for each in gone if store.find(each) is None]


@trash_command.command("empty", cls=Command)
@yes_option
@click.pass_obj
def trash_empty(settings: Settings, yes: bool) -> None:
    """Remove everything in the trash for good."""
    from clew.cli.output import progress

    out = Output(settings)
    with opened(settings) as store:
        gone = list(dict.fromkeys(info.id for info in all_sessions(store, deleted=True)))
        if gone:
            question = f"Remove {count(len(gone), 'session')} for good?"
            agreed(question, gone, yes=yes)
        with progress("purging") as report:
            for number, id in enumerate(gone):
                report(id, number, len(gone))
                store.delete(id, purge=True, deleted=True)
    if out.json:
        out.record({"purged": len(gone)})
    else:
        out.line(f"{count(len(gone), 'session')} removed for good")
