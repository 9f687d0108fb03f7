"""A text that is read from a store as it is scrolled to: a transcript, whose parts open and close, or a tree.

Only what was scrolled to is read, wrapped and kept; only what is on the screen is drawn.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Final, Generic, Protocol, TypeVar

from rich.style import Style
from rich.text import Text
from textual.events import Resize
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from clew.cli.app import Refused, described
from clew.cli.text import clean
from clew.cli.ui.background import after
from clew.cli.ui.view import CursorView
from clew.errors import ClewError

AHEAD: Final = 50
"""So many lines below the screen are read before they are asked for."""
AT_ONCE: Final = 0.03
"""Seconds of reading before keys are looked at again."""
GUTTER: Final = 2
"""Columns at the left, for the cursor."""


class Section(Protocol):
    """A part of the text that opens and closes as one."""

    def texts(self) -> Iterable[Text]:
        """Its lines as they are now, before they are wrapped. One with `no_wrap` is cut instead."""


S = TypeVar("S", bound=Section)
Source = Iterable[S | None]
"""None: something was read that gives no section. There may be many in a row."""


class Lines(CursorView, Generic[S]):
    """Sections below each other."""

    class Grown(Message):
        """Sections were read, or there are no more."""

    def __init__(self, *, gutter: bool = True) -> None:
        super().__init__()
        self.is_complete = True
        self.is_reading = False
        self.highlight: re.Pattern[str] | None = None
        """Words that are marked wherever they stand."""
        self._gutter = GUTTER if gutter else 0
        self._source: Iterator[S | None] = iter(())
        self._sections: list[S] = []
        self._lines: list[tuple[Text, int]] = []
        self._width = 0
        self._goal = 0
        self._to_end = False
        self._wanted: Callable[[S], bool] | None = None
        self._on_top = False
        self._finds = 0

    # -- what there is

    @property
    def line_count(self) -> int:
        return len(self._lines)

    @property
    def sections(self) -> list[S]:
        """All that were read until now."""
        return self._sections

    @property
    def section(self) -> S | None:
        """The one under the cursor."""
        return self._sections[self._lines[self.cursor][1]] if self._lines else None

    @property
    def texts(self) -> list[str]:
        """All lines that were read until now."""
        return [line.plain for line, _ in self._lines]

    def show(self, source: Source[S], *, at: Callable[[S], bool] | None = None, top: bool = False) -> None:
        """Read from here now. The cursor goes to the first section that `at` likes, else to the top."""
        self._source, self._sections, self._lines = iter(source), [], []
        self._goal, self.cursor, self.is_complete, self._to_end = 0, 0, False, False
        self.scroll_to(y=0, animate=False, immediate=True)
        self.seek(at, top=top)

    def extend(self, source: Source[S]) -> None:
        """There is more behind what was read to its end."""
        self._source, self.is_complete = iter(source), False
        self._fill()

    def seek(self, wanted: Callable[[S], bool] | None, *, top: bool = True) -> None:
        """Put the cursor on the first section that is wanted; what lies before it is read first."""
        self._wanted, self._on_top = wanted, top
        for index, section in enumerate(self._sections):
            if wanted is not None and wanted(section):
                self._found(index)
                return
        self._fill()

    def _found(self, index: int) -> None:
        self._wanted = None
        self._finds += 1
        self._rewrap(index)  # it may have opened
        line = self._first_line(index)
        if self._on_top:
            self.go_to_top(line)
        else:
            self.go_to(line)

    def _first_line(self, index: int) -> int:
        """Of a section; an empty one before its text is none."""
        first = bisect_left(self._lines, index, key=lambda line: line[1])
        after = self._lines[first + 1 : first + 2]
        return first + 1 if after and after[0][1] == index and not self._lines[first][0].plain else first

    def redraw(self, section: S | None = None) -> None:
        """A section (None: any of them) has opened, closed or changed."""
        here = self._lines[self.cursor][1] if self._lines else 0
        if section is None:
            self._wrap_all()
        else:
            index = next(at for at, one in enumerate(self._sections) if one is section)
            self._rewrap(index)
        self.cursor = self._first_line(here)
        self._fill()
        self.go_to(self.cursor)

    def _rewrap(self, index: int) -> None:
        first = end = bisect_left(self._lines, index, key=lambda line: line[1])
        while end < len(self._lines) and self._lines[end][1] == index:
            end += 1
        self._lines[first:end] = self._wrapped(index)
        self.virtual_size = Size(self._width, len(self._lines))

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
        if self._to_end:
            super().go_to(len(self._lines) - 1)
        self.refresh()
        self.post_message(self.Grown())

    def _pause(self) -> None:
        if not self.is_reading:
            self.is_reading = True
            after(0.001, self, self._go_on)

    def _go_on(self) -> None:
        self.is_reading = False
        self._fill()

    def _needs_more(self) -> bool:
        if self._wanted is not None or self._to_end:
            return True
        seen = max(self._goal, self.cursor, self.scroll_offset.y)
        return len(self._lines) < seen + self.size.height + AHEAD

    def _read_one(self) -> None:
        try:
            section = next(self._source)
        except StopIteration:
            self.is_complete, self._wanted = True, None
            return
        except (ClewError, Refused, OSError) as exc:
            self.is_complete, self._wanted = True, None
            self.app.notify(clean(described(exc)), severity="error", markup=False)
            return
        if section is None:
            return
        self._sections.append(section)
        index = len(self._sections) - 1
        self._lines += self._wrapped(index)
        if self._wanted is not None and self._wanted(section):
            self.virtual_size = Size(self._width, len(self._lines))
            self._found(index)

    def _wrap_all(self) -> None:
        self._lines = [line for index in range(len(self._sections)) for line in self._wrapped(index)]
        self.virtual_size = Size(self._width, len(self._lines))

    def _wrapped(self, index: int) -> list[tuple[Text, int]]:
        """What is too long goes on below its beginning, or is cut if the text says so."""
        width, found = max(1, self._width - self._gutter), []
        for text in self._sections[index].texts():
            if text.no_wrap:
                cut = text.copy()
                cut.truncate(width, overflow=text.overflow or "ellipsis")
                found.append((cut, index))
                continue
            indent = min(len(text.plain) - len(text.plain.lstrip(" ")), width // 2)
            for part in text[indent:].wrap(self.app.console, width - indent, overflow="fold") or [Text("")]:
                part.rstrip()
                found.append((Text(" " * indent).append_text(part), index))
        return found

    def on_resize(self, event: Resize) -> None:
        width = self.scrollable_content_region.width
        if width != self._width:
            index = self._lines[self.cursor][1] if self._lines else 0
            self._width = width
            self._wrap_all()
            self.cursor = self._first_line(index)
        self._fill()
        self.go_to(self.cursor)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self.is_complete and self._needs_more():
            self._pause()

    # -- moving

    def go_to(self, line: int) -> None:
        """What lies before the line is read first."""
        self._to_end, self._goal = False, max(0, line)
        found = self._finds
        if not self.is_complete:
            self._fill()
        if found == self._finds:  # else what was sought came meanwhile, and the cursor is there
            super().go_to(line)

    def action_last(self) -> None:
        self._to_end, self._wanted = True, None
        self._fill()

    def next_section(self, by: int, wanted: Callable[[S], bool]) -> bool:
        """To the next section that is wanted, or to the one before; False: there is none."""
        here = self._lines[self.cursor][1] if self._lines else -1
        at = here + by
        while at >= 0:
            while at >= len(self._sections) and not self.is_complete:
                self._read_one()
            if at >= len(self._sections):
                break
            if wanted(self._sections[at]):
                self.virtual_size = Size(self._width, len(self._lines))
                self.go_to_top(self._first_line(at))
                return True
            at += by
        return False

    # -- drawing

    def line_at(self, at: int) -> Text:
        line = self._lines[at][0]
        if self.highlight is not None:
            line = line.copy()
            line.highlight_regex(self.highlight, "bold reverse yellow")
        if not self._gutter:
            return line
        sign = Text("▌ ", "bold cyan") if at == self.cursor else Text("  ")
        return sign.append_text(line)

    def under_cursor(self, line: Strip) -> Strip:
        return line.apply_style(Style(bold=True)) if self._gutter else super().under_cursor(line)
