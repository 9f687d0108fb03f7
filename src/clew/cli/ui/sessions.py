"""The list of sessions, newest activity first, and the filter above it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Input, Static

import clew
from clew.cli.text import ago, one_line
from clew.cli.ui.lines import Item, Lines
from clew.cli.ui.moves import MOVES, MovesScreen, Under
from clew.cli.ui.reader import GraphScreen, ReaderScreen

PAGE: Final = 200
ID_WIDTH: Final = 26


class SessionsScreen(MovesScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("enter", "read", "read", key_display="⏎"),
        Binding("g", "graph", "graph"),
        Binding("escape", "no_filter", show=False),
        Binding("down", "to_list", show=False),
        *MOVES,
    ]

    def __init__(self, store: clew.Store) -> None:
        super().__init__(store)
        self.known: list[clew.SessionInfo] = []
        self._pages = _pages(store)

    def compose(self) -> ComposeResult:
        yield Static("", markup=False, classes="where")
        yield Input(placeholder="words of the id, title, directory, tags …", id="filter")
        yield Lines[str]()
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self.list.focus()

    @property
    def list(self) -> Lines[str]:
        return self.query_one(Lines)

    @property
    def filter(self) -> Input:
        return self.query_one("#filter", Input)

    # -- the list

    def reload(self, select: str | None = None) -> None:
        selected = select or self.list.value
        self.known, self._pages = [], _pages(self.store)
        self.list.show(self._items(), at=(lambda id: id == selected) if selected else None)

    def _items(self) -> Iterator[Item[str] | None]:
        words = self.filter.value.casefold().split()
        for info in self._sessions():
            yield Item(session_line(info), info.id) if _matches(info, words) else None

    def _sessions(self) -> Iterator[clew.SessionInfo]:
        """What is known, then page by page what is not. Several may read by turns."""
        at = 0
        while True:
            while at == len(self.known):
                page = next(self._pages, None)
                if page is None:
                    return
                self.known += page
            yield self.known[at]
            at += 1

    def on_lines_grown(self) -> None:
        found = self.list.count
        more = "" if self.list.is_complete else "+"
        noun = "session" if found == 1 else "sessions"
        words = one_line(self.filter.value)
        note = f" with: {words}" if words else ""
        if self.list.is_complete and not self.known:
            note = "; clew import --scan brings some"
        where = f"{found:,}{more} {noun}{note}   {one_line(self.store.location)}"
        self.query_one(".where", Static).update(Text(where))

    # -- the filter

    def action_filter(self) -> None:
        self.filter.add_class("open")
        self.filter.focus()

    def action_no_filter(self) -> None:
        self.filter.value = ""
        self.filter.remove_class("open")
        self.list.focus()

    def action_to_list(self) -> None:
        self.list.focus()

    def on_input_changed(self) -> None:
        self.list.show(self._items())

    def on_input_submitted(self) -> None:
        self.list.focus()

    # -- a session

    def under(self) -> Under | None:
        id = self.list.value
        return None if id is None else Under(self.store.get(id))

    def action_read(self) -> None:
        with self.report_errors():
            if under := self.under():
                _ = self.app.push_screen(ReaderScreen(self.store, under.session))

    def action_graph(self) -> None:
        with self.report_errors():
            if under := self.under():
                _ = self.app.push_screen(GraphScreen(self.store, under.session))

    def action_rewind(self) -> None:
        """A place is chosen in the tree."""
        self.action_graph()
        if self.list.value is not None:
            self.say("choose an entry to go back to, then r")


def session_line(info: clew.SessionInfo) -> Text:
    id = Text(one_line(info.id), "cyan")
    id.truncate(ID_WIDTH, overflow="ellipsis", pad=True)
    line = Text.assemble((f"{ago(info.updated_at):>11} ", "bright_black"), f"{info.messages:>6,}  ", id, "  ")
    if info.damaged:
        line.append("damaged  ", style="red")
    elif info.status != "pending":
        line.append(f"{info.status}  ", style="yellow")
    line.append(one_line(info.title or info.preview))
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _matches(info: clew.SessionInfo, words: list[str]) -> bool:
    parts = (info.id, info.title, info.preview, info.workspace, info.model, info.status, *info.tags)
    text = "\n".join(part for part in parts if part).casefold()
    return all(word in text for word in words)


def _pages(store: clew.Store) -> Iterator[clew.Page]:
    cursor = None
    while True:
        page = store.list(limit=PAGE, cursor=cursor)
        yield page
        cursor = page.cursor
        if cursor is None:
            return
