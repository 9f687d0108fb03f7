"""`clew log`: the entries of a session in one line each, or its tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import click

import clew
from clew.cli.app import Settings, command, session_argument
from clew.cli.commands.show import entry_record
from clew.cli.output import Output
from clew.cli.store import opened, session_of
from clew.cli.text import first_words, iso, local, one_line, who

if TYPE_CHECKING:
    from rich.text import Text

    from clew.cli.views.graph import Row

WORDS: Final = 200
COLOURS: Final = {"user": "bright_cyan", "assistant": "bright_green", "tool": "yellow"}
LANES: Final = {"here": "bold", "elsewhere": "magenta", "left": "bright_black"}


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
            out.texts(_line(entry, names.get(entry.id, [])) for entry in entries)
            return
        for entry in entries:
            marks = ",".join(names.get(entry.id, []))
            words = one_line(first_words(entry)[: 2 * WORDS])[:WORDS]
            out.row(entry.position, entry.id, who(entry), iso(entry.time), marks, words)


def _names(checkpoints: Iterable[clew.Checkpoint]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in checkpoints:
        found.setdefault(str(one.head), []).append(one.name)
    return found


def _line(entry: clew.Entry, names: Iterable[str]) -> Text:
    from rich.text import Text

    role = one_line(who(entry))
    line = Text.assemble(
        (f"{entry.position:>5} ", "yellow"),
        (f"{local(entry.time)} ", "bright_black"),
        (f"{role:<10} ", COLOURS.get(role, "")),
        *((f"◆ {one_line(name)} ", "bold yellow") for name in names),
        one_line(first_words(entry)[: 2 * WORDS]),
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
    said = {
        entry.id: (one_line(who(entry)), one_line(first_words(entry)[: 2 * WORDS])[:WORDS])
        for entry in entries_of_tree(store, tree)
        if entry.id in wanted
    }
    out.texts(drawn(rows if reverse else newest_first(rows), said))


def drawn(rows: list[Row], said: dict[str, tuple[str, str]]) -> Iterator[Text]:
    from rich.text import Text

    width = max((len(row.lanes) for row in rows), default=0)
    for row in rows:
        end = len(row.lanes) - (row.entry is not None)
        line = Text.assemble((row.lanes[:end], "bright_black"), (row.lanes[end:], LANES[row.state]))
        line.no_wrap, line.overflow = True, "ellipsis"
        if row.folded:
            line.append(
                f"{' ' * (width - len(row.lanes))}     {row.folded:,} more", style="italic bright_black"
            )
        elif row.entry is not None:
            line.append(" " * (width - len(row.lanes)))
            _describe(line, row, said)
        line.rstrip()
        yield line


def _describe(line: Text, row: Row, said: dict[str, tuple[str, str]]) -> None:
    """Position, names, who and what: a narrow terminal cuts the words, not the names."""
    from clew.cli.views.graph import START

    grey = "bright_black" if row.state == "left" else ""
    is_start = row.entry == START
    line.append(f" {row.entry.position if row.entry and not is_start else '':>4}  ", style="bright_black")
    for id in row.heads:
        line.append(f"◀ {one_line(id)}  ", style="bold bright_green")
    for name in row.checkpoints:
        line.append(f"◆ {one_line(name)}  ", style="bold yellow")
    role, words = ("", "(empty)") if is_start else said.get(str(row.entry), ("", "…"))
    if role:
        line.append(f"{role:<9}  ", style=grey or COLOURS.get(role, ""))
    line.append(words, style=grey)
