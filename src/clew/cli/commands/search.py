"""`clew search`."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, get_args

import click
import msgspec

import clew
from clew.cli.agents import agent_in
from clew.cli.app import Command, Settings, command
from clew.cli.names import branch_names, entry_name, short_ids
from clew.cli.output import Output, progress, terminal_size
from clew.cli.store import opened, session_of
from clew.cli.text import Moment, ago, count, flat, is_path, iso, one_line, plain
from clew.core.conversation.points import find
from clew.core.log.ids import parse_entry_id
from clew.core.log.rows import Details, SessionRow
from clew.core.messages.shell import quoted, typed
from clew.model.search import SearchOrder, SearchPage, SearchRole
from clew.model.session import project_of

if TYPE_CHECKING:
    from rich.text import Text

    from clew.core.engine.engine import EngineLike
    from clew.core.search.search import Request
    from clew.model.search import Hit


INDENT: Final = "    "
MOST: Final = 1000
EACH: Final = 3
"""Hits of one session on a terminal, if others may have some too."""
AHEAD: Final = 5
"""So many times as many hits are looked for, to find those of other sessions."""
LINES: Final = 2
"""Of a snippet, at most."""
SPARE: Final = 12
"""Letters that are not used up where a line ends between words."""
_WITHOUT: Final = re.compile(r"""-(?!n\d)["'\w].""")


class SearchCommand(Command):
    """Takes `-word` as a word to be left out, though it looks like options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        with_value = {
            name
            for one in self.params
            if isinstance(one, click.Option) and not one.is_flag
            for name in one.opts
        }
        words = zip(("", *args[:at]), args[:at], strict=False)
        without = [arg for before, arg in words if _WITHOUT.match(arg) and before not in with_value]
        if without:
            args = [*(arg for arg in args[:at] if arg not in without), "--", *without, *args[at + 1 :]]
        return super().parse_args(ctx, args)


@command(
    "search",
    "clew search login 500                 find messages with both words",
    "clew search '\"old cookie\"' -redis     find a phrase, without a word",
    "clew search --human deploy* --since 7d",
    "clew search --no-tools --best retry   list the best match first",
    "clew show 0b1c2d3e@9f3a.12            show a hit and what is around it",
    kind=SearchCommand,
)
@click.argument("words", nargs=-1, required=True)
@click.option(
    "-n", "--limit", type=click.IntRange(1, MOST), default=20, show_default=True, help="List at most N hits"
)
@click.option("--role", type=click.Choice(get_args(SearchRole)), help="Find only messages of this role")
@click.option("--human", is_flag=True, help="Find only what people said")
@click.option("--tools/--no-tools", default=True, show_default=True, help="Search tool calls and results too")
@click.option("--session", metavar="ID", help="Search only this session")
@click.option("--agent", metavar="NAME", help="Search only sessions of this agent, such as codex")
@click.option("--model", metavar="NAME", help="Search only sessions of this model, by a part of its name")
@click.option(
    "-p", "--project", metavar="NAME", help="Search only this directory's sessions, by name or path"
)
@click.option(
    "-w", "--workspace", type=click.Path(), hidden=True, help="Do the same as --project with a path"
)
@click.option("--tag", multiple=True, help="Search only sessions with this tag")
@click.option("--since", type=Moment(), help="Find only what is newer: 2026-11-01, 12h, 7d")
@click.option("--until", type=Moment(is_end=True), help="Find only what is older, or of this day and before")
@click.option("--best", is_flag=True, help="List the best match first, not the newest")
@click.pass_obj
def search_command(
    settings: Settings,
    words: tuple[str, ...],
    limit: int,
    role: SearchRole | None,
    human: bool,
    tools: bool,
    session: str | None,
    agent: str | None,
    project: str | None,
    model: str | None,
    workspace: str | None,
    tag: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    best: bool,
) -> int:
    """The words may be in any order. Each hit has a place, which clew show, clew fork and
    clew rewind take. An entry is also found by the note beside it, and then shows the note. A text that a
    program copied to several sessions is one hit. On a terminal at most three hits of a session are shown,
    so that one session does not hide the others; --session shows all.

    Piped: place, role, time (UTC), title and snippet, separated by tabs. Exit code 1 if nothing was found.
    """
    order: SearchOrder = "best" if best else "newest"
    if project is not None and is_path(project):
        workspace, project = os.path.expanduser(project), None
    out = Output(settings)
    from clew.core.search.search import request_of
    from clew.core.search.search import search as find_page

    is_mixed = out.is_terminal and session is None
    with opened(settings) as store:
        one = None if session is None else session_of(store, session).id
        agent = agent_in(store, agent)
        request = request_of(
            " ".join(words),
            role="user" if human else role,
            session=one,
            workspace=workspace,
            tag=tag or None,
            where=None if agent is None else {"agent": agent},
            since=since,
            until=until,
            tools=tools,
            order=order,
            limit=limit,
            cursor=None,
        )
        request = msgspec.structs.replace(request, accepts=_accepting(project, model))
        with progress("searching") as told:
            page = find_page(store._engine, request, lambda *at: told(*_indexing(*at)))
            if is_mixed:
                page = _with_others(page, store._engine, request)
        if page.hits:
            _print(out, store, page, limit, each=EACH if is_mixed else None)
            return 0
        filters = {
            "--role": role or human,
            "--session": session,
            "--agent": agent,
            "--model": model,
            "--project": project or workspace,
            "--tag": tag,
            "--since": since,
            "--until": until,
        }
        if not out.json:
            used = [name for name, value in filters.items() if value]
            click.echo(_nothing(store, words, used, tools), err=True)
        return 1


def _with_others(page: SearchPage, engine: EngineLike, request: Request) -> SearchPage:
    """A larger page, if hits of few sessions fill this one and hide those of others."""
    from clew.core.search.search import search as find_page

    by_id = Counter(hit.session for hit in page.hits)
    if page.cursor is None or sum(min(number, EACH) for number in by_id.values()) >= request.limit:
        return page
    return find_page(engine, msgspec.structs.replace(request, limit=min(request.limit * AHEAD, MOST)))


def _indexing(done: int, total: int) -> tuple[str, int, int]:
    """What is said of a search that has to make messages findable first."""
    return f"indexing {count(total, 'message')}, once", done, total


def _accepting(project: str | None, model: str | None) -> Callable[[SessionRow, Details], bool] | None:
    """Whether a session works in a directory of this name, with a model whose name has this part."""
    if project is None and model is None:
        return None

    def accepts(row: SessionRow, details: Details) -> bool:
        if project is not None and project_of(row.workspace).lower() != project.lower():
            return False
        return model is None or model.lower() in (details.model or "").lower()

    return accepts


def _nothing(store: clew.Store, words: Sequence[str], filters: Sequence[str], tools: bool) -> str:
    """What was looked for in vain, and what to try next."""
    said = f"nothing found for {' '.join(words)}"
    if store.latest() is None:
        return one_line(f"{said}: there is no session yet; clew import --scan brings some")
    next_steps = []
    if filters:
        next_steps.append(f"search without {', '.join(filters)}")
    if not tools:
        next_steps.append("search without --no-tools, to look at tool calls and results too")
    if len(" ".join(words).split()) > 1:
        next_steps.append("use fewer words")
    elif not words[0].endswith("*"):
        next_steps.append(f"{quoted(words[0] + '*')} finds words that begin like this")
    return one_line(f"{said}; {', or '.join(next_steps)}" if next_steps else said)


def place_of_hit(hit: Hit) -> str:
    """What `clew show` takes. A place that its session was rewound past has only its id."""
    return f"{hit.session}@{hit.position if hit.on_path else hit.entry_id}"


def handles(store: clew.Store, entries: Iterable[tuple[str, str]]) -> list[str]:
    """For each session and entry id the shortest text that `clew show` takes."""
    wanted = list(entries)
    short = short_ids(store, {session for session, _ in wanted})
    names: dict[int, dict[str, str]] = {}
    trees: dict[str, int] = {}
    found = []
    with store._engine.read() as reader:
        for session, id in wanted:
            if session not in trees:
                row = find(reader, session)
                trees[session] = 0 if row is None else row.tree
                branches = reader.tree_branches(trees[session]) if row is not None else []
                names.setdefault(trees[session], branch_names(branch.uid for branch in branches))
            place = parse_entry_id(id)
            name = id if place is None else entry_name(names[trees[session]], place)
            found.append(f"{short[session]}@{name}")
    return found


def _print(out: Output, store: clew.Store, page: SearchPage, limit: int, each: int | None) -> None:
    """`each`: on a terminal, at most so many hits of a session."""
    if not out.json and not out.is_terminal:
        for hit in page:
            out.row(place_of_hit(hit), hit.role, iso(hit.at), hit.title, hit.snippet)
        return
    short = handles(store, [(hit.session, hit.entry_id) for hit in page])
    if out.json:
        for hit, handle in zip(page, short, strict=True):
            fields = {field: getattr(hit, field) for field in hit.__struct_fields__}
            out.record({"place": place_of_hit(hit), "handle": handle, **fields})
        return
    groups = by_session(zip(page, short, strict=True), limit, each)
    infos = {id: store.get(id).info for id in groups}
    names = short_ids(store, groups)
    width = terminal_size().columns
    is_all = page.cursor is None
    out.texts(
        line
        for id, group in groups.items()
        for line in _screen(group, infos[id], names[id], width, is_all=is_all)
    )
    if page.cursor is not None or len(groups) < len({hit.session for hit in page}):
        click.echo(f"there are more: -n {min(limit * 5, MOST)} shows more, other words fewer", err=True)


class Group(msgspec.Struct):
    """The hits of a session."""

    shown: list[tuple[Hit, str]]
    others: int = 0
    """How many more were found."""


def by_session(hits: Iterable[tuple[Hit, str]], limit: int, each: int | None) -> dict[str, Group]:
    """The hits under their sessions, in the order of the first of each; at most `limit` are shown, and of a
    session `each`: what was said rather than what a tool gave."""
    found: dict[str, list[tuple[Hit, str]]] = {}
    for hit, handle in hits:
        found.setdefault(hit.session, []).append((hit, handle))
    groups: dict[str, Group] = {}
    room = limit
    for id, all_of_it in found.items():
        wanted = min(room, len(all_of_it) if each is None else each)
        if not wanted:
            break
        chosen = sorted(range(len(all_of_it)), key=lambda at: all_of_it[at][0].in_tool)[:wanted]
        groups[id] = Group([all_of_it[at] for at in sorted(chosen)], len(all_of_it) - len(chosen))
        room -= len(chosen)
    return groups


def _screen(group: Group, info: clew.SessionInfo, name: str, width: int, *, is_all: bool) -> Iterator[Text]:
    """The hits of a session below its title. `is_all`: no hit was left unseen."""
    from rich.text import Text

    about = " · ".join(filter(None, (info.agent, info.project)))
    title = one_line(info.title or "(no title)")
    yield _cut(Text.assemble((title, "bold"), (f"  {one_line(about)}", "bright_black")))
    for hit, handle in group.shown:
        facts = [
            "note" if hit.in_note else "tool" if hit.in_tool else hit.role,
            ago(hit.at),
            "left behind" if not hit.on_path else "",
            f"+{count(hit.copies, 'copy')}" if hit.copies else "",
        ]
        told = " · ".join(fact for fact in facts if fact)
        yield _cut(Text.assemble((typed(one_line(handle)), "yellow"), (f"  {told}", "bright_black")))
        yield _snippet(hit, LINES * (width - len(INDENT)) - SPARE)
    if group.others:
        number = f"{group.others:,}" if is_all else "there are"
        more = f"{INDENT}{number} more: add --session {typed(one_line(name))}"
        yield _cut(Text(more, "italic bright_black"))
    yield Text("")


def _cut(line: Text) -> Text:
    line.no_wrap, line.overflow = True, "ellipsis"
    line.rstrip()
    return line


def _snippet(hit: Hit, room: int) -> Text:
    """So much of the snippet as fits, with its first hit inside."""
    from rich.text import Text

    first = hit.marks[0][0] if hit.marks else 0
    start = max(0, min(first - room // 3, len(hit.snippet) - room))
    if start:  # at the beginning of a word
        blank = hit.snippet.find(" ", start, first)
        start = blank + 1 if blank >= 0 else start
    end = min(len(hit.snippet), start + room)
    if end < len(hit.snippet):
        end = max(hit.snippet.rfind(" ", first, end), start) if " " in hit.snippet[first + 1 : end] else end
    body = Text(INDENT + ("…" if start else ""))
    at = start
    for begin, last in hit.marks:
        if begin < start or begin >= end:
            continue
        body.append(flat(plain(hit.snippet[at:begin])))
        body.append(flat(hit.snippet[begin : min(last, end)]), style="bold bright_red")
        at = min(last, end)
    body.append(flat(plain(hit.snippet[at:end])))
    if end < len(hit.snippet):
        body.append("…")
    return body
