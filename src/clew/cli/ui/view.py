"""Lines with a cursor: what lists, trees and transcripts have in common, and a list of one line each.

Only what is on the screen is drawn. Lines are texts of rich, which know no markup, and have passed through
`clew.cli.text`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from clew.cli.ui.keys import MOVEMENT, bindings

T = TypeVar("T")


class CursorView(ScrollView, can_focus=True):
    """Lines, one of which is under the cursor."""

    DEFAULT_CSS = "CursorView { overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings(MOVEMENT)
    ALLOW_SELECT = False

    class Moved(Message):
        """The cursor is on another line, or there are more lines."""

    class Chosen(Message):
        """The line under the cursor was clicked twice."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.cursor = 0

    @property
    def line_count(self) -> int:
        """How many lines there are until now."""
        raise NotImplementedError

    def line_at(self, at: int) -> Text:
        raise NotImplementedError

    def go_to(self, line: int) -> None:
        """Put the cursor there, or as near as there are lines, and let it be seen."""
        self.cursor = max(0, min(line, self.line_count - 1))
        height, top = self.size.height, self.scroll_offset.y
        if height and not top <= self.cursor < top + height:
            to = self.cursor if self.cursor < top else self.cursor - height + 1
            self.scroll_to(y=to, animate=False, immediate=True, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def go_to_top(self, line: int) -> None:
        """Put the cursor there, and its line near the top of the screen."""
        self.go_to(line)
        to = min(max(0, self.cursor - 2), max(0, self.line_count - self.size.height))
        self.scroll_to(y=to, animate=False, immediate=True, force=True)

    def action_move(self, by: int) -> None:
        self.go_to(self.cursor + by)

    def action_page(self, by: int) -> None:
        self.go_to(self.cursor + by * max(1, self.size.height - 1))

    def action_half(self, by: int) -> None:
        self.go_to(self.cursor + by * max(1, self.size.height // 2))

    def action_first(self) -> None:
        self.go_to(0)

    def action_last(self) -> None:
        self.go_to(self.line_count - 1)

    def on_click(self, event: Click) -> None:
        at = self.scroll_offset.y + event.y
        if at >= self.line_count:
            return
        self.focus()
        self.go_to(at)
        if event.chain == 2:
            self.post_message(self.Chosen())

    def render_line(self, y: int) -> Strip:
        at = self.scroll_offset.y + y
        width = self.scrollable_content_region.width
        if at >= self.line_count:
            return Strip.blank(width, self.rich_style)
        segments = list(self.line_at(at).render(self.app.console))
        if at == self.cursor:
            return self.under_cursor(Strip(segments).adjust_cell_length(width))
        return Strip(segments).adjust_cell_length(width)

    def under_cursor(self, line: Strip) -> Strip:
        """The line in reverse: whatever the colours of the terminal are, it can be read."""
        plain = Style(reverse=True)
        return Strip(
            Segment(text, Style(reverse=True, bold=style.bold, underline=style.underline) if style else plain)
            for text, style, _ in line
        )


class Rows(CursorView, Generic[T]):
    """A list: each line stands for a value, and is drawn when it is seen."""

    def __init__(self, draw: Callable[[T, int], Text], id: str | None = None) -> None:
        super().__init__(id=id)
        self._draw = draw
        self.rows: Sequence[T] = ()

    @property
    def line_count(self) -> int:
        return len(self.rows)

    @property
    def value(self) -> T | None:
        """What is under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    @property
    def texts(self) -> list[str]:
        return [self.line_at(at).plain.rstrip() for at in range(len(self.rows))]

    def show(self, rows: Sequence[T], cursor: int = 0) -> None:
        self.rows = rows
        self.virtual_size = Size(self.scrollable_content_region.width, len(rows))
        self.go_to(cursor)

    def line_at(self, at: int) -> Text:
        line = self._draw(self.rows[at], self.scrollable_content_region.width)
        line.truncate(self.scrollable_content_region.width, overflow="ellipsis")
        return line

    def on_resize(self, event: Resize) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self.rows))
        self.go_to(self.cursor)
