"""Fork, rewind and undo on every screen, each with a preview of what it will do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Final

from rich.text import Text

import clew
from clew.cli.app import described
from clew.cli.commands.move import place_words
from clew.cli.commands.show import around
from clew.cli.store import path_to
from clew.cli.text import clean, count, first_words, one_line, who
from clew.cli.ui.actions import StoreScreen, Under
from clew.cli.ui.dialogs import AskDialog, ConfirmDialog
from clew.cli.views.restoring import change_lines, summary
from clew.errors import ClewError, RootNotNamedError, SnapshotNotFoundError
from clew.model.files import RestoreReport

ENTRIES_SHOWN: Final = 8
WORDS: Final = 200
SHOWN: Final = 10
"""Paths that a question names."""


def rewind_lines(session: clew.Session, name: str, tree: clew.Tree, place: clew.Head) -> Iterator[Text]:
    """Where the session goes, and what it leaves behind."""
    head = tree.heads[session.id]
    shared = last_shared(tree, head, place)
    yield Text(f"Rewind {name} from {place_words(head)} to {place_words(place)}?", "bold")
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


def view_lines(info: clew.SessionInfo, place: clew.Head) -> Iterator[Text]:
    """Say what a rewind moves, and what not, if an agent owns the session."""
    branch = info.agent_branch
    if branch is not None and branch.head != place:
        who = one_line(info.agent or "its agent")
        yield Text(f"This moves Clew's view only: {who} stays at {place_words(branch.head)}.")
        yield Text("c continues in the agent from here. A goes back to the agent.", "dim")


def fork_lines(name: str, place: clew.Head, entry: clew.Entry | None) -> Iterator[Text]:
    yield Text(f"Fork {name} at {place_words(place)}:", "bold")
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


class MovesScreen(StoreScreen):
    """Fork, rewind and undo."""

    # -- fork

    def action_fork(self) -> None:
        with self.report_errors():
            if (under := self.under()) is None:
                return
            session = under.session
            place = under.place or session.head
            entry = next(iter(around(self.store, session, place, 0)), None) if place.position >= 0 else None

            def made(fork: clew.Session | None) -> None:
                if fork is not None:
                    where = f"{place_words(place)} of {self.name_of(session.id)}"
                    self.say(f"{one_line(fork.id)} begins at {where}")
                    self.changed(fork.id)

            _ = self.app.push_screen(
                AskDialog(
                    fork_lines(self.name_of(session.id), place, entry),
                    lambda id: session.fork(id or None, at=place),
                    keys="⏎ fork · esc cancel",
                    hint="its id; empty: one is generated",
                ),
                made,
            )

    # -- rewind

    def action_rewind(self) -> None:
        with self.report_errors():
            if (under := self.under()) is None:
                return
            session, place = under.session, under.place
            if place is None:
                self.say("choose an entry to go back to, then r")
                return
            tree = session.tree()
            if place == tree.heads[session.id]:
                self.say(f"{self.name_of(session.id)} stands there")
            elif any(one.snapshot for one in tree.checkpoints):
                plan = partial(file_plan, session, place)
                self.browser.background.run("files", plan, partial(self._ask, session, tree, place))
            else:
                self._ask(session, tree, place, None)

    def _ask(
        self, session: clew.Session, tree: clew.Tree, place: clew.Head, plan: RestoreReport | str | None
    ) -> None:
        """Show what a rewind does, to files too, and do it after a yes."""
        head = tree.heads[session.id]

        def answered(key: str | None) -> None:
            if key is not None:
                self._rewind(session, head, place, files=key == "f")

        has_files = isinstance(plan, RestoreReport) and bool(plan.changes)
        keys = "y conversation only · f files too · n no" if has_files else "y yes · n no"
        with self.report_errors():
            lines = [
                *rewind_lines(session, self.name_of(session.id), tree, place),
                *view_lines(session.info, place),
                *file_lines(plan),
            ]
            _ = self.app.push_screen(ConfirmDialog(lines, keys), answered)

    def _rewind(self, session: clew.Session, seen: clew.Head, place: clew.Head, *, files: bool) -> None:
        with self.report_errors():
            if session.head != seen:
                self.say(f"{self.name_of(session.id)} has moved meanwhile, nothing was done: look again")
                self.changed()
                return

            def done(moved: clew.model.Moved) -> None:
                self._keep(session.id, None)
                self._say_moved(session, moved)

            if files:
                self.say("restoring files")
                self.browser.background.run("files", lambda: session.rewind(place, files=True), done)
            else:
                done(session.rewind(place))

    def _say_moved(self, session: clew.Session, moved: clew.model.Moved) -> None:
        with self.report_errors():
            self.say(self._stands(session))
            if moved.files is not None:
                self.say(summary(moved.files))
            self.changed()

    def _stands(self, session: clew.Session) -> str:
        info = session.info
        where = f"{place_words(info.head)} with {count(info.messages, 'message')}"
        return f"{self.name_of(info.id)} stands at {where}"

    # -- to the agent, which has gone on

    def action_to_agent(self) -> None:
        with self.report_errors():
            if (under := self.under()) is None:
                return
            info = under.session.info
            if info.agent_branch is None:
                self.say(f"{self.name_of(info.id)} was not imported from an agent")
            elif info.agent_branch.head == info.head:
                self.say(f"{self.name_of(info.id)} is with its agent already")
            else:
                moved = under.session.follow()
                self._keep(info.id, None)
                self._say_moved(under.session, moved)

    # -- undo

    def undo_move(self, under: Under) -> None:
        session = under.session
        plan = session.undo(dry_run=True)

        def answered(key: str | None) -> None:
            if key is not None:
                with self.report_errors():
                    moved = session.undo()
                    if self.browser.done and self.browser.done[-1].session == session.id:
                        self.browser.done.pop()
                    self._say_moved(session, moved)

        there = clew.Head(plan.branch, plan.position)
        question = f"Take back the last rewind, compaction or replacement of {self.name_of(session.id)}?"
        way = f"It goes from {place_words(session.head)} to {place_words(there)}."
        _ = self.app.push_screen(
            ConfirmDialog([Text(question, "bold"), Text(way), *file_lines(plan.files)]), answered
        )


def file_plan(session: clew.Session, place: clew.Head) -> RestoreReport | str | None:
    """What a rewind would do to files; a text: why it can do nothing; None: no files were kept."""
    try:
        return session.restore_files(place, dry_run=True)
    except SnapshotNotFoundError:
        return None
    except RootNotNamedError:
        return (
            "these came with an import or from another machine, so Clew does not know their directory here."
            " Name it: clew rewind --files --root DIRECTORY ID PLACE"
        )
    except (ClewError, OSError) as exc:
        return described(exc)


def file_lines(plan: RestoreReport | str | None) -> Iterator[Text]:
    if plan is None:
        yield Text("No files were kept there: files stay as they are.", "dim")
        return
    if isinstance(plan, str):
        yield Text(f"Files stay as they are: {clean(plan)}", "dim")
        return
    changes = [clean(line) for line in change_lines(plan)]
    yield Text(f"Files in {clean(summary(plan))}")
    for line in changes[:SHOWN]:
        yield Text(f"  {line}", no_wrap=True)
    if len(changes) > SHOWN:
        yield Text(f"  … and {len(changes) - SHOWN:,} more")
