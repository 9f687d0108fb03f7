"""`clew share`: one session for everyone who has the link."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from clew.cli.app import Command, GroupOrNew, Settings, group, session_argument
from clew.cli.commands.serving.token import SHOWN_ONCE, Lasting, ends, lasting
from clew.cli.output import Output
from clew.cli.store import opened, point_in, session_of, spot_of
from clew.cli.table import Column
from clew.cli.text import iso
from clew.model.session import utc

if TYPE_CHECKING:
    from clew.server.access.shares import Share


@group(
    "share",
    "clew share login              make a link to the session as it is now",
    "clew share login --live       a link that follows it",
    "clew share login --at plan    a link to what led to the checkpoint plan",
    "clew share ls                 list shares",
    "clew share rm s1a2b3c4d5      remove one: its link shows nothing any more",
    kind=GroupOrNew,
)
def share_command() -> None:
    """A share is read with a link, by everyone who has it, through `clew serve`. It shows the messages of one
    session, without secrets, and nothing else: no other branch, fork, file, cost or session."""


@share_command.command("new", cls=Command)
@session_argument("id", metavar="ID[@PLACE]")
@click.option("--live", is_flag=True, help="Follow the session; else the link ends where it is now")
@click.option("--at", "point", metavar="PLACE", help="End at a position, a checkpoint or an entry")
@click.option("--redact/--no-redact", default=True, help="Replace secrets (the default)")
@click.option(
    "--expires", type=Lasting(), default="7d", metavar="SPAN", help="It ends after this time (7d), or never"
)
@click.pass_obj
def share_new(
    settings: Settings, id: str, live: bool, point: str | None, redact: bool, expires: timedelta | None
) -> None:
    """Make a link to a session; `new` may be left out.

    The link is complete if a server of this store runs on this machine. Piped: the link, or else the token
    that belongs behind `#share=`.
    """
    from clew.server.access.shares import add_share, link, place_of
    from clew.server.access.state import running
    from clew.server.process.sockets import is_loopback

    out = Output(settings)
    with opened(settings) as store:
        spot = spot_of(store, id)
        place = spot.point if point is None else point_in(spot.session, point)
        if live and place is not None:
            raise click.UsageError("--live follows the session, so it takes no place to end at")
        at = None if live else place_of(spot.session, place)
        share, text = add_share(store, spot.session, at=at, redact=redact, lasts=lasting(expires))
        server = running(store.location)
    url = None if server is None else link(server.url, text)
    if out.json:
        out.record({**_record(share), "token": text, "link": url})
        return
    out.line(url or text)
    if not out.is_terminal:
        return
    shown = "follows the session" if share.head is None else "shows it as it is now"
    if place is not None:
        shown = "shows what leads to that place"
    secrets = "secrets are replaced" if redact else "secrets are not replaced"
    notes = [f"share {share.id}: {shown}; {secrets}; ends: {ends(share)}"]
    if url is not None and is_loopback(urlsplit(url).hostname or ""):
        notes.append("This link works on this machine only; for others: clew serve --host 0.0.0.0")
    if url is None:
        notes.append("No server of this store runs here: clew serve starts one.")
        notes.append("The link is ADDRESS/#share=TOKEN.")
    out.texts([*notes, SHOWN_ONCE])


@share_command.command("ls", cls=Command)
@session_argument("id", required=False, metavar="[ID]")
@click.pass_obj
def share_ls(settings: Settings, id: str | None) -> None:
    """List shares, oldest first.

    Of all sessions, or of one. Piped: id, session, the entry where it ends (empty: live), redacted or not,
    when it was made and when it ends (UTC), separated by tabs.
    """
    from clew.server.access.shares import list_shares

    out = Output(settings)
    with opened(settings) as store:
        shares = list_shares(store, None if id is None else session_of(store, id).id)
    if out.json:
        for share in shares:
            out.record(_record(share))
        return
    if not out.is_terminal:
        for share in shares:
            redacted = "redacted" if share.redact else "plain"
            times = (iso(utc(share.created)), "" if share.expires is None else iso(utc(share.expires)))
            out.row(share.id, share.session, share.head or "", redacted, *times)
        return
    if not shares:
        out.line("there are no shares; clew share ID makes one")
        return
    columns = [
        Column("ID"),
        Column("SESSION", flexible=True),
        Column("SHOWS"),
        Column("SECRETS"),
        Column("ENDS"),
    ]
    rows = (
        [
            share.id,
            share.session,
            "live" if share.head is None else _position(share.head),
            "replaced" if share.redact else "shown",
            ends(share),
        ]
        for share in shares
    )
    out.rows(columns, rows)


@share_command.command("rm", cls=Command)
@click.argument("ids", nargs=-1, required=True, metavar="SHARE...")
@click.pass_obj
def share_rm(settings: Settings, ids: tuple[str, ...]) -> None:
    """Remove shares.

    Their links show nothing any more, within seconds.
    """
    from clew.server.access.shares import remove_share

    out = Output(settings)
    with opened(settings) as store:
        for id in ids:
            share = remove_share(store, id)
            if out.json:
                out.record({"id": share.id, "session": share.session, "done": "removed"})
            else:
                out.line(f"share {share.id} of {share.session} is removed")


def _position(head: str) -> str:
    at = head.rpartition(".")[2]
    return "nothing" if head == "start" else f"up to {at}"


def _record(share: Share) -> dict[str, Any]:
    return {
        "id": share.id,
        "session": share.session,
        "head": share.head,
        "live": share.head is None,
        "redact": share.redact,
        "created_at": utc(share.created),
        "expires_at": None if share.expires is None else utc(share.expires),
        "expired": share.is_expired,
    }
