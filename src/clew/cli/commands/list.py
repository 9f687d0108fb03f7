"""`clew ls`, `interrupted`, `title`, `tag`, `close`, `reopen`."""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec

import clew
from clew.cli.app import Settings, command, session_argument
from clew.cli.names import short_ids
from clew.cli.output import Output
from clew.cli.store import PAGE, opened, session_of
from clew.cli.text import ago, iso
from clew.model import STATUSES


@command(
    "ls",
    "clew ls                          the 50 newest",
    "clew ls -n 0 --tag work          all with the tag work",
    "clew ls --here --status failed   of this directory, those that failed",
    "clew ls --json | jq -r .title",
)
@click.option(
    "-n", "--limit", type=click.IntRange(0), default=50, show_default=True, help="How many at most; 0: all."
)
@click.option("--status", type=click.Choice(STATUSES), help="Only sessions with this status.")
@click.option("-w", "--workspace", type=click.Path(), help="Only sessions that work in this directory.")
@click.option("--here", is_flag=True, help="Only sessions that work in the current directory.")
@click.option(
    "--tag",
    multiple=True,
    help="Only sessions with this tag; repeat it for sessions with all of several tags.",
)
@click.option("--where", multiple=True, metavar="KEY=VALUE", help="Only sessions with this metadata.")
@click.pass_obj
def ls_command(
    settings: Settings,
    limit: int,
    status: clew.Status | None,
    workspace: str | None,
    here: bool,
    tag: tuple[str, ...],
    where: tuple[str, ...],
) -> None:
    """Piped: id, status, messages, last activity (UTC), workspace and title, separated by tabs."""
    place = "." if here else workspace
    wanted = dict(_key_and_value(text) for text in where)
    with opened(settings) as store:
        found: list[clew.SessionInfo] = []
        cursor: str | None = None
        while True:
            room = PAGE if not limit else min(PAGE, limit - len(found))
            page = store.list(
                status=status, workspace=place, tag=tag, where=wanted, limit=room, cursor=cursor
            )
            found += page
            cursor = page.cursor
            if cursor is None or (limit and len(found) >= limit):
                break
        print_sessions(Output(settings), store, found, more=cursor is not None)


@command("interrupted", "clew interrupted", "clew show ID                     where it stopped")
@click.pass_obj
def interrupted_command(settings: Settings) -> None:
    """Piped: as `clew ls`."""
    with opened(settings) as store:
        found = [session.info for session in store.interrupted()]
        print_sessions(Output(settings), store, found)


def print_sessions(
    out: Output, store: clew.Store, found: Sequence[clew.SessionInfo], *, more: bool = False
) -> None:
    if out.json:
        for info in found:
            out.record(info)
        return
    if not out.is_terminal:
        for info in found:
            status = "damaged" if info.damaged else info.status
            out.row(info.id, status, info.messages, iso(info.updated_at), info.workspace, info.title)
        return
    if not found:
        out.line(f"no such sessions in {store.location}")
        return
    from clew.cli.output import Column

    columns = (
        Column("ID", "cyan"),
        Column("STATUS", "bright_black", optional=True),
        Column("MSGS", right=True),
        Column("ACTIVE", "bright_black", optional=True),
        Column("TITLE", flexible=True),
    )
    ids = short_ids(store, [info.id for info in found])
    out.rows(
        columns,
        [
            (
                ids[info.id],
                "damaged" if info.damaged else info.status,
                info.messages,
                ago(info.updated_at),
                info.title,
            )
            for info in found
        ],
    )
    for info in found:
        if info.damaged:
            out.line(f"{info.id} is damaged: {info.damaged}")
    if more:
        click.echo("there are more: clew ls -n 0", err=True)


def _key_and_value(text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--where")
    try:
        return key, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return key, value


# -- title, tag, close, reopen


@command(
    "title",
    "clew title login                  show it",
    "clew title login 'The login bug'   set it",
    "clew title login --clear          the automatic one again",
)
@session_argument("id")
@click.argument("title", required=False)
@click.option("--clear", is_flag=True, help="Remove the title; the automatic one comes back.")
@click.pass_obj
def title_command(settings: Settings, id: str, title: str | None, clear: bool) -> None:
    if clear and title is not None:
        raise click.UsageError("give a title or --clear, not both")
    out = Output(settings)
    with opened(settings) as store:
        session = session_of(store, id)
        if clear or title is not None:
            session.update(title=title)
        info = session.info
    if out.json:
        out.record({"id": info.id, "title": info.title, "title_is_auto": info.title_is_auto})
    else:
        out.line(info.title or "")


@command(
    "tag",
    "clew tag login                    show them",
    "clew tag login work               add one",
    "clew tag login --remove urgent    and remove one",
)
@session_argument("id")
@click.argument("tags", nargs=-1)
@click.option("-d", "--remove", multiple=True, metavar="TAG", help="Remove this tag.")
@click.pass_obj
def tag_command(settings: Settings, id: str, tags: tuple[str, ...], remove: tuple[str, ...]) -> None:
    out = Output(settings)
    with opened(settings) as store:
        session = session_of(store, id)
        if tags or remove:
            kept = [tag for tag in dict.fromkeys((*session.info.tags, *tags)) if tag not in remove]
            session.update(tags=kept)
        now = session.info.tags
    if out.json:
        out.record({"id": session.id, "tags": now})
    else:
        for tag in now:
            out.line(tag)


@command("close", "clew close login")
@session_argument("ids", nargs=-1, required=True, metavar="ID...")
@click.pass_obj
def close_command(settings: Settings, ids: tuple[str, ...]) -> None:
    """Everything is kept."""
    _set_status(settings, ids, "close")


@command("reopen", "clew reopen login")
@session_argument("ids", nargs=-1, required=True, metavar="ID...")
@click.pass_obj
def reopen_command(settings: Settings, ids: tuple[str, ...]) -> None:
    _set_status(settings, ids, "reopen")


def _set_status(settings: Settings, ids: tuple[str, ...], verb: str) -> None:
    out = Output(settings)
    with opened(settings) as store:
        for session in [session_of(store, id) for id in ids]:
            session.close() if verb == "close" else session.reopen()
            status = session.info.status
            if out.json:
                out.record({"id": session.id, "status": status})
            else:
                out.line(f"{session.id} is {status}")
