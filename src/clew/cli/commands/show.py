"""`clew show` and `clew tail`: read a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

import clew
from clew.cli.app import Settings, command, session_argument
from clew.cli.names import branch_names, short_id
from clew.cli.output import Output, print_line, terminal, terminal_size
from clew.cli.store import is_on_path, opened, place_of, session_of, spot_of
from clew.cli.text import Kind, one_line, who

if TYPE_CHECKING:
    from rich.text import Text

MANY_AGENTS: Final = 20
"""Subagents that the heading names."""


@command(
    "show",
    "clew show                        show the newest session",
    "clew show login                       show the session that begins with login",
    "clew show login@12                    show entry 12 and what is around it",
    "clew show login@9f3a.12               show an entry by its name",
    "clew show login --prompts             show only what you said",
    "clew show login --last 5 --json       print five entries as JSON",
)
@session_argument("id", required=False, metavar="[ID[@PLACE]]")
@click.option("-n", "--last", type=click.IntRange(1), help="Show only the last N entries")
@click.option(
    "-C",
    "--context",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    help="Show this many entries before and after a place",
)
@click.option("--tools/--no-tools", default=True, show_default=True, help="Show tool calls and results")
@click.option(
    "--thinking/--no-thinking", default=True, show_default=True, help="Show the thinking of the model"
)
@click.option("--prompts", is_flag=True, help="Show only what the user said")
@click.option("--full", is_flag=True, help="Show all that tools were asked and answered")
@click.pass_obj
def show_command(
    settings: Settings,
    id: str | None,
    last: int | None,
    context: int,
    tools: bool,
    thinking: bool,
    prompts: bool,
    full: bool,
) -> None:
    """Without ID it shows the newest session. PLACE is a position (a number), a checkpoint or the name of an
    entry. A tool call is one line with its result; --full shows all of it.
    Piped: the same text without colours. With --json: one entry per line.
    """
    out = Output(settings)
    with opened(settings) as store:
        session, point = spot_of(store, id)
        tree = session.tree()
        mark: int | None = None
        if point is None:
            entries: Iterable[clew.Entry] = session.entries(last=last, damaged="skip")
        else:
            place = place_of(session, point)
            mark = place.position
            entries = around(store, session, place, context)
        if prompts:
            entries = (entry for entry in entries if who(entry) == "user")
        if out.json:
            for entry in entries:
                out.record(entry_record(session.id, entry))
            return
        from clew.cli.views.heading import Heading
        from clew.cli.views.transcript import View, transcript

        info = session.info
        heading = Heading(store, session, info, tree, terminal_size().columns if out.is_terminal else None)
        left_out = [kind for kind, shown in _KINDS if not (tools if shown == "tools" else thinking)]
        view = View(
            mark=mark,
            left_out=frozenset(left_out),
            full=full,
            prompts=prompts,
            names=branch_names(branch.id for branch in tree.branches),
            checkpoints=checkpoint_names(tree, session.id),
            agents=heading.agents_by_call(),
            workspace=info.workspace,
        )
        out.texts(chain(heading.lines(), transcript(entries, view)))


_KINDS: Final[tuple[tuple[Kind, str], ...]] = (
    ("call", "tools"),
    ("result", "tools"),
    ("thinking", "thinking"),
)


def checkpoint_names(tree: clew.Tree, session: str) -> dict[str, list[str]]:
    """The names of a session's checkpoints, by the ids of the entries where they stand."""
    found: dict[str, list[str]] = {}
    for one in tree.checkpoints:
        if one.session == session:
            found.setdefault(str(one.head), []).append(one.name)
    return found


def around(store: clew.Store, session: clew.Session, place: clew.Head, context: int) -> Iterable[clew.Entry]:
    """The neighbours of a place, on the session's path, or on the branch that it was left on."""
    first, last = max(0, place.position - context), place.position + context
    tree = session.tree()
    if place.position < 0 or is_on_path(tree, place):
        after = first - 1 if first else None
        end = session.head.position
        return session.entries(after=after, before=last + 1 if last < end else None, damaged="skip")
    from clew.cli.store import path_entries

    branch = next(one for one in tree.branches if one.id == place.branch)
    tip = clew.Head(place.branch, min(last, branch.last))
    return path_entries(store, session, tree, tip, first, last)


def entry_record(session: str, entry: clew.Entry) -> dict[str, Any]:
    """An entry for programs; the message is as it came, byte for byte."""
    return {
        "session": session,
        "id": entry.id,
        "position": entry.position,
        "kind": entry.kind,
        "role": who(entry),
        "at": entry.time,
        "hash": entry.hash,
        "epoch": entry.epoch,
        "redacted": entry.redacted,
        "annotations": dict(entry.annotations),
        "message": msgspec.Raw(entry.raw),
    }


# -- tail


@command(
    "tail",
    "clew tail login                       show its last ten entries",
    "clew tail -f login                    follow it until Ctrl-C",
    "clew tail -f --all --json             follow every session, as JSON",
)
@session_argument("id", required=False)
@click.option(
    "-n",
    "--last",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="Begin with the last N entries",
)
@click.option("-f", "--follow", is_flag=True, help="Print what is added, until Ctrl-C")
@click.option("--all", "everything", is_flag=True, help="Follow all sessions of the store; needs -f")
@click.option("--every", type=click.FloatRange(0.01), default=10.0, hidden=True)
@click.pass_obj
def tail_command(
    settings: Settings, id: str | None, last: int, follow: bool, everything: bool, every: float
) -> None:
    """Without ID it shows the newest session. -f shows what any process writes; after a rewind it shows what
    is new on the path.
    With --json: one entry per line.
    """
    if everything and (id is not None or not follow):
        raise click.UsageError("--all goes with -f, and without an id")
    out = Output(settings)
    with opened(settings) as store:
        # The watch begins before the first look: nothing can come between the two.
        changes = store.watch(every=every) if follow else iter(())
        tail = _Tail(out, store)
        only = None
        if not everything:
            session = session_of(store, id)
            only = session.id
            tail.show(session, last)
        else:
            tail.mark_all()
        for change in changes:
            if only in (None, change.session):
                tail.catch_up(change.session)


class _Tail:
    """Remembers of each session what was printed of it."""

    def __init__(self, out: Output, store: clew.Store) -> None:
        self._out = out
        self._store = store
        self._heads: dict[str, clew.Head] = {}
        self._spoke_last: str | None = None

    def mark_all(self) -> None:
        from clew.cli.store import all_sessions

        self._heads = {info.id: info.head for info in all_sessions(self._store)}

    def show(self, session: clew.Session, last: int) -> None:
        tree = session.tree()
        head = tree.heads[session.id]
        self._print(session, tree, head, session.entries(last=last, damaged="skip"))
        self._heads[session.id] = head

    def catch_up(self, id: str) -> None:
        """Print what is on the path now and was not when it was last looked at."""
        from clew.cli.store import path_to

        session = self._store.find(id)
        if session is None:
            return
        was, tree = self._heads.get(id), session.tree()
        head = tree.heads[session.id]
        if head == was:
            return
        known = {branch: last for branch, _, last in path_to(tree, was)} if was else {}
        after = _last_common(path_to(tree, head), known)
        self._print(session, tree, head, session.entries(after=after, damaged="skip"))
        self._heads[id] = head

    def _print(
        self, session: clew.Session, tree: clew.Tree, head: clew.Head, entries: Iterable[clew.Entry]
    ) -> None:
        """The entries up to a head, and not those that came since it was looked at."""
        import sys

        shown = (entry for entry in entries if entry.position <= head.position)
        if self._out.json:
            for entry in shown:
                self._out.record(entry_record(session.id, entry))
        else:
            for line in self._lines(session, tree, shown):
                if self._out.is_terminal:
                    print_line(terminal(), line)
                else:
                    self._out.line(line.plain)
        sys.stdout.flush()

    def _lines(self, session: clew.Session, tree: clew.Tree, entries: Iterable[clew.Entry]) -> Iterator[Text]:
        from rich.text import Text

        from clew.cli.views.transcript import View, transcript

        view = View(
            names=branch_names(branch.id for branch in tree.branches),
            checkpoints=checkpoint_names(tree, session.id),
            workspace=session.info.workspace,
        )
        lines = transcript(entries, view)
        first = next(lines, None)
        if first is None:
            return
        if self._spoke_last not in (None, session.id):
            yield Text("")
            yield Text(f"── {one_line(short_id(self._store, session.id))}", style="bold")
        self._spoke_last = session.id
        yield first
        yield from lines


def _last_common(path: list[tuple[str, int, int]], known: dict[str, int]) -> int | None:
    """The position up to which a path was printed before; None if no part of it was."""
    common = [min(last, known[branch]) for branch, first, last in path if known.get(branch, -1) >= first]
    return max(common) if common else None
