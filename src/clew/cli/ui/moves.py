"""Fork, rewind, undo and redo on every screen, each with a preview of what it will do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final, NamedTuple

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.screen import Screen

import clew
from clew.cli.app import described
from clew.cli.commands.move import place_words
from clew.cli.commands.show import around
from clew.cli.store import path_to
from clew.cli.text import clean, count, first_words, one_line, who
from clew.cli.ui.dialogs import ConfirmDialog, ForkDialog
from clew.cli.views.restoring import change_lines, summary
from clew.core.log.ids import parse_entry_id
from clew.errors import ClewError
from clew.model.files import RestoreReport

ENTRIES_SHOWN: Final = 8
WORDS: Final = 200


def rewind_lines(session: clew.Session, tree: clew.Tree, place: clew.Head) -> Iterator[Text]:
    """Where the session goes, and what it leaves behind."""
    head = tree.heads[session.id]
    shared = last_shared(tree, head, place)
    yield Text(f"Rewind {one_line(session.id)} from {place_words(head)} to {place_words(place)}?", "bold")
    left, joined = head.position - shared, place.position - shared
    if left:
        yield Text(f"Left behind, but kept: {count(left, 'entry')}. u brings them back.")
    after = shared if shared >= 0 else None
    for entry in islice(session.entries(after=after, damaged="skip"), min(left, ENTRIES_SHOWN)):
        yield _said(entry)
    if left > ENTRIES_SHOWN:
        yield Text(f"  … and {left - ENTRIES_SHOWN:,} more", "italic")
    if joined:
        yield Text(f"Comes in from another branch: {count(joined, 'entry')}.")
    yield Text("Files stay as they are; clew rewind --files takes them along.", "dim")


def fork_lines(session: clew.Session, place: clew.Head, entry: clew.Entry | None) -> Iterator[Text]:
    yield Text(f"Fork {one_line(session.id)} at {place_words(place)}:", "bold")
    if entry is not None:
        yield _said(entry)


def last_shared(tree: clew.Tree, a: clew.Head, b: clew.Head) -> int:
    """The last position that the ways to two places have in common; -1: none."""
    ends = {branch: last for branch, _, last in path_to(tree, a)}
    shared = [min(last, ends[branch]) for branch, _, last in path_to(tree, b) if branch in ends]
    return max(shared, default=-1)


def _said(entry: clew.Entry) -> Text:
    words = one_line(first_words(entry)[: 2 * WORDS])[:WORDS]
    line = Text(f"  {entry.position:>4}  {one_line(who(entry)):<9}  {words}")
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


# -- the moves themselves

SHOWN: Final = 10
"""Paths that a question names."""


class Under(NamedTuple):
    """What is under the cursor."""

    session: clew.Session
    entry: str | None = None
    """The id of an entry; None: no place was chosen."""


MOVES: Final[tuple[BindingType, ...]] = (
    Binding("f", "fork", "fork"),
    Binding("r", "rewind", "rewind"),
    Binding("u", "undo", "undo"),
    Binding("q", "app.quit", "quit"),
    Binding("f5", "reload", show=False),
)
"""The keys of every screen. Each names them behind its own, for the footer has them in this order."""


class MovesScreen(Screen[None]):
    """Fork, rewind and undo."""

    is_stale = True
    """Something was done on another screen, or nothing was read yet."""

    def __init__(self, store: clew.Store) -> None:
        super().__init__()
        self.store = store

    def under(self) -> Under | None:
        """The session and the entry under the cursor."""
        raise NotImplementedError

    def reload(self, select: str | None = None) -> None:
        """Something has changed: read again. `select` is a new session."""
        raise NotImplementedError

    def on_screen_resume(self) -> None:
        """Another screen may have changed what this one shows."""
        if self.is_stale:
            self.is_stale = False
            self.reload()

    def _changed(self, select: str | None = None) -> None:
        for screen in self.app.screen_stack:
            if isinstance(screen, MovesScreen):
                screen.is_stale = screen is not self
        self.reload(select)

    def action_reload(self) -> None:
        self.reload()

    # -- fork

    def action_fork(self) -> None:
        with self.report_errors():
            under = self.under()
            if under is None:
                return
            session = under.session
            place = _place(under.entry) or session.head
            entry = next(iter(around(self.store, session, place, 0)), None) if place.position >= 0 else None

            def made(fork: clew.Session | None) -> None:
                if fork is not None:
                    self.say(f"{fork.id} begins at {place_words(place)} of {session.id}")
                    self._changed(fork.id)

            lines = fork_lines(session, place, entry)
            _ = self.app.push_screen(ForkDialog(lines, lambda id: session.fork(id, at=place)), made)

    # -- rewind

    def action_rewind(self) -> None:
        with self.report_errors():
            under = self.under()
            if under is None:
                return
            session, place = under.session, _place(under.entry)
            if place is None:
                self.say("choose an entry to go back to, then r")
                return
            tree = session.tree()
            head = tree.heads[session.id]
            if place == head:
                self.say(f"{session.id} stands there")
                return

            def answered(yes: bool | None) -> None:
                if yes:
                    self._rewind(session, head, place)

            _ = self.app.push_screen(ConfirmDialog(rewind_lines(session, tree, place)), answered)

    def _rewind(self, session: clew.Session, seen: clew.Head, place: clew.Head) -> None:
        with self.report_errors():
            if session.head != seen:
                self.say(f"{session.id} has moved meanwhile, nothing was done: look again")
            else:
                session.rewind(place)
                self.say(_stands(session))
            self._changed()

    # -- undo

    def action_undo(self) -> None:
        with self.report_errors():
            under = self.under()
            if under is None:
                return
            session = under.session
            plan = session.undo(dry_run=True).files

            def answered(yes: bool | None) -> None:
                if yes:
                    with self.report_errors():
                        moved = session.undo()
                        self.say(_stands(session))
                        if moved.files is not None:
                            self.say(summary(moved.files))
                        self._changed()

            question = f"Take back the last rewind, compaction or replacement of {one_line(session.id)}?"
            lines = [Text(question, "bold"), *_file_lines(plan)]
            _ = self.app.push_screen(ConfirmDialog(lines), answered)

    # -- saying

    def say(self, text: str) -> None:
        self.app.notify(clean(text), markup=False)

    @contextmanager
    def report_errors(self) -> Iterator[None]:
        """What the store refuses is said, not the end of the program."""
        try:
            yield
        except (ClewError, OSError) as exc:
            self.app.notify(clean(described(exc)), severity="error", markup=False)


def _place(entry: str | None) -> clew.Head | None:
    return parse_entry_id(entry) if entry is not None else None


def _file_lines(plan: RestoreReport | None) -> Iterator[Text]:
    if plan is None:
        return
    changes = [clean(line) for line in change_lines(plan)]
    yield Text(clean(summary(plan)), "dim")
    for line in changes[:SHOWN]:
        yield Text(f"  {line}", "dim")
    if len(changes) > SHOWN:
        yield Text(f"  … and {len(changes) - SHOWN:,} more", "dim")


def _stands(session: clew.Session) -> str:
    info = session.info
    return f"{info.id} stands at {place_words(info.head)} with {count(info.messages, 'message')}"
