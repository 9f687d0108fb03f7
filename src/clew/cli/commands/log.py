"""`clew log`: the entries of a session in one line each, or its tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import click

import clew
from clew.cli.app import Settings, command, session_argument
from clew.cli.commands.show import entry_record
from clew.cli.names import branch_names, entry_name, short_ids
from clew.cli.output import Output, terminal_size
from clew.cli.store import opened, session_of
from clew.cli.text import first_words, iso, local, mark_style, one_line, short_mark, who
from clew.core.log.ids import parse_entry_id

if TYPE_CHECKING:
    from rich.text import Text

    from clew.cli.views.graph import Row

WORDS: Final = 200
COLOURS: Final = {"user": "bright_cyan", "assistant": "bright_green", "tool": "yellow"}
HEADS: Final = {"here": "bold bright_green", "elsewhere": "bold magenta", "left": "bold bright_green"}
LANES: Final = {"here": "bold", "elsewhere": "magenta", "left": "bright_black"}
WIDE: Final = 100
"""Columns from which on a line has the whole time of its entry."""
MIDDLE: Final = 72
"""Columns from which on it has day and minute."""


@command(
    "log",
    "clew log login                        list its entries, newest first",
    "clew log --graph login                draw branches, checkpoints ◆ and heads ◀",
    "clew log --graph --full login         draw every entry",
    "clew log -n 20 --json login",
)
@session_argument("id", required=False)
@click.option("-n", "--last", type=click.IntRange(1), help="List only the last N entries")
@click.option("--graph", is_flag=True, help="Draw all branches: ● current, ○ of a fork, · left behind")
@click.option("--full", is_flag=True, help="Draw every entry, and fold nothing; with --graph")
@click.option("--reverse", is_flag=True, help="List the oldest first")
@click.pass_obj
def log_command(
    settings: Settings, id: str | None, last: int | None, graph: bool, full: bool, reverse: bool
) -> None:
    """Without ID it lists the newest session. --graph draws all branches, also those that a rewind left.
    Piped without --graph: position, entry id, role, time (UTC), checkpoints and first words, separated by
    tabs.
    """
    out = Output(settings)
    with opened(settings) as store:
        session = session_of(store, id)
        if graph:
            if last is not None:
                raise click.UsageError("--graph draws the whole tree: leave out -n")
            _graph(out, store, session, full=full, reverse=reverse)
            return
        entries = session.entries(last=last, newest_first=not reverse, damaged="skip")
        if out.json:
            for entry in entries:
                out.record(entry_record(session.id, entry))
            return
        names = _names(session.checkpoints())
        if out.is_terminal:
            marks = Marks(store, session, session.tree())
            width = terminal_size().columns
            out.texts(_line(entry, marks, width) for entry in entries)
            return
        for entry in entries:
            named = ",".join(names.get(entry.id, []))
            words = one_line(first_words(entry)[: 2 * WORDS])[:WORDS]
            out.row(entry.position, entry.id, who(entry), iso(entry.time), named, words)


def _names(checkpoints: Iterable[clew.Checkpoint]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in checkpoints:
        found.setdefault(str(one.head), []).append(one.name)
    return found


class Marks:
    """What stands at the entries of a tree, besides what was said: their names, checkpoints, the forks that
    begin there, the subagents that they started."""

    def __init__(self, store: clew.Store, session: clew.Session, tree: clew.Tree) -> None:
        from clew.cli.views.heading import agents_of, call_of

        self._workspace = session.info.workspace
        self._branches = branch_names(branch.id for branch in tree.branches)
        self._checkpoints = _names(one for one in tree.checkpoints if one.session == session.id)
        agents = {call: each.id for each in agents_of(store, session.id) if (call := call_of(each))}
        ids = short_ids(store, {*tree.heads, *agents.values()})
        self.ids = ids
        self._agents = {call.encode(): ids[id] for call, id in agents.items()}
        self._forks: dict[str, list[str]] = {}
        for id, point in tree.forks.items():
            self._forks.setdefault(str(point.head), []).append(ids.get(id, id))
        longest = max((branch.last for branch in tree.branches), default=0)
        self.room = max(map(len, self._branches.values()), default=0) + 1 + len(str(longest))

    def name(self, place: clew.Head) -> str:
        return entry_name(self._branches, place)

    def checkpoints(self, entry: str) -> list[str]:
        return self._checkpoints.get(entry, [])

    def forks(self, entry: str) -> list[str]:
        return self._forks.get(entry, [])

    def agents(self, entry: clew.Entry) -> list[str]:
        """Those that a call of this entry started."""
        if not self._agents or who(entry) != "assistant":
            return []
        return [id for call, id in self._agents.items() if call in entry.raw]

    def words(self, entry: clew.Entry) -> str:
        """What was said, or done, on one line."""
        started = "".join(f"↳ {one_line(id)}  " for id in self.agents(entry))
        said = first_words(entry, self._workspace)
        return started + one_line(said[: 2 * WORDS])[:WORDS]


def _line(entry: clew.Entry, marks: Marks, width: int) -> Text:
    """Name, time, who, what: a narrow terminal leaves out the time."""
    from rich.text import Text

    place = parse_entry_id(entry.id)
    name = str(entry.position) if place is None else marks.name(place)
    role = one_line(who(entry))
    when = local(entry.time) if width >= WIDE else local(entry.time)[5:] if width >= MIDDLE else ""
    line = Text.assemble(
        (f"{name:<{marks.room}}  ", "yellow"),
        (f"{when}  " if when else "", "bright_black"),
        (f"{role:<10} ", COLOURS.get(role, "")),
        *((f"◆ {short_mark(name)}  ", mark_style(name)) for name in marks.checkpoints(entry.id)),
        *((f"○ {one_line(id)}  ", "magenta") for id in marks.forks(entry.id)),
        (marks.words(entry), "bright_black" if role == "tool" else ""),
    )
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _graph(out: Output, store: clew.Store, session: clew.Session, *, full: bool, reverse: bool) -> None:
    from clew.cli.store import entries_of_tree
    from clew.cli.views.graph import draw, newest_first

    tree = session.tree()
    if out.json:
        out.record(tree)
        return
    rows = draw(tree, fold=10**9 if full else 8)
    wanted = {str(row.entry) for row in rows if row.entry is not None}
    marks = Marks(store, session, tree)
    said = {
        entry.id: (one_line(who(entry)), marks.words(entry))
        for entry in entries_of_tree(store, tree)
        if entry.id in wanted
    }
    out.texts(drawn(rows if reverse else newest_first(rows), said, marks))


def drawn(rows: list[Row], said: dict[str, tuple[str, str]], marks: Marks | None = None) -> Iterator[Text]:
    """The lines of a drawing. Without marks an entry goes by its position."""
    from rich.text import Text

    width = max((len(row.lanes) for row in rows), default=0)
    for row in rows:
        end = len(row.lanes) - (row.entry is not None)
        line = Text.assemble((row.lanes[:end], "bright_black"), (row.lanes[end:], LANES[row.state]))
        line.no_wrap, line.overflow = True, "ellipsis"
        if row.folded:
            space = " " * (width - len(row.lanes) + 2)
            line.append(f"{space}{row.folded:,} more", style="italic bright_black")
        elif row.entry is not None:
            line.append(" " * (width - len(row.lanes)))
            _describe(line, row, said, marks)
        line.rstrip()
        yield line


def _describe(line: Text, row: Row, said: dict[str, tuple[str, str]], marks: Marks | None) -> None:
    """Name, heads, checkpoints, who and what: a narrow terminal cuts the words, not the names."""
    from clew.cli.views.graph import START

    grey = "bright_black" if row.state == "left" else ""
    is_start = row.entry == START
    if marks is None:
        line.append(f" {row.entry.position if row.entry and not is_start else '':>4}  ", "bright_black")
    else:
        name = marks.name(row.entry) if row.entry and not is_start else ""
        line.append(f"  {name:<{marks.room}}  ", grey or "yellow")
    ids = {} if marks is None else marks.ids
    for id in row.heads:
        line.append(f"◀ {one_line(ids.get(id, id))}  ", HEADS[row.state])
    for name in row.checkpoints:
        line.append(f"◆ {short_mark(name)}  ", mark_style(name))
    if row.is_end:
        line.append("left behind  ", "italic bright_black")
    role, words = ("", "(empty)") if is_start else said.get(str(row.entry), ("", "…"))
    if role:
        line.append(f"{role:<10} ", grey or COLOURS.get(role, ""))
    line.append(words, grey or ("bright_black" if role == "tool" else ""))
