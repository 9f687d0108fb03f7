"""`clew title`, `tag`, `close`, `reopen`."""

from __future__ import annotations

import click

from clew.cli.app import Settings, command, session_argument
from clew.cli.output import Output
from clew.cli.store import opened, session_of


@command(
    "title",
    "clew title login                  show it",
    "clew title login 'The login bug'   set it",
    "clew title login --clear          the automatic one again",
)
@session_argument("id")
@click.argument("title", required=False)
@click.option("--clear", is_flag=True, help="Take it away: the automatic one comes back.")
@click.pass_obj
def title_command(settings: Settings, id: str, title: str | None, clear: bool) -> None:
    """Show or set the title of a session."""
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
@click.option("-d", "--remove", multiple=True, metavar="TAG", help="Take this tag away.")
@click.pass_obj
def tag_command(settings: Settings, id: str, tags: tuple[str, ...], remove: tuple[str, ...]) -> None:
    """Show, add or remove tags of a session."""
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
    """Close sessions: no run starts until they are reopened. Everything is kept."""
    _change(settings, ids, "close")


@command("reopen", "clew reopen login")
@session_argument("ids", nargs=-1, required=True, metavar="ID...")
@click.pass_obj
def reopen_command(settings: Settings, ids: tuple[str, ...]) -> None:
    """Open closed or expired sessions again."""
    _change(settings, ids, "reopen")


def _change(settings: Settings, ids: tuple[str, ...], verb: str) -> None:
    out = Output(settings)
    with opened(settings) as store:
        for session in [session_of(store, id) for id in ids]:
            session.close() if verb == "close" else session.reopen()
            status = session.info.status
            if out.json:
                out.record({"id": session.id, "status": status})
            else:
                out.line(f"{session.id} is {status}")
