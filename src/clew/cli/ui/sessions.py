"""The list of sessions, newest activity first: subagents and forks below their owners, filters, keys."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import ClassVar, Final, NamedTuple

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import Resize
from textual.widgets import Static

import clew
from clew.cli.names import short_ids
from clew.cli.text import from_home, one_line
from clew.cli.ui.actions import Under
from clew.cli.ui.catalog import Catalog, Filter, Row
from clew.cli.ui.columns import Layout, Widths, folded, heading, layout, session_line, widths
from clew.cli.ui.dialogs import Choice, PickDialog
from clew.cli.ui.keys import ANYWHERE, LIST, MOVES, SESSION, KeyBar, bindings
from clew.cli.ui.moves import MovesScreen
from clew.cli.ui.reader import ReaderScreen
from clew.cli.ui.search import SearchScreen
from clew.cli.ui.tree import TreeScreen
from clew.cli.ui.view import Rows

FIRST: Final = 100
PAGE: Final = 2_000
AT_ONCE: Final = 1.0
"""Seconds of reading before what was read is shown."""


class Read(NamedTuple):
    """What was read of the list."""

    number: int
    """Which reading it is of: what an older one brings is dropped."""
    infos: Sequence[clew.SessionInfo]
    names: Mapping[str, str]
    cursor: str | None


class SessionsScreen(MovesScreen):
    BINDINGS: ClassVar[list[BindingType]] = bindings(LIST, SESSION, MOVES, ANYWHERE)

    def __init__(self, store: clew.Store) -> None:
        super().__init__(store)
        self._select: str | None = None
        self._reading = 0
        """Counts the times that the list was read: pages of an older reading are dropped."""
        self._fresh: dict[str, clew.SessionInfo] = {}
        self._widths = Widths()

    def compose(self) -> ComposeResult:
        yield Static("", markup=False, classes="where")
        yield Static("", markup=False, classes="facts")
        yield Static("", markup=False, id="heading")
        yield Rows[Row](self._line)
        yield KeyBar(LIST, SESSION, MOVES, ANYWHERE)

    def on_mount(self) -> None:
        self.rows.focus()

    @property
    def rows(self) -> Rows[Row]:
        return self.query_one(Rows)

    @property
    def catalog(self) -> Catalog:
        return self.browser.catalog

    # -- reading: the first page at once, the others in a thread while keys are answered

    def reload(self, select: str | None = None) -> None:
        self._select = select or self._selected()
        self._reading += 1
        self._fresh = {}
        with self.report_errors():
            page = self.store.list(limit=FIRST)
            names = short_ids(self.store, [info.id for info in page])
            self._take(Read(self._reading, page.sessions, names, page.cursor))

    def _read_on(self, number: int, cursor: str) -> Read:
        """In a thread: as many pages as a moment has room for."""
        end, at = monotonic() + AT_ONCE, cursor
        found: list[clew.SessionInfo] = []
        while True:
            page = self.store.list(limit=PAGE, cursor=at)
            found += page
            if page.cursor is None or monotonic() > end:
                return Read(number, found, short_ids(self.store, [info.id for info in found]), page.cursor)
            at = page.cursor

    def _take(self, read: Read) -> None:
        if read.number != self._reading:
            return
        catalog, cursor = self.catalog, read.cursor
        self._fresh |= {info.id: info for info in read.infos}
        catalog.is_complete = cursor is None
        names = {**catalog.names, **read.names}
        if cursor is None:
            catalog.set(self._fresh, names)
        else:  # what was known stays until all is read again
            known = {id: info for id, info in catalog.infos.items() if id not in self._fresh}
            catalog.set({**self._fresh, **known}, names)
            self.browser.background.run("list", lambda: self._read_on(read.number, cursor), self._take)
        self._widths = widths(catalog.infos.values(), catalog.names.values())
        self._draw()

    def _draw(self) -> None:
        wanted = self._select or self._selected()
        if self._select is not None:
            self.catalog.open_to(self._select)
        rows = self.catalog.rows()
        at = next((at for at, row in enumerate(rows) if row.info.id == wanted), None)
        if at is not None and self._select is not None:
            self._select = None
        self.rows.show(rows, self.rows.cursor if at is None else at)
        self._draw_head()

    def _selected(self) -> str | None:
        row = self.rows.value
        return row.info.id if row else None

    def _draw_head(self) -> None:
        catalog, shown = self.catalog, sum(1 for row in self.rows.rows if not row.depth)
        more = "" if catalog.is_complete else "+"
        tops = [row for row in self.rows.rows if not row.depth]
        below = folded(sum(row.agents for row in tops), sum(row.forks for row in tops))
        what = f"{shown:,}{more} {'session' if shown == 1 and not more else 'sessions'}"
        beside = f", {below}" if below else ""
        where = Text.assemble(("clew  ", "bold"), f"{what}{beside}", no_wrap=True)
        place = one_line(from_home(self.store.location))
        room = self.size.width - where.cell_len - 4
        if len(place) <= room:
            where.append(place.rjust(room + 2), "dim")
        self.query_one(".where", Static).update(where)
        self.query_one(".facts", Static).update(self._filters())
        self.query_one("#heading", Static).update(heading(self._layout()) if shown else Text(""))

    def _filters(self) -> Text:
        """What the list is limited to, or what to do when it is empty."""
        wanted = self.catalog.filter
        if not self.rows.rows and self.catalog.is_complete:
            if self.catalog.infos:
                return Text("No session fits. esc shows all again.", "yellow")
            return Text("No sessions yet. Quit (q), then: clew import --scan", "yellow")
        parts: list[tuple[str, str]] = []
        for key, name, value in (
            ("a", "agent", wanted.agent),
            ("p", "project", wanted.project),
            (".", "directory", "this one" if wanted.directory else None),
        ):
            parts.append((f"{key} ", "cyan"))
            parts.append((f"{name}: ", "dim"))
            parts.append((f"{one_line(value or 'all')}   ", "bold yellow" if value else "dim"))
        return Text.assemble(*parts, no_wrap=True)

    def _layout(self) -> Layout:
        return layout(self.rows.scrollable_content_region.width, self._widths)

    def _line(self, row: Row, width: int) -> Text:
        return session_line(
            row, self.catalog.names.get(row.info.id, row.info.id), layout(width, self._widths)
        )

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._draw_head)

    # -- filters

    def action_agent(self) -> None:
        self._pick("Sessions of which agent?", "agent", self.catalog.agents())

    def action_project(self) -> None:
        self._pick("Sessions of which project?", "project", self.catalog.projects())

    def _pick(self, question: str, field: str, counted: list[tuple[str, int]]) -> None:
        choices: list[Choice[str | None]] = [Choice(None, "all", f"{sum(number for _, number in counted):,}")]
        choices += [Choice(name, one_line(name), f"{number:,}") for name, number in counted]
        now = getattr(self.catalog.filter, field)
        at = next((at for at, choice in enumerate(choices) if choice.value == now), 0)

        def chosen(choice: Choice[str | None] | None) -> None:
            if choice is not None:
                self._limit(self.catalog.filter._replace(**{field: choice.value}))

        _ = self.app.push_screen(PickDialog(question, choices, at=at), chosen)

    def action_here(self) -> None:
        now = self.catalog.filter
        here = None if now.directory else os.path.realpath(os.getcwd())
        self._limit(now._replace(directory=here))

    def action_no_filter(self) -> None:
        self._limit(Filter())

    def _limit(self, wanted: Filter) -> None:
        self.catalog.filter = wanted
        self._draw()

    # -- subagents, forks and copies

    def action_unfold(self) -> None:
        row = self.rows.value
        if row is not None and row.has_below and not row.is_open:
            self.catalog.opened.add(row.info.id)
            self._draw()

    def action_fold(self) -> None:
        row = self.rows.value
        if row is None:
            return
        if row.is_open and row.has_below:
            self.catalog.opened.discard(row.info.id)
        elif row.depth:
            self._select = self.catalog.owner_of(row.info.id)
        self._draw()

    # -- a session

    def under(self) -> Under | None:
        id = self._selected()
        return None if id is None else Under(self.store.get(id))

    def action_open(self) -> None:
        with self.report_errors():
            if under := self.under():
                _ = self.app.push_screen(ReaderScreen(self.store, under.session))

    def on_cursor_view_chosen(self) -> None:
        self.action_open()

    def action_tree(self) -> None:
        with self.report_errors():
            if under := self.under():
                _ = self.app.push_screen(TreeScreen(self.store, under.session))

    def action_rewind(self) -> None:
        """A place is chosen in the tree."""
        if self.rows.value is not None:
            self.action_tree()
            self.say("choose an entry to go back to, then r")

    def action_search(self) -> None:
        _ = self.app.push_screen(SearchScreen(self.store))
