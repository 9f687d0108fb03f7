"""A terminal by way of rich: its console, and tables that fit its width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Final, NamedTuple, NoReturn

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from clew.cli.text import one_line


class PlainConsole(Console):
    """Prints what it is given: no markup, no emoji, no guessing at colours."""

    def __init__(self, *, file: IO[str] | None = None, stderr: bool = False) -> None:
        size = Console(stderr=stderr).size
        super().__init__(
            file=file,
            stderr=stderr,
            force_terminal=True if file is not None else None,  # a pager, which leads to one
            width=size.width,
            highlight=False,
            markup=False,
            emoji=False,
        )

    def on_broken_pipe(self) -> NoReturn:
        """rich would end the process; but a pager may be left, and a pipe has an exit code of its own."""
        raise BrokenPipeError


# -- tables: columns beside each other, cut to the width of the terminal, not wrapped

GAP: Final = 2
LEAST: Final = 6
"""The least width of a column when the terminal is narrow."""
READABLE: Final = 16
"""Optional columns are left out if that gives a flexible column this width."""


class Column(NamedTuple):
    """A column of a listing."""

    title: str
    style: str = ""
    right: bool = False
    flexible: bool = False
    """It is the first to be cut when there is too little room."""
    optional: bool = False
    """It is left out when cutting does not help."""


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[object]], width: int) -> Iterator[Text]:
    """A heading and the rows."""
    columns, rows = _without_optional(columns, rows, width)
    cells = [[one_line("" if cell is None else str(cell)) for cell in row] for row in rows]
    widths = _fitted(columns, cells, width)
    yield _line([column.title for column in columns], columns, widths, bold=True)
    for row in cells:
        yield _line(row, columns, widths)


def _without_optional(
    columns: Sequence[Column], rows: Sequence[Sequence[object]], width: int
) -> tuple[Sequence[Column], Sequence[Sequence[object]]]:
    kept = list(range(len(columns)))

    def least(at: int) -> int:
        needed = max([len(columns[at].title), *(len(str(row[at])) for row in rows)])
        return min(needed, READABLE) if columns[at].flexible else needed

    for at in reversed(range(len(columns))):
        if columns[at].optional and sum(map(least, kept)) + GAP * (len(kept) - 1) > width:
            kept.remove(at)
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]


def _fitted(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    widths = [
        max([cell_len(column.title), *(cell_len(row[at]) for row in rows)])
        for at, column in enumerate(columns)
    ]
    excess = sum(widths) + GAP * (len(widths) - 1) - width
    order = sorted(range(len(widths)), key=lambda at: (not columns[at].flexible, -at))
    for at in order:
        if excess > 0:
            cut = min(excess, max(0, widths[at] - LEAST))
            widths[at] -= cut
            excess -= cut
    return widths


def _line(
    cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int], *, bold: bool = False
) -> Text:
    line = Text(no_wrap=True, overflow="crop", end="")
    for at, (cell, column, room) in enumerate(zip(cells, columns, widths, strict=True)):
        shown = cell if cell_len(cell) <= room else set_cell_size(cell, max(0, room - 1)) + "…"
        space = " " * (room - cell_len(shown))
        is_last = at == len(widths) - 1
        padded = space + shown if column.right else shown if is_last else shown + space
        line.append(padded, style="bold" if bold else column.style)
        if not is_last:
            line.append(" " * GAP)
    line.rstrip()
    return line
