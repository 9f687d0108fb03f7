"""`clew ls`, `interrupted`, `title`, `tag`, `close`, `reopen`."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any, get_args

import click
import msgspec

import clew
from clew.cli.agents import agent_in
from clew.cli.app import Command, Settings, command, session_argument
from clew.cli.output import Output
from clew.cli.store import opened, session_of
from clew.cli.text import Moment, clew_command, is_path
from clew.cli.views.restoring import say_unfinished
from clew.cli.views.sessions import (
    FIELDS,
    Order,
    Wanted,
    chosen_columns,
    lines_of,
    print_lines,
    say_more,
    told,
)
from clew.model import STATUSES, AgentState

COLUMNS = tuple(FIELDS)


class ListCommand(Command):
    """`--json` may be followed by names of fields."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words: list[str] = []
        for at, word in enumerate(args):
            option, equals, fields = word.partition("=")
            if option == "--json" and equals:
                words += ["--json", "--columns", fields]
            elif at and args[at - 1] == "--json" and not word.startswith("-"):
                words += ["--columns", word]
            else:
                words.append(word)
        return super().parse_args(ctx, words)


@command(
    "ls",
    "clew ls                          list the 50 newest sessions",
    "clew ls -n 0 --agent codex       list all sessions of Codex",
    "clew ls --here --since yesterday  list recent sessions of this directory",
    "clew ls --state waiting          list the sessions that wait for you",
    "clew ls --sort cost -n 5         list the five that cost most",
    "clew ls --json id,title,cost     print these fields as JSON",
    kind=ListCommand,
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="List at most N sessions; 0 means all",
)
@click.option("--since", type=Moment(), help="List only sessions active at this time or later")
@click.option(
    "--until",
    type=Moment(is_end=True),
    help="List only sessions active before this time, or on this day and before",
)
@click.option("--agent", metavar="NAME", help="List only sessions of this agent, such as codex")
@click.option("--model", metavar="NAME", help="List only sessions of this model, or a part of its name")
@click.option("-p", "--project", metavar="NAME", help="List only sessions of this directory, by name or path")
@click.option("--here", is_flag=True, help="List only sessions of the current directory")
@click.option("-w", "--workspace", type=click.Path(), hidden=True, help="The same as --project with a path")
@click.option("--tag", multiple=True, help="List only sessions with this tag; repeat it for more")
@click.option("--status", type=click.Choice(STATUSES), help="List only sessions with this status")
@click.option(
    "--state",
    type=click.Choice(get_args(AgentState)),
    help="List only sessions whose agent is working, waits for you, and so on",
)
@click.option("--where", multiple=True, metavar="KEY=VALUE", help="List only sessions with this metadata")
@click.option(
    "-a", "--all", "subagents", is_flag=True, help="List subagents, forks and copies too, below their origin"
)
@click.option(
    "--sort",
    type=click.Choice(get_args(Order)),
    default="active",
    help="Sort by this, largest or newest first",
)
@click.option("-r", "--reverse", is_flag=True, help="Sort the other way round")
@click.option("--columns", metavar="NAMES", help=f"Show these columns: {', '.join(COLUMNS)}")
@click.pass_obj
def ls_command(
    settings: Settings,
    limit: int,
    since: datetime | None,
    until: datetime | None,
    agent: str | None,
    model: str | None,
    project: str | None,
    here: bool,
    workspace: str | None,
    tag: tuple[str, ...],
    status: clew.Status | None,
    state: AgentState | None,
    where: tuple[str, ...],
    subagents: bool,
    sort: Order,
    reverse: bool,
    columns: str | None,
) -> None:
    """Subagents are folded into the session that started them, forks and copies into the one that they began
    with. With a filter other than the directory, each fork and copy that fits has a line of its own. A cost
    is that of a session and of the subagents in it; where a program wrote down none, it is an estimate by
    list prices. An ID is as short as it can be, and every command takes it.

    Before a title: `working` or `waiting` (for you), as the agent's own files tell, and `stale` if the agent
    was at work and has written nothing for 15 minutes. After it: what is new on the agent's branch, if the
    session was rewound here; clew follow goes there.

    Times are written as 2026-11-01, 2026-11-01T12:00, 12h, 7d, yesterday or '2 days ago'.

    Piped: id, status, messages, last activity (UTC), agent, workspace and title, separated by tabs; or what
    --columns names."""
    shown = chosen_columns(columns, settings)
    filters: dict[str, Any] = {
        "since": since,
        "until": until,
        "agent": agent,
        "workspace": "." if here else workspace,
        "tag": tag,
        "status": status,
        "where": dict(_key_and_value(text) for text in where),
    }
    if project is not None and is_path(project):
        filters["workspace"], project = os.path.expanduser(project), None
    wanted = Wanted(limit, sort, reverse, model, project, subagents, state)
    out = Output(settings)
    with opened(settings) as store:
        priced = out.json or out.is_terminal if shown is None else "cost" in shown
        counted = out.json or out.is_terminal or not {"agents", "forks"}.isdisjoint(shown or ())
        filters["agent"] = agent_in(store, agent)
        lines, is_more = lines_of(store, wanted, counted=counted, priced=priced, **filters)
        print_lines(out, store, lines, shown)
        say_unfinished(store)
        if not out.is_terminal:
            return
        is_filtered = any(value for value in (*filters.values(), model, project, state))
        if not lines:
            _say_nothing(settings, store, is_filtered=is_filtered)
        elif is_more:
            folds = any(line.forks for line in lines)  # what is folded is not counted, nor how many are
            total = None if is_filtered or folds else _count(store, subagents=subagents)
            again = () if is_filtered else ("ls", "--all") if subagents else ("ls",)
            say_more(settings, len(lines), total, (*again, "-n", "0"))


def _count(store: clew.Store, *, subagents: bool) -> int | None:
    with store._engine.read() as reader:
        return reader.count_sessions(subagents=subagents)


def _say_nothing(settings: Settings, store: clew.Store, *, is_filtered: bool) -> None:
    if is_filtered and store.list(limit=1):
        text = f"no session matches; {clew_command(settings, 'ls')} lists the newest of all"
    else:
        scan = clew_command(settings, "import", "--scan").replace("-- --scan", "--scan")
        text = f"there is no session in {store.location} yet; {scan} imports those of your agents"
    click.echo(text, err=True)


@command(
    "interrupted",
    "clew interrupted                 list sessions whose worker died",
    "clew show ID                     show where one stopped",
)
@click.pass_obj
def interrupted_command(settings: Settings) -> None:
    """Piped: as `clew ls`."""
    out = Output(settings)
    with opened(settings) as store:
        found = [session.info for session in store.interrupted()]
        print_lines(out, store, told(store, found, folds=True, priced=False))
        if out.is_terminal and not found:
            click.echo(f"no session in {store.location} was interrupted", err=True)


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
    "clew title login                  show the title",
    "clew title login 'The login bug'  set the title",
    "clew title login --clear          use the agent's own one again",
)
@session_argument("id")
@click.argument("title", required=False)
@click.option("--clear", is_flag=True, help="Use the title of the agent again, or the automatic one")
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
    "clew tag login                  show its tags",
    "clew tag login work             add a tag",
    "clew tag login --rm urgent      remove a tag",
)
@session_argument("id")
@click.argument("tags", nargs=-1)
@click.option("--rm", "removed", multiple=True, metavar="TAG", help="Remove this tag")
@click.option("-d", "--remove", "removed_too", multiple=True, hidden=True)
@click.pass_obj
def tag_command(
    settings: Settings, id: str, tags: tuple[str, ...], removed: tuple[str, ...], removed_too: tuple[str, ...]
) -> None:
    out = Output(settings)
    with opened(settings) as store:
        session = session_of(store, id)
        removed += removed_too
        if tags or removed:
            kept = [tag for tag in dict.fromkeys((*session.info.tags, *tags)) if tag not in removed]
            session.update(tags=kept)
        now = session.info.tags
    if out.json:
        out.record({"id": session.id, "tags": now})
    else:
        for tag in now:
            out.line(tag)
        if not now and out.is_terminal:
            out.line(f"no tags; {clew_command(settings, 'tag', id)} NAME adds one")


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
