"""`clew token`: who may come in over HTTP."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from clew.cli.app import Command, Settings, group
from clew.cli.output import Output
from clew.cli.store import opened
from clew.cli.table import Column
from clew.cli.text import from_home, iso, local, now, one_line
from clew.model.session import utc
from clew.model.times import span

if TYPE_CHECKING:
    from clew.server.access.tokens import Token

    ParamType = click.ParamType[timedelta | None]
else:
    ParamType = click.ParamType


SHOWN_ONCE: Final = "This is the only time that it is shown."


class Lasting(ParamType):
    """How long something is good for: 12h, 90d, 2w, or never."""

    name = "span"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta | None:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        if value == "never":
            return timedelta.max
        found = span(value)
        if found is None or not found:
            self.fail(f"{value!r} is not a span of time like 90m, 12h, 7d or 2w, nor `never`", param, ctx)
        return found


def lasting(found: timedelta | None) -> timedelta | None:
    """None: without an end."""
    return None if found == timedelta.max else found


def scopes_in(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[str]:
    """`--scope read,write` and `--scope read --scope write` are the same."""
    return [scope.strip() for text in value for scope in text.split(",") if scope.strip()]


@group(
    "token",
    "clew token add ci                         make a token that may read",
    "clew token add bot --scope write          one that may read and write",
    "clew token add web --workspace ~/src/web  one for the sessions of a directory",
    "clew token add build --scope store        one that opens the store with clew.open(URL)",
    "clew token ls                             list tokens",
    "clew token rm ci                          remove one: servers refuse it within seconds",
)
def token_command() -> None:
    """A token lets a program use a store that `clew serve` serves. The store keeps a hash of each, so it is
    shown once, when it is made. Tokens stay in their store: no copy and no backup has them."""


@token_command.command("add", cls=Command)
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    default=("read",),
    callback=scopes_in,
    metavar="SCOPE,...",
    help="What it may do: read (default), write, admin (purge), files (read what snapshots hold),"
    " store (everything, as with the database file)",
)
@click.option("--workspace", metavar="PATH", help="Only sessions that work in this directory")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only sessions with this tag; repeatable")
@click.option("--expires", type=Lasting(), metavar="SPAN", help="It ends after this time, as 90d; else never")
@click.pass_obj
def token_add(
    settings: Settings,
    name: str,
    scopes: list[str],
    workspace: str | None,
    tags: tuple[str, ...],
    expires: timedelta | None,
) -> None:
    """Make a token.

    The scope write includes read, and admin includes write. `clew.open(URL)` needs the scope store, which
    includes all others and cannot be bound: whoever has it has the store. Piped: the token, and nothing else.
    """
    from clew.server.access.tokens import add_token

    out = Output(settings)
    with opened(settings, create=True) as store:
        token, text = add_token(
            store, name, scopes=scopes, workspace=workspace, tags=tags, lasts=lasting(expires)
        )
    if out.json:
        out.record({**_record(token), "token": text})
        return
    out.line(text)
    if out.is_terminal:
        out.texts([f"token {one_line(token.name)}: {one_line(_what(token))}", SHOWN_ONCE])


@token_command.command("ls", cls=Command)
@click.pass_obj
def token_ls(settings: Settings) -> None:
    """List tokens, oldest first.

    Piped: name, scopes, workspace, tags, when it was made and when it ends (UTC), id, separated by tabs.
    """
    from clew.server.access.tokens import list_tokens

    out = Output(settings)
    with opened(settings) as store:
        tokens = list_tokens(store)
    if out.json:
        for token in tokens:
            out.record(_record(token))
        return
    if not out.is_terminal:
        for token in tokens:
            scopes, tags = ",".join(token.scopes), ",".join(token.tags)
            times = (iso(_time(token.created)), iso(_time(token.expires)))
            out.row(token.name, scopes, token.workspace or "", tags, *times, token.id)
        return
    if not tokens:
        out.line("there are no tokens; clew token add NAME makes one")
        return
    columns = [
        Column("NAME"),
        Column("MAY"),
        Column("ONLY IN", style="dim", flexible=True),
        Column("MADE"),
        Column("ENDS"),
    ]
    rows = (
        [token.name, ", ".join(token.scopes), _bound(token), local(utc(token.created))[:10], ends(token)]
        for token in tokens
    )
    out.rows(columns, rows)


@token_command.command("rm", cls=Command)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.pass_obj
def token_rm(settings: Settings, names: tuple[str, ...]) -> None:
    """Remove tokens, by name or id.

    Servers refuse them within seconds, and so end the streams and the browsers that were let in by them.
    """
    from clew.server.access.tokens import remove_token

    out = Output(settings)
    with opened(settings) as store:
        for name in names:
            token = remove_token(store, name)
            if out.json:
                out.record({"id": token.id, "name": token.name, "done": "removed"})
            else:
                out.line(f"token {token.name} is removed")


def ends(one: Any) -> str:
    """When a token or a share ends, for people: the day, or the minute if that is soon."""
    if one.expires is None:
        return "never"
    end = utc(one.expires)
    is_soon = end < now() + timedelta(days=2)
    return "over" if one.is_expired else local(end) if is_soon else local(end)[:10]


def _time(moment: int | None) -> datetime | None:
    return None if moment is None else utc(moment)


def _bound(token: Token) -> str:
    places = [] if token.workspace is None else [from_home(token.workspace)]
    return ", ".join([*places, *(f"#{tag}" for tag in token.tags)])


def _what(token: Token) -> str:
    where = f"; only in {_bound(token)}" if token.workspace or token.tags else ""
    end = "; does not end" if token.expires is None else f"; until {local(utc(token.expires))}"
    return f"may {', '.join(token.scopes)}{where}{end}"


def _record(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "scopes": token.scopes,
        "workspace": token.workspace,
        "tags": token.tags,
        "created_at": _time(token.created),
        "expires_at": _time(token.expires),
        "expired": token.is_expired,
    }
