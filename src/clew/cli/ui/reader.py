"""The screens of one session: its entries, and its tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Static

import clew
from clew.cli.commands.log import WORDS, drawn
from clew.cli.commands.show import around, transcript
from clew.cli.graph import START, draw, newest_first
from clew.cli.store import entries_of_tree
from clew.cli.text import Kind, first_words, one_line, who
from clew.cli.ui.lines import Item, Lines
from clew.cli.ui.moves import MOVES, MovesScreen, Under
from clew.core.log.ids import parse_entry_id

NEIGHBOURS: Final = 20
"""So many entries before and after a place of the tree are shown."""
ASIDE: Final[set[Kind]] = {"call", "result", "thinking"}


class ReaderScreen(MovesScreen):
    """The entries, from the first one on or around one place."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "app.pop_screen", "back", key_display="esc"),
        Binding("n", "next", "next", key_display="n/p"),
        Binding("p", "previous", show=False),
        Binding("t", "tools", "tools"),
        Binding("g", "graph", "graph"),
        *MOVES,
    ]

    def __init__(self, store: clew.Store, session: clew.Session, place: clew.Head | None = None) -> None:
        super().__init__(store)
        self.session, self.place = session, place
        self.title_line = one_line(f"{session.id}  {session.info.title or ''}")
        self.has_tools = True

    def compose(self) -> ComposeResult:
        yield Static(Text(self.title_line), markup=False, classes="where")
        yield Lines[str]()
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self.lines.focus()

    @property
    def lines(self) -> Lines[str]:
        return self.query_one(Lines)

    def reload(self, select: str | None = None) -> None:
        at = self.lines.value or (str(self.place) if self.place else None)
        with self.report_errors():
            self.lines.show(self._items(self._entries()), at=(lambda id: id == at) if at else None)

    def _entries(self) -> Iterable[clew.Entry]:
        if self.place is None:
            return self.session.entries(damaged="skip")
        return around(self.store, self.session, self.place, NEIGHBOURS)

    def _items(self, entries: Iterable[clew.Entry]) -> Iterator[Item[str] | None]:
        mark = self.place.position if self.place else None
        left_out = set() if self.has_tools else ASIDE
        for entry in entries:
            yield None
            lines = transcript([entry], mark, left_out, full=True)
            empty = next(lines, None)
            if empty is None:
                continue
            # The line that parts entries comes first. Here it ends one: the first line says who speaks.
            for line in chain(lines, [empty]):
                yield Item(line, entry.id)

    def under(self) -> Under:
        return Under(self.session, self.lines.value)

    def action_next(self) -> None:
        self.lines.to_neighbour(1)

    def action_previous(self) -> None:
        self.lines.to_neighbour(-1)

    def action_tools(self) -> None:
        self.has_tools = not self.has_tools
        self.reload()

    def action_graph(self) -> None:
        _ = self.app.push_screen(GraphScreen(self.store, self.session))


class GraphScreen(MovesScreen):
    """The tree: branches, forks, checkpoints and heads, newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "app.pop_screen", "back", key_display="esc"),
        Binding("enter", "read", "read", key_display="⏎"),
        *MOVES,
    ]

    def __init__(self, store: clew.Store, session: clew.Session) -> None:
        super().__init__(store)
        self.session = session

    def compose(self) -> ComposeResult:
        signs = "● its path  ○ others  · left  ◆ checkpoint  ◀ head"
        yield Static(Text(f"{one_line(self.session.id)}   {signs}"), markup=False, classes="where")
        yield Lines[str]()
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self.lines.focus()

    @property
    def lines(self) -> Lines[str]:
        return self.query_one(Lines)

    def reload(self, select: str | None = None) -> None:
        """The cursor stays, or begins where the session stands."""
        with self.report_errors():
            at = self.lines.value or str(self.session.head)
            self.lines.show(self._items(), at=lambda id: id == at)

    def _items(self) -> Iterator[Item[str] | None]:
        tree = self.session.tree()
        rows = newest_first(draw(tree))
        wanted = {str(row.entry) for row in rows if row.entry is not None}
        said: dict[str, tuple[str, str]] = {}
        for entry in entries_of_tree(self.store, tree):
            yield None
            if entry.id in wanted:
                said[entry.id] = (one_line(who(entry)), one_line(first_words(entry)[: 2 * WORDS])[:WORDS])
        for row, line in zip(rows, drawn(rows, said), strict=True):
            has_entry = row.entry is not None and row.entry != START
            yield Item(line, str(row.entry) if has_entry else None)

    def under(self) -> Under:
        return Under(self.session, self.lines.value)

    def action_read(self) -> None:
        id = self.lines.value
        place = parse_entry_id(id) if id is not None else None
        if place is None:
            return
        with self.report_errors():
            _ = self.app.push_screen(ReaderScreen(self.store, self.session, place))
