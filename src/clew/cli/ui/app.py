"""The application: one store, and the list of its sessions as the first screen."""

from __future__ import annotations

from typing import Final

from textual.app import App
from textual.events import Key
from textual.widgets import Input

import clew
from clew.cli.ui.actions import Done
from clew.cli.ui.background import Background
from clew.cli.ui.catalog import Catalog
from clew.cli.ui.search import SearchScreen
from clew.cli.ui.sessions import SessionsScreen

STYLES: Final = """
.where { height: 1; padding: 0 1; text-style: bold; text-wrap: nowrap; text-overflow: ellipsis; }
.facts, .status, #heading { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
#heading { padding: 0; }
CursorView { height: 1fr; }
Input { height: 1; border: none; padding: 0 1; background: ansi_default; }
Input:focus { border: none; }
#find { display: none; border: none; }
#find.open { display: block; }
Dialog { align: center middle; background: transparent; }
.dialog { width: 76; max-width: 100%; height: auto; max-height: 100%; padding: 0 1;
          border: round ansi_cyan; background: ansi_default; }
.dialog Static { height: auto; }
.dialog Input { border: none; }
.dialog CursorView { height: auto; }
.help { width: 78; height: 90%; }
.help VerticalScroll { height: 1fr; }
VerticalScroll { scrollbar-size-vertical: 1; }
ToastRack { margin-bottom: 2; }
.cut { text-wrap: nowrap; text-overflow: ellipsis; }
.problem { color: ansi_red; }
.keys { text-style: dim; }
"""


class Browser(App[None]):
    """`clew ui`. Its colours are those of the terminal, so that it can be read on a light one too."""

    TITLE = "clew"
    CSS = STYLES
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, store: clew.Store) -> None:
        super().__init__()
        self.theme = "ansi-dark"
        self.store = store
        self.catalog = Catalog()
        self.background = Background(self)
        self.done: list[Done] = []
        """What was changed here and can be taken back, newest last."""

    def on_mount(self) -> None:
        _ = self.push_screen(SessionsScreen(self.store))

    def on_key(self, event: Key) -> None:
        """Letters that come here past a line to type in were typed right behind the key that opened it:
        textual hands them to the widget that had the keys before. They are words, and no commands."""
        if not event.is_printable or event.character is None:
            return
        at = self.screen.focused
        if isinstance(at, Input):
            at.insert_text_at_cursor(event.character)
        elif at is None and isinstance(self.screen, SearchScreen):
            self.screen.early += event.character
        else:
            return
        event.prevent_default()
