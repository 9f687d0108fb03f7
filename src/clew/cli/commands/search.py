"""`clew search`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final, get_args

import click

from clew.cli.app import Command, Settings, command
from clew.cli.output import Output, progress
from clew.cli.store import opened, session_of
from clew.cli.text import Moment, ago, flat, iso, one_line
from clew.model.search import SearchOrder, SearchRole

if TYPE_CHECKING:
    from rich.text import Text

    from clew.model.search import Hit, SearchPage


_WITHOUT: Final = re.compile(r"""-(?!n\d)["'\w].""")


class SearchCommand(Command):
    """Takes `-word` as a word to be left out, though it looks like options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        without = [arg for arg in args[:at] if _WITHOUT.match(arg)]
        if without:
            args = [*(arg for arg in args[:at] if arg not in without), "--", *without, *args[at + 1 :]]
        return super().parse_args(ctx, args)


@command(
    "search",
    "clew search login 500                 messages with both words, newest first",
    "clew search '\"old cookie\"' -redis     a phrase, without a word",
    "clew search --human deploy* --since 7d",
    "clew search --tools --best Traceback",
    "clew show login@12                    a hit with its neighbours",
    kind=SearchCommand,
)
@click.argument("words", nargs=-1, required=True)
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--role", type=click.Choice(get_args(SearchRole)), help="Only messages of this role.")
@click.option("--human", is_flag=True, help="Only messages of a human: --role user.")
@click.option("--tools", is_flag=True, help="Also search calls of tools and their results.")
@click.option("--session", metavar="ID", help="Only in this session.")
@click.option("-w", "--workspace", type=click.Path(), help="Only in sessions that work in this directory.")
@click.option("--tag", multiple=True, help="Only in sessions with this tag.")
@click.option("--since", type=Moment(), help="From then on: 2026-11-01, 12h, 7d.")
@click.option("--until", type=Moment(), help="Before then.")
@click.option("--best", is_flag=True, help="Best match first, not newest.")
@click.pass_obj
def search_command(
    settings: Settings,
    words: tuple[str, ...],
    limit: int,
    role: SearchRole | None,
    human: bool,
    tools: bool,
    session: str | None,
    workspace: str | None,
    tag: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    best: bool,
) -> int:
    """The words may be in any order. Each hit begins with its place, which `clew show` takes.
    Piped: place, role, time (UTC), title and snippet, separated by tabs. Exit code 1 if nothing was found.
    """
    order: SearchOrder = "best" if best else "newest"
    out = Output(settings)
    with opened(settings) as store, progress("searching"):
        page = store.search(
            " ".join(words),
            role="user" if human else role,
            session=None if session is None else session_of(store, session).id,
            workspace=workspace,
            tag=tag or None,
            since=since,
            until=until,
            tools=tools,
            order=order,
            limit=limit,
        )
    _print(out, page)
    return 0 if page.hits else 1


def place_of_hit(hit: Hit) -> str:
    """What `clew show` takes. A place that its session was rewound past has only its id."""
    return f"{hit.session}@{hit.position if hit.on_path else hit.entry_id}"


def _print(out: Output, page: SearchPage) -> None:
    if out.json:
        for hit in page:
            out.record({"place": place_of_hit(hit), **{f: getattr(hit, f) for f in hit.__struct_fields__}})
    elif not out.is_terminal:
        for hit in page:
            out.row(place_of_hit(hit), hit.role, iso(hit.at), hit.title, hit.snippet)
    elif page.hits:
        out.texts(line for hit in page for line in _lines(hit))
        if page.cursor is not None:
            click.echo("there are more: -n", err=True)
    else:
        click.echo("nothing found", err=True)


def _lines(hit: Hit) -> Iterator[Text]:
    from rich.text import Text

    left = "" if hit.on_path else "  (left behind)"
    head = Text.assemble(
        (one_line(place_of_hit(hit)), "cyan"),
        (f"  {hit.role}{left}  {ago(hit.at)}  ", "bright_black"),
        one_line(hit.title or ""),
    )
    head.no_wrap, head.overflow = True, "ellipsis"
    yield head
    body = Text("    ")
    at = 0
    for start, end in hit.marks:
        body.append(flat(hit.snippet[at:start]))
        body.append(flat(hit.snippet[start:end]), style="bold yellow")
        at = end
    body.append(flat(hit.snippet[at:]))
    yield body
    yield Text("")
