"""Dialogs: the id of a fork, and a confirmation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static

import clew
from clew.cli.app import described
from clew.cli.commands.log import WORDS, drawn
from clew.cli.graph import START, draw, newest_first
from clew.cli.store import entries_of_tree
from clew.cli.text import clean, first_words, one_line, who
from clew.cli.ui.moves import MOVES, MovesScreen, Under
from clew.cli.ui.reader import Item, Lines, ReaderScreen
from clew.core.log.ids import parse_entry_id
from clew.errors import ClewError


def _shown(lines: Iterable[Text]) -> Iterator[Static]:
    for line in lines:
        yield Static(line, markup=False, classes="cut" if line.no_wrap else None)


class ConfirmDialog(ModalScreen[bool]):
    """Shows what will be done, and asks."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "dismiss(True)", "yes"),
        Binding("n,escape,q", "dismiss(False)", "no"),
    ]

    def __init__(self, lines: Iterable[Text]) -> None:
        super().__init__()
        self.lines = list(lines)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield from _shown(self.lines)
            yield Static("y yes · n no", markup=False, classes="keys")


class ForkDialog(ModalScreen[clew.Session]):
    """Asks for the id of a fork, and makes it. An id that is in use can be corrected."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "cancel")]

    def __init__(self, lines: Iterable[Text], make: Callable[[str | None], clew.Session]) -> None:
        super().__init__()
        self.lines = list(lines)
        self.make = make

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield from _shown(self.lines)
            yield Input(placeholder="its id; empty: one is generated")
            yield Static("", markup=False, classes="problem")
            yield Static("enter fork · esc cancel", markup=False, classes="keys")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        try:
            made = self.make(event.value.strip() or None)
        except ClewError as exc:
            self.query_one(".problem", Static).update(Text(clean(described(exc))))
            return
        _ = self.dismiss(made)


# -- the tree of a session: branches, forks, checkpoints and heads, newest first


class GraphScreen(MovesScreen):
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
