"""A session to be read, from its beginning or around one place of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Static

import clew
from clew.cli.commands.show import around, transcript
from clew.cli.entries import Kind
from clew.cli.text import one_line
from clew.cli.ui.lines import Item, Lines
from clew.cli.ui.moves import MOVES, MovesScreen, Under

NEIGHBOURS: Final = 20
"""So many entries before and after a place of the tree are shown."""
ASIDE: Final[set[Kind]] = {"call", "result", "thinking"}


class ReaderScreen(MovesScreen):
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
        from clew.cli.ui.graph import GraphScreen

        _ = self.app.push_screen(GraphScreen(self.store, self.session))
