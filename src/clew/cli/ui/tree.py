"""The tree of a session: branches, forks, checkpoints and heads, newest first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

import clew
from clew.cli.commands.log import Marks, drawn
from clew.cli.names import branch_names, entry_name
from clew.cli.store import entries_of_tree
from clew.cli.text import one_line, who
from clew.cli.ui.actions import Under
from clew.cli.ui.keys import ANYWHERE, BACK, MOVES, SESSION, TREE, KeyBar, bindings
from clew.cli.ui.lines import Lines
from clew.cli.ui.moves import MovesScreen
from clew.cli.views.graph import START, draw, newest_first


class Line:
    """A line of the drawing."""

    def __init__(self, text: Text, place: clew.Head | None) -> None:
        self.text, self.place = text, place
        text.no_wrap = True

    def texts(self) -> Iterator[Text]:
        yield self.text


class TreeScreen(MovesScreen):
    BINDINGS: ClassVar[list[BindingType]] = bindings(TREE, MOVES, SESSION, ANYWHERE, (BACK,))

    def __init__(self, store: clew.Store, session: clew.Session) -> None:
        super().__init__(store)
        self.session = session
        self._names: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        title = one_line(self.session.info.title or self.session.id)
        yield Static(Text(title), markup=False, classes="where")
        signs = "● its path · ○ of another session · · left behind · ◆ checkpoint · ◀ head"
        yield Static(Text(signs, "dim", no_wrap=True), markup=False, classes="facts")
        yield Lines[Line](gutter=False)
        yield Static("", markup=False, classes="status")
        yield KeyBar((BACK,), TREE, MOVES, SESSION, ANYWHERE)

    def on_mount(self) -> None:
        self.lines.focus()

    @property
    def lines(self) -> Lines[Line]:
        return self.query_one(Lines)

    def reload(self, select: str | None = None) -> None:
        """The cursor stays, or begins where the session stands."""
        with self.report_errors():
            here = self.lines.section
            at = here.place if here is not None else self.session.head
            self.lines.show(self._lines(), at=lambda line: line.place == at)

    def _lines(self) -> Iterator[Line | None]:
        tree = self.session.tree()
        self._names = branch_names(branch.id for branch in tree.branches)
        rows = newest_first(draw(tree))
        wanted = {str(row.entry) for row in rows if row.entry is not None}
        marks = Marks(self.store, self.session, tree)
        said: dict[str, tuple[str, str]] = {}
        for entry in entries_of_tree(self.store, tree):
            yield None
            if entry.id in wanted:
                said[entry.id] = (one_line(who(entry)), marks.words(entry))
        for row, line in zip(rows, drawn(rows, said, marks), strict=True):
            yield Line(line, row.entry if row.entry != START else None)

    def on_cursor_view_moved(self) -> None:
        line = self.lines.section
        place = line.place if line else None
        name = f"{entry_name(self._names, place)} · f fork here · r rewind to here" if place else ""
        self.query_one(".status", Static).update(Text(name, "dim"))

    def under(self) -> Under:
        line = self.lines.section
        return Under(self.session, line.place if line else None)

    def shows(self, id: str) -> bool:
        return self.session.id == id

    def action_open(self) -> None:
        from clew.cli.ui.reader import ReaderScreen

        line = self.lines.section
        if line is not None and line.place is not None:
            with self.report_errors():
                _ = self.app.push_screen(ReaderScreen(self.store, self.session, line.place))

    def on_cursor_view_chosen(self) -> None:
        self.action_open()
