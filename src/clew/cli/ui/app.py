"""The application: one store, and the list of its sessions as the first screen."""

from __future__ import annotations

from typing import Final

from rich.terminal_theme import TerminalTheme
from textual.app import App

import clew
from clew.cli.ui.sessions import SessionsScreen

STYLES: Final = """
.where { height: 1; padding: 0 1; background: $panel; text-style: bold;
         text-wrap: nowrap; text-overflow: ellipsis; }
Lines { height: 1fr; }
#filter { display: none; height: 1; border: none; padding: 0 1; }
#filter.open { display: block; }
#filter:focus { border: none; }
ForkDialog, ConfirmDialog { align: center middle; }
.dialog { width: 76; max-width: 100%; height: auto; max-height: 100%; padding: 0 1; border: round $primary; }
.dialog Static { height: auto; }
.cut { text-wrap: nowrap; text-overflow: ellipsis; }
.problem { color: $error; }
.keys { text-style: dim; }
"""

COLOURS: Final = TerminalTheme(
    (18, 18, 18),
    (224, 224, 224),
    [(26, 26, 26), (244, 80, 110), (130, 200, 60), (240, 180, 80),
     (120, 150, 250), (215, 120, 215), (90, 200, 220), (200, 200, 200)],
    [(145, 145, 145), (250, 110, 130), (150, 225, 80), (250, 210, 110),
     (150, 180, 255), (235, 150, 235), (110, 220, 240), (240, 240, 240)],
)  # fmt: skip
"""What the named colours of `clew show` and `clew log` are here: grey that can be read."""


class Browser(App[None]):
    """`clew ui`."""

    TITLE = "clew"
    CSS = STYLES
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, store: clew.Store) -> None:
        super().__init__()
        self.store = store
        self.ansi_theme_dark = COLOURS

    def on_mount(self) -> None:
        _ = self.push_screen(SessionsScreen(self.store))
