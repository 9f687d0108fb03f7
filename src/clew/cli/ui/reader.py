"""One session to read: prompts, answers, tools folded to one line, and the hits of a search in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input, Static

import clew
from clew.cli.commands.show import around
from clew.cli.names import branch_names, entry_name
from clew.cli.store import is_on_path
from clew.cli.text import ago, count, local, money, one_line
from clew.cli.ui.actions import Under
from clew.cli.ui.dialogs import Choice, PickDialog
from clew.cli.ui.keys import ANYWHERE, BACK, MOVES, READ, SESSION, KeyBar, bindings
from clew.cli.ui.lines import Lines
from clew.cli.ui.moves import MovesScreen
from clew.cli.ui.transcript import Section, sections
from clew.cli.views.heading import call_of
from clew.cli.views.sessions import mark_of, new_words
from clew.model.search import Hit

NEIGHBOURS: Final = 20
"""So many entries before and after a place that was left behind are shown."""
MOST_HITS: Final = 1000
FOLLOW_EVERY: Final = 1.0
"""Seconds between two looks at a session that may grow."""


class ReaderScreen(MovesScreen):
    """The entries, from the first one on, or around one place that the session was rewound past."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(READ, MOVES, SESSION, ANYWHERE, (BACK,))

    def __init__(
        self, store: clew.Store, session: clew.Session, place: clew.Head | None = None, words: str = ""
    ) -> None:
        super().__init__(store)
        self.session, self.place, self.words = session, place, words
        self.hits: list[str] = []
        """The ids of entries, in the order of their places."""
        self.opens_all = False
        self.follows = False
        self.is_elsewhere = False
        """What is shown was left behind."""
        self._info = session.info
        self._names: dict[str, str] = {}
        self._head: clew.Head | None = None
        self._agents: dict[str, str] = {}
        """For the id of a call the subagent that it started."""
        self._cost = ""

    def compose(self) -> ComposeResult:
        yield Static("", markup=False, classes="where")
        yield Static("", markup=False, classes="facts")
        yield Input(placeholder="words in this session", id="find", select_on_focus=False)
        yield Lines[Section]()
        yield Static("", markup=False, classes="status")
        yield KeyBar((BACK,), READ, MOVES, SESSION, ANYWHERE)

    def on_mount(self) -> None:
        self.lines.focus()
        self.set_interval(FOLLOW_EVERY, self._look_again)

    @property
    def lines(self) -> Lines[Section]:
        return self.query_one(Lines)

    @property
    def finder(self) -> Input:
        return self.query_one("#find", Input)

    # -- reading

    def reload(self, select: str | None = None) -> None:
        with self.report_errors():
            here = self.lines.section
            wanted = here.entries[0] if here else (str(self.place) if self.place else None)
            self._info = self.session.info
            tree = self.session.tree()
            self._names = branch_names(branch.id for branch in tree.branches)
            self._head = tree.heads[self.session.id]
            self.is_elsewhere = self.place is not None and not is_on_path(tree, self.place)
            self._agents = self._agents_by_call()
            self._cost = self._priced()
            self._draw_head()
            at = (lambda section: wanted in section.entries) if wanted else None
            self.lines.show(self._sections(None), at=at, top=here is None)
            if self.words:
                self._search()

    def _sections(self, after: int | None) -> Iterator[Section | None]:
        if self.is_elsewhere and self.place is not None:
            entries = around(self.store, self.session, self.place, NEIGHBOURS)
        else:
            entries = self.session.entries(after=after, damaged="skip")
        for section in sections(entries, self._info.workspace):
            if section is not None:
                self._complete(section)
            yield section

    def _complete(self, section: Section) -> None:
        section.is_open = section.is_open or self.opens_all
        id = self._agents.get(section.call.call or "") if section.call else None
        if id is not None:
            section.agent, section.agent_name = id, self.name_of(id)

    def _draw_head(self) -> None:
        info = self._info
        title = Text(one_line(info.title or info.id), no_wrap=True, overflow="ellipsis")
        if self.is_elsewhere:
            title = Text.assemble(("left behind: ", "yellow"), title)
        self.query_one(".where", Static).update(title)
        facts = [
            info.agent or "",
            info.project,
            info.model or "",
            count(info.messages, "message"),
            self._family(),
            self._cost,
            f"active {ago(info.updated_at)}",
            mark_of(info)[0],
            new_words(info) and f"{new_words(info)} (A goes there)",
            " ".join(f"#{tag}" for tag in info.tags),
        ]
        line = Text(" · ".join(one_line(fact) for fact in facts if fact), "dim", no_wrap=True)
        self.query_one(".facts", Static).update(line)

    def _agents_by_call(self) -> dict[str, str]:
        catalog = self.browser.catalog
        calls = ((call_of(catalog.infos[id]), id) for id in catalog.below(self.session.id))
        return {call: id for call, id in calls if call is not None}

    def _priced(self) -> str:
        cost = self.session.usage().cost
        return money(cost) if cost else ""

    def _family(self) -> str:
        if self._info.parent is not None:
            return "a subagent (a: to its parent)"
        below = len(self.browser.catalog.below(self._info.id))
        return f"{count(below, 'agent')} (a)" if below else ""

    def on_lines_grown(self) -> None:
        self._draw_status()
        if self.lines.is_complete and not self.lines.sections:
            self.query_one(".status", Static).update(Text("This session has no messages yet.", "dim"))

    def on_cursor_view_moved(self) -> None:
        self._draw_status()

    def _draw_status(self) -> None:
        section = self.lines.section
        if section is None:
            return
        place = section.place
        parts = [
            entry_name(self._names, place) if place else "",
            section.role,
            local(section.time),
            f"{place.position + 1:,} of {self._info.entries:,}" if place else "",
        ]
        if self.words:
            at = next((n for n, id in enumerate(self.hits, 1) if id in section.entries), None)
            found = f"hit {at} of {len(self.hits):,}" if at else count(len(self.hits), "hit")
            parts.append(f"{one_line(self.words)}: {found} (n N)")
        if self.follows:
            parts.append("following the end")
        line = Text(" · ".join(one_line(part) for part in parts if part), "dim", no_wrap=True)
        self.query_one(".status", Static).update(line)

    def under(self) -> Under:
        section = self.lines.section
        return Under(self.session, section.place if section else None)

    def shows(self, id: str) -> bool:
        return self.session.id == id

    # -- growing

    def _look_again(self) -> None:
        """What other processes have added is shown; the cursor stays, or follows the end."""
        if not self.is_current or self.is_elsewhere or not self.lines.is_complete or self._head is None:
            return
        with self.report_errors():
            info = self.session.info
            head = info.head
            if head == self._head:
                if info != self._info:  # its agent goes on elsewhere
                    self._info = info
                    self._draw_head()
                return
            tree = self.session.tree()
            grew = is_on_path(tree, self._head) and self._head.position >= 0
            last, self._head = self._head.position, head
            self._info = info
            self._names = branch_names(branch.id for branch in tree.branches)
            self._draw_head()
            if grew:
                self.lines.extend(self._sections(last))
            else:
                self.reload()
            if self.follows:
                self.lines.action_last()

    def action_follow(self) -> None:
        self.follows = not self.follows
        if self.follows:
            self.lines.action_last()
        self._draw_status()

    # -- folding

    def action_fold(self) -> None:
        section = self.lines.section
        if section is not None and section.can_fold:
            section.is_open = not section.is_open
            self.lines.redraw(section)

    def on_cursor_view_chosen(self) -> None:
        self.action_fold()

    def action_fold_all(self) -> None:
        self.opens_all = not self.opens_all
        for section in self.lines.sections:
            if section.can_fold:
                section.is_open = self.opens_all
        self.lines.redraw()

    # -- moving

    def action_prompt(self, by: int) -> None:
        if not self.lines.next_section(by, lambda section: section.kind == "prompt"):
            self.say("no more prompts" if by > 0 else "no prompt before this")

    def action_tree(self) -> None:
        from clew.cli.ui.tree import TreeScreen

        _ = self.app.push_screen(TreeScreen(self.store, self.session))

    def action_agents(self) -> None:
        section = self.lines.section
        if section is not None and section.agent is not None:
            self._read_other(section.agent)
            return
        catalog, id = self.browser.catalog, self.session.id
        parent = catalog.parent_of(id) if id in catalog.infos else None
        related = [*([parent] if parent else []), *catalog.below(id)]
        if not related:
            self.say("this session has no subagents")
            return
        choices = []
        for other in related:
            info = catalog.infos[other]
            name = ("↑ " if other == parent else "") + one_line(info.title or other)
            choices.append(Choice(other, name, count(info.messages, "message")))

        def chosen(choice: Choice[str] | None) -> None:
            if choice is not None:
                self._read_other(choice.value)

        _ = self.app.push_screen(PickDialog("Go to", choices), chosen)

    def _read_other(self, id: str) -> None:
        with self.report_errors():
            _ = self.app.push_screen(ReaderScreen(self.store, self.store.get(id)))

    # -- hits

    def action_search(self) -> None:
        self.finder.add_class("open")
        self.finder.value = self.words
        self.finder.focus()

    def on_input_submitted(self) -> None:
        self.words = self.finder.value.strip()
        self._close_find()
        if self.words:
            self._search(go=True)
        else:
            self.hits, self.lines.highlight = [], None
            self.lines.refresh()
        self._draw_status()

    def _close_find(self) -> None:
        self.finder.remove_class("open")
        self.lines.focus()

    def action_back(self) -> None:
        if self.finder.has_focus:
            self._close_find()
        else:
            super().action_back()

    def _search(self, *, go: bool = False) -> None:
        query, id = self.words, self.session.id
        self.lines.highlight = words_of(query)

        def found(hits: list[Hit]) -> None:
            if query == self.words:
                shown = [hit for hit in hits if hit.on_path != self.is_elsewhere]
                self.hits = [hit.entry_id for hit in sorted(shown, key=lambda hit: hit.position)]
                self._draw_status()
                if go and self.hits:
                    self.action_hit(1, stay=True)
                elif go:
                    self.say(f"nothing found: {one_line(query)}")

        self.browser.background.run(
            "find", lambda: list(self.store.search(query, session=id, tools=True, limit=MOST_HITS)), found
        )

    def action_hit(self, by: int, *, stay: bool = False) -> None:
        """To the next entry with the words, or the one before; round at the ends."""
        if not self.hits:
            self.say("search first: /" if not self.words else f"nothing found: {one_line(self.words)}")
            return
        section = self.lines.section
        here = section.place.position if section and section.place else -1
        own = set(section.entries) if section else set()
        places = [int(id.rpartition(".")[2]) for id in self.hits]
        order = range(len(places)) if by > 0 else range(len(places) - 1, -1, -1)
        past = (n for n in order if (places[n] > here if by > 0 else places[n] < here))
        fresh = (n for n in past if stay or self.hits[n] not in own)
        if stay and own & set(self.hits):
            wanted = next(id for id in self.hits if id in own)
        else:
            wanted = self.hits[next(fresh, order[0])]
        self.lines.seek(lambda section: self._is_hit(section, wanted), top=True)

    def _is_hit(self, section: Section, wanted: str) -> bool:
        """The part of an entry in which the words are; it is opened if it was folded."""
        if wanted not in section.entries:
            return False
        pattern = self.lines.highlight
        was_open, section.is_open = section.is_open, True
        fits = pattern is None or any(pattern.search(line.plain) for line in section.texts())
        section.is_open = fits or was_open
        return fits


_TERM: Final = re.compile(r'(?<!\S)(-?)(?:"([^"]*)"|(\S+))')
_WORD: Final = re.compile(r"\w+")


def words_of(query: str) -> re.Pattern[str] | None:
    """What to mark: the words of a query that are to be there."""
    found = _TERM.findall(query)
    words = [(phrase or word).rstrip("*") for without, phrase, word in found if not without]
    parts = [r"\W+".join(re.escape(part) for part in _WORD.findall(word)) for word in words]
    parts = [part for part in parts if part]
    return re.compile("|".join(sorted(parts, key=len, reverse=True)), re.IGNORECASE) if parts else None
