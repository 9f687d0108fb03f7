"""Search in the texts of all sessions, as you type: hits by session, each with the words around it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import msgspec
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

import clew
from clew.cli.text import ago, count, flat, one_line, plain
from clew.cli.ui.actions import Under
from clew.cli.ui.background import after
from clew.cli.ui.catalog import Filter
from clew.cli.ui.keys import ANYWHERE, BACK, LIST, SESSION, KeyBar
from clew.cli.ui.moves import MovesScreen
from clew.cli.ui.reader import ReaderScreen
from clew.cli.ui.tree import TreeScreen
from clew.cli.ui.view import Rows
from clew.core.log.ids import parse_entry_id
from clew.core.log.rows import Details, SessionRow
from clew.core.search.search import Request, request_of
from clew.core.search.search import search as find_page
from clew.errors import InvalidQueryError
from clew.model.search import Hit

PAUSE: Final = 0.12
"""Seconds without a key before a search begins."""
LOOK_EVERY: Final = 0.5
"""Seconds between two looks at how far the index is."""
MOST: Final = 200
MOST_NAMED: Final = 5
"""Sessions that are shown because of their title, id, directory or tags."""
OPEN: Final = next(key for key in LIST if key.action == "open")
TREE: Final = next(key for key in LIST if key.action == "tree")
AGAIN: Final = OPEN._replace(keys="slash", action="type", shown="/", word="search again", help="Search again")


class Found(NamedTuple):
    """A line of the results: a session, or one hit in it."""

    session: str
    hit: Hit | None
    hits: int = 0


class Results(NamedTuple):
    words: str
    hits: Sequence[Hit]
    named: Sequence[Found]
    is_more: bool = False
    wrong: str = ""
    """What is wrong with the words."""


def as_prefix(words: str) -> str:
    """The last word may go on."""
    return f"{words}*" if words[-1:].isalnum() else words


class ResultRows(Rows[Found]):
    """The results. Only here are letters commands: everywhere else they are words to search for."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key.keys, key.action if "." in key.action else f"screen.{key.action}")
        for key in (OPEN, AGAIN, TREE, *SESSION, *ANYWHERE, BACK)
    ]


class SearchScreen(MovesScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", priority=True),
        Binding("down", "to_results"),
        Binding("f1", "help"),
        Binding("f5", "reload"),
        Binding("ctrl+q", "app.quit"),
    ]

    def __init__(self, store: clew.Store) -> None:
        super().__init__(store)
        self.words = ""
        self.is_searching = False
        self.early = ""
        """What was typed before there was a line to type in."""
        self._timer: asyncio.TimerHandle | None = None
        self._opens_first = False
        """Enter was pressed before the words brought anything."""
        self._indexed = (0, 0)

    def compose(self) -> ComposeResult:
        yield Input(placeholder='words, "a phrase", pre*, -without', id="query", select_on_focus=False)
        yield Static("", markup=False, classes="facts")
        yield ResultRows(self._line)
        yield KeyBar((BACK, OPEN, AGAIN, TREE), SESSION, ANYWHERE)

    def on_mount(self) -> None:
        self.input.focus()
        self.input.insert_text_at_cursor(self.early)
        self.set_interval(LOOK_EVERY, self._say_progress)
        self._say_state("Type words that were said in any session.")

    @property
    def is_waiting(self) -> bool:
        """What is shown is not yet what the words bring."""
        return self._timer is not None or self.is_searching

    @property
    def input(self) -> Input:
        return self.query_one(Input)

    @property
    def rows(self) -> Rows[Found]:
        return self.query_one(Rows)

    def reload(self, select: str | None = None) -> None:
        self._search()

    # -- searching

    def on_input_changed(self) -> None:
        self._opens_first = False
        self._stop_waiting()
        self._timer = after(PAUSE, self, self._search)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _search(self) -> None:
        self._stop_waiting()
        words = self.words = self.input.value.strip()
        if not words:
            self.is_searching = False
            self.rows.show([])
            self._say_state("Type words that were said in any session.")
            return
        self.is_searching, self._indexed = True, (0, 0)
        self._say_state("searching …")
        self.browser.background.run("search", lambda: self._look(words), self._show)

    def _say_progress(self) -> None:
        done, total = self._indexed
        if self.is_searching and total:
            share = min(99, 100 * done // total)
            self._say_state(f"indexing {count(total, 'message')}, once: {share} % (keys work meanwhile)")

    def _told(self, done: int, total: int) -> None:
        """In a thread."""
        self._indexed = (done, total)

    def _look(self, words: str) -> Results:
        """In a thread. The filters of the list hold here too."""
        named = self.browser.catalog.matching(words.split(), MOST_NAMED)
        names = [Found(info.id, None) for info in named]
        try:
            page = find_page(self.store._engine, self._request(as_prefix(words)), self._told)
        except InvalidQueryError as exc:
            return Results(words, (), names, wrong=str(exc))
        return Results(words, page.hits, names, is_more=page.cursor is not None)

    def _request(self, query: str) -> Request:
        wanted = request_of(
            query,
            role=None,
            session=None,
            workspace=None,
            tag=None,
            where=None,
            since=None,
            until=None,
            tools=True,
            order="newest",
            limit=MOST,
            cursor=None,
        )
        infos, fits = self.browser.catalog.infos, self.browser.catalog.filter.fits
        if self.browser.catalog.filter == Filter():
            return wanted

        def accepts(row: SessionRow, _: Details) -> bool:
            info = infos.get(row.id)
            return info is not None and fits(info)

        return msgspec.structs.replace(wanted, accepts=accepts)

    def _show(self, found: Results) -> None:
        if found.words != self.words or not self.is_attached:
            return
        self.is_searching = False
        catalog = self.browser.catalog
        shown = found.hits
        rows = by_session(shown, found.named)
        self.rows.show(rows, 1 if rows and rows[0].hits else 0)
        if found.wrong:
            self._say_state(found.wrong)
        elif not rows:
            hint = "" if catalog.filter == Filter() else " with these filters: esc, esc searches all"
            self._say_state(f"Nothing found{hint}.")
        elif not shown:
            self._say_state(f"No text has this; {count(len(rows), 'session')} by name.")
        else:
            sessions = count(len({hit.session for hit in shown}), "session")
            hits = count(len(shown), "hit") if not found.is_more else f"{len(shown):,}+ hits"
            self._say_state(f"{hits} in {sessions}")
        if self._opens_first:
            self.on_input_submitted()

    def _say_state(self, text: str) -> None:
        self.query_one(".facts", Static).update(Text(one_line(text), "dim", no_wrap=True))

    # -- the results

    def _line(self, found: Found, width: int) -> Text:
        return hit_line(found.hit, width) if found.hit else self._session_line(found, width)

    def _session_line(self, found: Found, width: int) -> Text:
        info = self.browser.catalog.infos.get(found.session)
        name = self.browser.catalog.names.get(found.session, found.session)
        if info is None:
            return Text.assemble((one_line(name), "cyan"), no_wrap=True)
        facts = [ago(info.updated_at), info.agent or ""]
        right = f"  {'  '.join(one_line(fact) for fact in facts if fact)}  "
        title = Text(one_line(info.title or info.id), "bold")
        title.truncate(max(8, width - len(right) - len(name) - 1), overflow="ellipsis")
        line = Text(no_wrap=True).append_text(title)
        return line.append(right, "dim").append(one_line(name), "cyan")

    def under(self) -> Under | None:
        found = self.rows.value
        if found is None:
            return None
        place = parse_entry_id(found.hit.entry_id) if found.hit else None
        return Under(self.store.get(found.session), place)

    def action_type(self) -> None:
        self.input.focus()

    def action_to_results(self) -> None:
        if self.rows.rows:
            self.rows.focus()

    def on_input_submitted(self) -> None:
        self._opens_first = self.is_waiting
        if self._timer is not None:
            self._search()
        elif not self.is_searching and self.rows.rows:
            self.rows.focus()
            self.action_open()

    def on_cursor_view_chosen(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        with self.report_errors():
            found = self.rows.value
            if found is None:
                return
            after = self.rows.rows[self.rows.cursor + 1 : self.rows.cursor + 2]
            hit = found.hit or next((one.hit for one in after), None)
            place = parse_entry_id(hit.entry_id) if hit else None
            query = as_prefix(self.words) if hit else ""
            _ = self.app.push_screen(ReaderScreen(self.store, self.store.get(found.session), place, query))

    def action_tree(self) -> None:
        with self.report_errors():
            if under := self.under():
                _ = self.app.push_screen(TreeScreen(self.store, under.session))


def by_session(hits: Sequence[Hit], named: Sequence[Found]) -> list[Found]:
    """A line for each session, in the order of its first hit, and below it its hits from first to last; then
    the sessions that only their names brought."""
    groups: dict[str, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(hit.session, []).append(hit)
    rows = []
    for session, found in groups.items():
        rows.append(Found(session, None, len(found)))
        rows += [Found(session, hit) for hit in sorted(found, key=lambda hit: hit.position)]
    return [*rows, *(one for one in named if one.session not in groups)]


def hit_line(hit: Hit, width: int) -> Text:
    """Who said it, and the words around the hit: those before it are cut if there is no room for all."""
    left = "" if hit.on_path else "(left behind) "
    line = Text.assemble(
        (f"  {'note' if hit.in_note else hit.role:<9} ", "dim"), (left, "yellow"), no_wrap=True
    )
    room = width - line.cell_len
    start, end = hit.marks[0] if hit.marks else (0, 0)
    begin = 0
    if len(flat(hit.snippet[:end])) > room * 2 // 3:
        begin = max(0, start - room // 3)
        begin = _word_before(hit.snippet, begin, start)
    if begin:
        line.append("…")
    at = begin
    for first, last in hit.marks:
        line.append(flat(plain(hit.snippet[at:first])))
        line.append(flat(plain(hit.snippet[first:last])), "bold yellow")
        at = last
    return line.append(flat(plain(hit.snippet[at:])))


_BLANK: Final = re.compile(r"\s")


def _word_before(text: str, begin: int, start: int) -> int:
    """Not in the middle of a word."""
    blank = _BLANK.search(text, begin, start)
    return blank.end() if blank else begin
