"""`clew rm` and `clew trash`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import click

import clew
from clew.cli.app import Command, Refused, Settings, command, group, session_argument
from clew.cli.names import short_id, short_ids
from clew.cli.output import Output, agreed, yes_option
from clew.cli.store import all_sessions, deleted_id, not_whole, opened, session_of
from clew.cli.text import ago, count
from clew.core.conversation.points import find_deleted, subagents_of
from clew.core.messages.shell import typed
from clew.errors import SessionDeletedError


@command(
    "rm",
    "clew rm login               move it to the trash",
    "clew rm login --dry-run     show what would go",
    "clew trash restore login    bring it back",
    "clew rm --purge login       remove it for good, from the trash too",
)
@session_argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--purge", is_flag=True, help="Remove for good; no byte stays in the store")
@click.option("--force", is_flag=True, help="Remove it even while a worker uses it")
@click.option("--dry-run", is_flag=True, help="Show what would go, and remove nothing")
@yes_option
@click.pass_obj
def rm_command(
    settings: Settings, ids: tuple[str, ...], purge: bool, force: bool, dry_run: bool, yes: bool
) -> None:
    """It takes ids, aliases and short ids as clew ls shows them, and nothing shorter. Subagents go along with
    the session that they work for. --purge removes for good, and asks; with --yes it takes whole ids and
    aliases only.
    """
    out = Output(settings)
    with opened(settings) as store:
        found: dict[str, Target] = {}
        for text in ids:
            one = _target(store, text, purge=purge, whole=purge and yes and not dry_run)
            found.setdefault(one.id, one)
        if dry_run:
            for one in found.values():
                _say_dry(out, store, one, purge)
            return
        every = list(dict.fromkeys(id for one in found.values() for id in (one.id, *one.subagents)))
        question = f"Remove {count(len(every), 'session')} for good?" if purge else "Put this in the trash?"
        agreed(question, [_described(store, id) for id in every], yes=yes or not purge)
        shown = _shown(out, store, found)
        for one in found.values():
            store.delete(one.text, purge=purge, force=force)
            if out.json:
                done = "purged" if purge else "trashed"
                out.record({"id": one.id, "done": done, "subagents": one.subagents})
            else:
                back = "" if purge else f"; clew trash restore {typed(shown[one.id])} brings it back"
                where = "removed for good" if purge else "in the trash"
                out.line(f"{shown[one.id]} is {where}{_with(one.subagents)}{back}")


class Target(NamedTuple):
    """A session that is to go."""

    text: str
    """Its id, or an alias of it: by this it is removed."""
    id: str
    subagents: list[str]
    """They go along."""


def _target(store: clew.Store, text: str, *, purge: bool, whole: bool) -> Target:
    """`whole`: only by its whole id or an alias."""
    exact = _exact(store, text, purge)
    if exact is None and whole:
        raise not_whole(store, text)
    id = exact or _by_short_id(store, text, with_trash=purge)
    with store._engine.read() as reader:
        along = subagents_of(reader, id, deleted=(False, True) if purge else (False,))
    return Target(text if exact else id, id, list(dict.fromkeys(one.row.id for one in along)))


def _exact(store: clew.Store, text: str, purge: bool) -> str | None:
    """The id of what `delete` removes by this text, if that is a whole id or an alias."""
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
    return None


def _by_short_id(store: clew.Store, text: str, *, with_trash: bool) -> str:
    """The id that goes by this text in lists. A shorter beginning may mean another session tomorrow."""
    try:
        id = session_of(store, text).id
    except SessionDeletedError:
        if not with_trash:
            raise
        id = deleted_id(store, text)
    shown = short_id(store, id)
    program = f"{id.partition(':')[0]}:"
    if len(text.removeprefix(program)) < len(shown.removeprefix(program)):
        raise Refused(f"{text!r} is too short to remove a session by; write {typed(shown)}")
    return id


def _shown(out: Output, store: clew.Store, ids: Iterable[str]) -> dict[str, str]:
    """How sessions are named: on a terminal by their short ids."""
    return short_ids(store, ids) if out.is_terminal else {id: id for id in ids}


def _described(store: clew.Store, id: str, shown: str | None = None) -> str:
    session = store.find(id)
    if session is None or session.id != id:
        return f"{shown or id}  (in the trash)"
    info = session.info
    return (
        f"{shown or id}  {count(info.messages, 'message')}, active {ago(info.updated_at)}  {info.title or ''}"
    )


def _say_dry(out: Output, store: clew.Store, one: Target, purge: bool) -> None:
    if out.json:
        out.record({"id": one.id, "done": None, "purge": purge, "subagents": one.subagents, "dry_run": True})
        return
    shown = _shown(out, store, (one.id, *one.subagents))
    what = f"remove {shown[one.id]} for good" if purge else f"put {shown[one.id]} in the trash"
    out.line(f"would {what}{_with(one.subagents)}")
    for id in one.subagents:
        out.line(f"  {_described(store, id, shown[id])}")


def _with(subagents: list[str]) -> str:
    return f", with {count(len(subagents), 'subagent')}" if subagents else ""


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
        wanted = dict.fromkeys(deleted_id(store, text) for text in ids)
        back: set[str] = set()
        for id in (id for id in wanted if id not in back):
            with store._engine.read() as reader:
                along = subagents_of(reader, id, deleted=(False, True))
            gone = [one.row.id for one in along if one.row.deleted is not None]
            gone = [each for each in dict.fromkeys(gone) if store.find(each) is None]
            store.restore_deleted(id)
            back |= {id, *gone}
            shown = _shown(out, store, (id, *gone))
            for info in (store.get(each).info for each in (id, *gone)):
                if out.json:
                    out.record(info)
                else:
                    out.line(f"{shown[info.id]} is back with {count(info.messages, 'message')}")


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
