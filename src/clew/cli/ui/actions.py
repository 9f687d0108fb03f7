"""What every screen can do with a session: title, tags, export, copy, resume, trash, and take it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, cast

from rich.text import Text
from textual.screen import Screen

import clew
from clew.cli.app import Refused, described
from clew.cli.text import clean, count, one_line, size
from clew.cli.ui.dialogs import AskDialog, ExportChoice, ExportDialog, HelpDialog, TextDialog
from clew.errors import ClewError
from clew.exporters.file import file_stem
from clew.exporters.programs.resume_command import resume_of

if TYPE_CHECKING:
    from clew.cli.ui.app import Browser
    from clew.model.transfer import ExportFormat


class Under(NamedTuple):
    """What is under the cursor."""

    session: clew.Session
    place: clew.Head | None = None
    """An entry; None: none was chosen."""


class Done(NamedTuple):
    """A change that was made here, and how it is taken back."""

    session: str
    undo: Callable[[], str] | None
    """Gives what is to be said. None: it was a move, which the session itself can take back."""


class StoreScreen(Screen[None]):
    """A screen that shows something of a store."""

    is_stale = True
    """Something was done on another screen, or nothing was read yet."""

    def __init__(self, store: clew.Store) -> None:
        super().__init__()
        self.store = store

    @property
    def browser(self) -> Browser:
        return cast("Browser", self.app)

    def name_of(self, id: str) -> str:
        """The short name of a session."""
        return one_line(self.browser.catalog.names.get(id, id))

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

    def changed(self, select: str | None = None) -> None:
        for screen in self.app.screen_stack:
            if isinstance(screen, StoreScreen):
                screen.is_stale = screen is not self
        self.reload(select)

    def shows(self, id: str) -> bool:
        """Whether this screen is about that session alone."""
        return False

    def _gone(self, id: str) -> None:
        """A session is in the trash: leave the screens that are about it."""
        for screen in self.app.screen_stack:
            if isinstance(screen, StoreScreen):
                screen.is_stale = True
        if not self.shows(id):
            self.changed()
            return
        while isinstance(self.app.screen, StoreScreen) and self.app.screen.shows(id):
            _ = self.app.pop_screen()

    def action_reload(self) -> None:
        self.reload()

    def action_help(self) -> None:
        _ = self.app.push_screen(HelpDialog())

    def action_back(self) -> None:
        _ = self.app.pop_screen()

    # -- saying

    def say(self, text: str) -> None:
        self.app.notify(clean(text), markup=False)

    @contextmanager
    def report_errors(self) -> Iterator[None]:
        """What the store refuses is said, not the end of the program."""
        try:
            yield
        except (ClewError, Refused, OSError) as exc:
            self.app.notify(clean(described(exc)), severity="error", markup=False)

    # -- title and tags

    def action_title(self) -> None:
        with self.report_errors():
            if (under := self.under()) is None:
                return
            session, before = under.session, under.session.info
            shown = one_line(before.title or "")

            def make(text: str) -> str | None:
                if text == shown:
                    return None
                session.update(title=text or None)
                return session.info.title or ""

            def made(title: str | None) -> None:
                if title is not None:
                    was = None if before.title_is_auto else before.title
                    self._keep(session.id, lambda: _retitle(session, was))
                    self.say(f"title: {one_line(title) or '(none)'}")
                    self.changed()

            _ = self.app.push_screen(
                AskDialog(
                    [Text(f"Title of {self.name_of(session.id)}", "bold", no_wrap=True)],
                    make,
                    keys="⏎ save · esc cancel · empty: the automatic one",
                    value=shown,
                ),
                made,
            )

    def action_tags(self) -> None:
        with self.report_errors():
            if (under := self.under()) is None:
                return
            session, before = under.session, under.session.info.tags
            shown = one_line(", ".join(before))

            def make(text: str) -> tuple[str, ...] | None:
                if text == shown:
                    return None
                wanted = [tag.strip() for tag in text.split(",") if tag.strip()]
                session.update(tags=list(dict.fromkeys(wanted)))
                return session.info.tags

            def made(tags: tuple[str, ...] | None) -> None:
                if tags is not None:
                    self._keep(session.id, lambda: _retag(session, before))
                    self.say(f"tags: {_listed(tags)}")
                    self.changed()

            _ = self.app.push_screen(
                AskDialog(
                    [Text(f"Tags of {self.name_of(session.id)}, separated by commas", "bold", no_wrap=True)],
                    make,
                    keys="⏎ save · esc cancel",
                    value=shown,
                ),
                made,
            )

    # -- trash

    def action_trash(self) -> None:
        with self.report_errors():
            if (under := self.under()) is None:
                return
            id = under.session.id
            family = [id, *self.browser.catalog.below(id)]

            def delete(store: clew.Store) -> list[str]:
                found = [one for one in family if store.find(one) is not None]
                return found if store.delete(id) else []

            gone = self.store.transact(delete)
            self._keep(id, lambda: self._bring_back(id))
            with_them = f" with {count(len(gone) - 1, 'subagent')}" if len(gone) > 1 else ""
            self.say(f"{self.name_of(id)} is in the trash{with_them}; u brings it back")
            self.browser.catalog.remove(gone)
            self._gone(id)

    def _bring_back(self, id: str) -> str:
        self.store.restore_deleted(id)
        return f"{self.name_of(id)} is back"

    # -- undo

    def _keep(self, session: str, undo: Callable[[], str] | None) -> None:
        self.browser.done.append(Done(session, undo))

    def action_undo(self) -> None:
        """Take back what was done here last: a title, tags, the trash, or a move."""
        done = self.browser.done
        with self.report_errors():
            if done and done[-1].undo is not None:
                last = done.pop()
                self.say(last.undo() if last.undo else "")
                self.changed(last.session)
            elif done:
                self.undo_move(Under(self.store.get(done[-1].session)))
            elif (under := self.under()) is not None:
                self.undo_move(under)

    def undo_move(self, under: Under) -> None:
        raise NotImplementedError

    # -- copy and resume

    def action_copy_id(self) -> None:
        with self.report_errors():
            if under := self.under():
                self.app.copy_to_clipboard(under.session.id)
                self.say(f"copied: {one_line(under.session.id)}")

    def action_resume(self) -> None:
        with self.report_errors():
            if (under := self.under()) is None:
                return
            from clew.exporters.programs.resuming import is_changed

            found = resume_of(under.session.info, is_changed=bool(is_changed(under.session)))
            lines = [Text("Resume", "bold")]
            if found.command is not None:
                self.app.copy_to_clipboard(found.command)
                lines += [
                    Text(one_line(found.command), "cyan"),
                    Text("Copied: paste it into a shell.", "dim"),
                ]
            if found.note:
                lines.append(Text(one_line(found.note)))
            _ = self.app.push_screen(TextDialog(lines))

    # -- export

    def action_export(self) -> None:
        with self.report_errors():
            if (under := self.under()) is None:
                return
            info = under.session.info

            def chosen(choice: ExportChoice | None) -> None:
                if choice is not None:
                    self.say(f"writing {choice.path}")
                    self.browser.background.run("export", lambda: self._export(info.id, choice), self.say)

            _ = self.app.push_screen(ExportDialog(info.title or info.id, file_name(info)), chosen)

    def _export(self, id: str, choice: ExportChoice) -> str:
        written = self.store.export(id, cast("ExportFormat", choice.format), path=choice.path)
        return f"wrote {written} ({size(choice.path.stat().st_size)})"


def file_name(info: clew.SessionInfo) -> str:
    """Of title and id a name that is safe on every disk, without its ending."""
    return file_stem(info.id, info.title)


def _retitle(session: clew.Session, title: str | None) -> str:
    session.update(title=title)
    return f"title: {one_line(session.info.title or '(none)')}"


def _retag(session: clew.Session, tags: tuple[str, ...]) -> str:
    session.update(tags=list(tags))
    return f"tags: {_listed(tags)}"


def _listed(tags: tuple[str, ...]) -> str:
    return one_line(", ".join(tags)) or "(none)"
