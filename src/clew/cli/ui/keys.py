"""The keys of every screen in one table: bindings, the last line of the screen and the help come from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.widget import Widget


class Key(NamedTuple):
    """What a key does."""

    keys: str
    """As textual names them, separated by commas."""
    action: str
    shown: str
    """As people name them."""
    word: str
    """For the last line of the screen; empty: it is not named there."""
    help: str


MOVEMENT: Final = (
    Key("down,j", "move(1)", "↓ j", "", "Next line"),
    Key("up,k", "move(-1)", "↑ k", "", "Line before"),
    Key("pagedown,space,ctrl+f", "page(1)", "PgDn space", "", "Next page"),
    Key("pageup,b,ctrl+b", "page(-1)", "PgUp b", "", "Page before"),
    Key("ctrl+d", "half(1)", "ctrl+d", "", "Half a page down"),
    Key("ctrl+u", "half(-1)", "ctrl+u", "", "Half a page up"),
    Key("home,g", "first", "Home g", "", "To the top"),
    Key("end,G", "last", "End G", "", "To the end"),
)
ANYWHERE: Final = (
    Key("question_mark,f1", "help", "?", "help", "Show all keys"),
    Key("f5,ctrl+r", "reload", "F5", "", "Read again"),
    Key("q,ctrl+q", "app.quit", "q", "quit", "Quit"),
)
BACK: Final = Key("escape,backspace", "back", "esc", "back", "Back")
SESSION: Final = (
    Key("e", "title", "e", "title", "Change the title"),
    Key("T", "tags", "T", "tags", "Change the tags"),
    Key("x", "export", "x", "export", "Export it: HTML, Markdown, JSON, JSONL"),
    Key("y", "copy_id", "y", "copy id", "Copy its id"),
    Key("c", "resume", "c", "resume", "Show and copy the command that resumes it"),
    Key("d,delete", "trash", "d", "trash", "Put it in the trash, with its subagents"),
)
LIST: Final = (
    Key("enter,o", "open", "⏎", "open", "Read the session"),
    Key("slash", "search", "/", "search", "Search the texts of all sessions"),
    Key("right,l", "unfold", "→ l", "", "Show its subagents and forks"),
    Key("left,h", "fold", "← h", "", "Hide them, or go to its origin"),
    Key("a", "agent", "a", "agent", "Only sessions of one agent"),
    Key("p", "project", "p", "project", "Only sessions of one project"),
    Key("full_stop", "here", ".", "here", "Only sessions of this directory, or all"),
    Key("t", "tree", "t", "tree", "Show its branches"),
    Key("escape", "no_filter", "esc", "", "Show all sessions again"),
)
READ: Final = (
    Key("enter,o", "fold", "⏎", "open", "Open or close a tool call, or a thought"),
    Key("v", "fold_all", "v", "", "Open or close all of them"),
    Key("tab,right_square_bracket", "prompt(1)", "tab ]", "next prompt", "To the next prompt"),
    Key("shift+tab,left_square_bracket", "prompt(-1)", "⇧tab [", "", "To the prompt before"),
    Key("slash", "search", "/", "search", "Search in this session"),
    Key("n", "hit(1)", "n", "", "To the next hit"),
    Key("N", "hit(-1)", "N", "", "To the hit before"),
    Key("a", "agents", "a", "", "Go to a subagent, or to the parent"),
    Key("F", "follow", "F", "", "Follow the end while the session grows, or stop"),
    Key("t", "tree", "t", "tree", "Show its branches"),
)
TREE: Final = (Key("enter,o", "open", "⏎", "read", "Read around this entry"),)
MOVES: Final = (
    Key("f", "fork", "f", "fork", "Fork the session here"),
    Key("r", "rewind", "r", "rewind", "Go back to here; shows first what happens"),
    Key("u", "undo", "u", "undo", "Take back the last change or move"),
    Key("A", "to_agent", "A", "", "Go to the agent's branch, which has gone on since a rewind"),
)

Group = tuple[str, Sequence[Key]]
HELP: Final[tuple[Group, ...]] = (
    ("List of sessions", LIST),
    ("Session", READ),
    ("Tree", TREE),
    ("The session under the cursor", SESSION),
    ("The entry under the cursor", MOVES),
    ("Move", MOVEMENT),
    ("Everywhere", (*ANYWHERE, BACK)),
)


def bindings(*groups: Iterable[Key]) -> list[BindingType]:
    return [Binding(key.keys, key.action, key.word, show=False) for group in groups for key in group]


class KeyBar(Widget):
    """The last line: as many keys as there is room for, and always those for help and the end."""

    DEFAULT_CSS = "KeyBar { height: 1; dock: bottom; padding: 0 1; }"
    ALLOW_SELECT = False

    def __init__(self, *groups: Iterable[Key]) -> None:
        super().__init__()
        named = [key for group in groups for key in group if key.word]
        self.last = [key for key in named if key.action in ("help", "app.quit")]
        self.others = [key for key in named if key not in self.last]

    def fitting(self, width: int) -> list[Key]:
        room = width - sum(_width(key) for key in self.last)
        found = []
        for key in self.others:
            room -= _width(key)
            if room < 0:
                break
            found.append(key)
        return [*found, *self.last]

    def render(self) -> Text:
        line = Text(no_wrap=True, overflow="ellipsis")
        for key in self.fitting(self.size.width):
            line.append(key.shown.split()[0], "bold cyan").append(f" {key.word}  ")
        return line

    async def on_click(self, event: Click) -> None:
        at = 1  # what is left of the keys
        for key in self.fitting(self.size.width):
            at += _width(key)
            if event.x < at:
                await self.screen.run_action(key.action)
                return


def _width(key: Key) -> int:
    return Text(f"{key.shown.split()[0]} {key.word}  ").cell_len
