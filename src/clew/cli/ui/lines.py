"""Lines that are read from a store as they are needed: a list of sessions, a tree, a transcript.

Only what was scrolled to is read, wrapped and kept; only what is on the screen is drawn. Lines are texts of
rich, which know no markup, and have passed through `clew.cli.text`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from clew.cli.app import described
from clew.cli.text import clean
from clew.errors import ClewError

T = TypeVar("T")

AHEAD: Final = 50
"""So many lines below the screen are read before they are asked for."""
AT_ONCE: Final = 0.03
"""Seconds of reading before keys are looked at again."""
ALL: Final = 10**12


class Item(NamedTuple, Generic[T]):
    """A line before it is wrapped, and what it stands for."""

    text: Text
    value: T | None


Source = Iterable[Item[T] | None]
"""None: something was read that gives no line. There may be many in a row."""


class Lines(ScrollView, Generic[T], can_focus=True):
    """Lines with a cursor."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"lines--cursor"}
    DEFAULT_CSS = """
    Lines { overflow-x: hidden; overflow-y: scroll; }
    Lines > .lines--cursor { background: $primary 40%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("pageup,b", "page(-1)", show=False),
        Binding("home", "first", show=False),
        Binding("end,G", "last", show=False),
    ]

    class Grown(Message):
        """Lines were read, or there are no more."""

    def __init__(self) -> None:
        super().__init__()
        self.cursor = 0
        self.is_complete = True
        self._source: Iterator[Item[T] | None] = iter(())
        self._items: list[Item[T]] = []
        self._lines: list[tuple[Text, int]] = []
        self._width = 0
        self._goal = 0
        self._wanted: Callable[[T], bool] | None = None
        self.is_reading = False

    # -- what there is

    @property
    def value(self) -> T | None:
        """What the line under the cursor stands for."""
        return self._value_at(self.cursor)

    @property
    def texts(self) -> list[str]:
        """All lines that were read until now."""
        return [line.plain for line, _ in self._lines]

    @property
    def count(self) -> int:
        """How many things were read until now."""
        return len(self._items)

    def show(self, source: Source[T], *, at: Callable[[T], bool] | None = None) -> None:
        """Read from here now. The cursor goes to the first line whose value `at` likes, else to the top."""
        self._source, self._items, self._lines = iter(source), [], []
        self._wanted, self._goal, self.cursor = at, 0, 0
        self.is_complete = False
        self.scroll_to(y=0, animate=False, immediate=True)
        self._fill()
        self._reveal(self.cursor)

    # -- reading

    def _fill(self) -> None:
        """Read until the screen and some more is full; pause when it takes long."""
        end = monotonic() + AT_ONCE
        while self._width and not self.is_complete and self._needs_more():
            if monotonic() > end:
                self._pause()
                break
            self._read_one()
        self.virtual_size = Size(self._width, len(self._lines))
        if self._goal == ALL:
            self._reveal(len(self._lines) - 1)
        self.refresh()
        self.post_message(self.Grown())

    def _pause(self) -> None:
        if not self.is_reading:
            self.is_reading = True
            self.set_timer(0.001, self._go_on)

    def _go_on(self) -> None:
        self.is_reading = False
        looked = self._wanted is not None
        self._fill()
        if looked and self._wanted is None:
            self._reveal(self.cursor)

    def _needs_more(self) -> bool:
        if self._wanted is not None:
            return True
        return (
            len(self._lines) < max(self._goal, self.cursor, self.scroll_offset.y) + self.size.height + AHEAD
        )

    def _read_one(self) -> None:
        try:
            item = next(self._source)
        except StopIteration:
            self.is_complete, self._wanted = True, None
            return
        except (ClewError, OSError) as exc:
            self.is_complete, self._wanted = True, None
            self.app.notify(clean(described(exc)), severity="error", markup=False)
            return
        if item is None:
            return
        if self._wanted is not None and item.value is not None and self._wanted(item.value):
            self._wanted, self.cursor = None, len(self._lines)
        self._items.append(item)
        self._wrap(len(self._items) - 1)

    def _wrap(self, index: int) -> None:
        """What is too long goes on below its beginning, or is cut if the text says so."""
        text = self._items[index].text
        if text.no_wrap:
            text = text.copy()
            text.truncate(self._width, overflow="ellipsis")
            self._lines.append((text, index))
            return
        indent = min(len(text.plain) - len(text.plain.lstrip(" ")), self._width // 2)
        parts = text[indent:].wrap(self.app.console, self._width - indent, overflow="fold")
        for part in parts or [Text("")]:
            part.rstrip()
            self._lines.append((Text(" " * indent).append_text(part), index))

    def on_resize(self, event: Resize) -> None:
        width = self.scrollable_content_region.width
        if width != self._width:
            self._width = width
            item = self._lines[self.cursor][1] if self._lines else 0
            self._lines = []
            for index in range(len(self._items)):
                self._wrap(index)
            self.cursor = next((at for at, (_, index) in enumerate(self._lines) if index == item), 0)
        self._fill()
        self._reveal(self.cursor)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self.is_complete and self._needs_more():
            self._pause()

    # -- moving

    def go_to(self, line: int) -> None:
        """Move the cursor to a line; what lies before it is read first."""
        self._goal, self._wanted = max(0, line), None
        self._fill()
        self._reveal(line)

    def _reveal(self, line: int) -> None:
        """Put the cursor there, or as near as lines were read, and let it be seen."""
        self.cursor = max(0, min(line, len(self._lines) - 1))
        height, top = self.size.height, self.scroll_offset.y
        if not top <= self.cursor < top + height:
            to = self.cursor if self.cursor < top else self.cursor - height + 1
            self.scroll_to(y=to, animate=False, immediate=True, force=True)
        self.refresh()

    def action_move(self, by: int) -> None:
        self.go_to(self.cursor + by)

    def action_page(self, by: int) -> None:
        self.go_to(self.cursor + by * max(1, self.size.height - 1))

    def action_first(self) -> None:
        self.go_to(0)

    def action_last(self) -> None:
        self.go_to(ALL)

    def to_neighbour(self, by: int) -> None:
        """To the first line of the next value, or of the one before."""
        line, here = self.cursor, self.value
        while self._value_at(line) == here and self._is_line(line + by):
            line += by
        if by < 0:
            while line and self._value_at(line - 1) == self._value_at(line):
                line -= 1
        self.go_to(line)

    def _is_line(self, line: int) -> bool:
        while line >= len(self._lines) and not self.is_complete:
            self._read_one()
        return 0 <= line < len(self._lines)

    def _value_at(self, line: int) -> T | None:
        return self._items[self._lines[line][1]].value if self._lines else None

    def on_click(self, event: Click) -> None:
        self.go_to(self.scroll_offset.y + event.y)

    # -- drawing

    def render_line(self, y: int) -> Strip:
        at = self.scroll_offset.y + y
        width = self.scrollable_content_region.width
        if at >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        segments = list(self._lines[at][0].render(self.app.console))
        strip = Strip(segments).adjust_cell_length(width)
        if at == self.cursor:
            return strip.apply_style(self.get_component_rich_style("lines--cursor"))
        return strip.apply_style(self.rich_style)
