"""The narrator: prints what happens, and remembers what was said for the drawings."""

from __future__ import annotations

import time
from typing import Any, Final

from rich.console import Console
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

import clew
from clew.cli.graph import GLYPHS, START, Row, State, draw

PAUSE = 0.012
"""Seconds before each line of the story, so that a person can follow: about a second in all."""

COLOURS: Final = {"user": "bright_cyan", "assistant": "bright_green", "tool": "yellow"}
LANES: Final[dict[State, str]] = {"here": "bold", "elsewhere": "magenta", "left": "bright_black"}
LEGEND: Final[dict[State, str]] = {
    "here": "on its path",
    "elsewhere": "of another session",
    "left": "left behind, kept",
}


def words(message: dict[str, Any]) -> tuple[str, str]:
    """Who speaks, and what, in one line."""
    for made in message.get("tool_calls", ()):
        what = str(made["function"]["arguments"]).removeprefix('{"what": "').removesuffix('"}')
        return "assistant", f"→ {made['function']['name']}({what})"
    return str(message.get("role", "")), str(message.get("content", ""))


class Untrue(Exception):
    """The story claimed something that did not happen."""


class Story:
    """The narrator: prints what happens, and remembers what was said for the drawings."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.said: dict[str, tuple[str, str]] = {}
        self.chapters = 0
        self.claims = 0
        self.legend_shown = False

    def line(self, *parts: str | Text | tuple[str, str]) -> None:
        """One line of output, cut rather than wrapped, with a little time to read it."""
        if self.console.is_terminal:
            time.sleep(PAUSE)
        text = Text.assemble(*parts)
        text.rstrip()
        self.console.print(text, no_wrap=True, overflow="ellipsis")

    def chapter(self, title: str, *text: str) -> None:
        self.chapters += 1
        heading = Text.assemble((f" {self.chapters} ", "bold black on bright_cyan"), (f" {title} ", "bold"))
        self.line()
        self.console.print(Rule(heading, align="left", style="bright_black"))
        for sentence in text:
            self.line((f"     {sentence}", "italic"))
        self.line()

    def code(self, code: str) -> None:
        syntax = Syntax("", "python", theme="ansi_dark", background_color="default")
        highlighted = syntax.highlight(code)
        highlighted.rstrip()
        self.line(("  >>> ", "bright_black"), highlighted)

    def append(self, session: clew.Session, *messages: dict[str, Any]) -> None:
        for entry in session.append(*messages):
            who, text = self.said[entry.id] = words(entry.message)
            self.line("      ", (f"{who:<11}", COLOURS.get(who, "")), text)

    def note(self, text: str) -> None:
        self.line((f"      {text}", "bright_black"))

    def claim(self, holds: bool, text: str) -> None:
        """Say something that was checked."""
        if not holds:
            raise Untrue(text)
        self.claims += 1
        self.line(("    ✓ ", "bold bright_green"), text)

    def graph(self, session: clew.Session) -> None:
        rows = draw(session.tree(), fold=7)
        width = max(len(row.lanes) for row in rows)
        self.line()
        if not self.legend_shown:
            self.legend_shown = True
            parts = [(f"{GLYPHS[state]} {LEGEND[state]}   ", "bright_black italic") for state in GLYPHS]
            self.line("      ", *parts)
            self.line()
        for row in rows:
            self.line("      ", *self._lanes(row, width), *self._labels(row, self.console.width - width - 24))
        self.line()

    def _lanes(self, row: Row, width: int) -> tuple[tuple[str, str], ...]:
        """Entries in the colour of their state, everything that joins them in grey, padded to one width."""
        end = len(row.lanes) - (row.entry is not None)
        return (
            (row.lanes[:end], "bright_black"),
            (row.lanes[end:], LANES[row.state]),
            (" " * (width - len(row.lanes)), ""),
        )

    def _labels(self, row: Row, room: int) -> list[tuple[str, str]]:
        if row.entry is None:
            return [(f"     {row.folded} more", "bright_black italic")] if row.folded else []
        names = [(f"  ◆ {name}", "bold yellow") for name in row.checkpoints]
        names += [(f"  ◀ {id}", "bold bright_green") for id in row.heads]
        room -= sum(len(name) for name, _ in names)
        who, text = self.said.get(f"{row.entry.branch}.{row.entry.position}", ("", "…"))
        if row.entry == START:
            who, text = "", "(empty)"
        text = text if len(text) <= room else text[: room - 1].rstrip() + "…"
        grey = "bright_black" if row.state == "left" else ""
        position = (f" {row.entry.position:>3}  ", "bright_black")
        return [position, (f"{who:<11}", grey or COLOURS.get(who, "")), (text, grey), *names]
