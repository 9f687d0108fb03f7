"""Tables on a terminal: columns beside each other, cut to its width, never wrapped.

rich is not used here: it takes longer to import than a list of sessions takes to read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from clew.cli.text import one_line

GAP: Final = 2
LEAST: Final = 6
"""The least width of a flexible column, when nothing else helps."""
READABLE: Final = 20
"""Columns become narrower, or go, until the widest one has this width."""
COMFORTABLE: Final = 40
"""To this width the widest one is cut before others are."""

INDENT: Final = 2
"""Blanks before what goes below a row."""

_ODD: Final = re.compile("[^ -~\u00a1-\u00ac\u00ae-\u02ff‐-…└]")
"""Letters that may take another room than one column."""
_COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
STYLES: Final = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "underline": "4",
    **{name: f"{30 + number}" for number, name in enumerate(_COLOURS)},
    **{f"bright_{name}": f"{90 + number}" for number, name in enumerate(_COLOURS)},
}
"""The names that rich has for them, too."""


class Column(NamedTuple):
    """A column of a listing."""

    title: str
    style: str = ""
    right: bool = False
    flexible: bool = False
    """It is cut when there is too little room. The last one of these gets the room that is left."""
    optional: bool = False
    """It goes when cutting does not help; the last one first, unless `goes` says otherwise."""
    least: int = READABLE
    """The width to which it is cut, if it is flexible, before columns go."""
    goes: int = 0
    """Optional columns with a higher number go first."""
    leaves: int = READABLE
    """It goes as soon as the widest column would have less room than this."""
    goes_below: bool = False
    """It goes to a line of its own below each row when the widest column would not be readable beside it."""


class Cell(NamedTuple):
    """A text with something before and behind it, which stays when the text is cut."""

    text: str
    before: str = ""
    before_style: str = ""
    behind: str = ""
    behind_style: str = "bright_black"
    short: str = ""
    """Stands behind it instead where there is no room for `behind`."""


def table_lines(
    columns: Sequence[Column],
    rows: Sequence[Sequence[object]],
    width: int,
    *,
    has_colours: bool,
    has_total: bool = False,
) -> Iterator[str]:
    """A heading and the rows. `has_total`: the last one is their sum."""
    cells = [[_cell(cell) for cell in row] for row in rows]
    heads = [Cell(column.title) for column in columns]
    natural = [
        max([_width(column.title), *(_whole_width(row[at]) for row in cells)])
        for at, column in enumerate(columns)
    ]
    widths, below = _fitted(columns, natural, width, range(len(columns))), None
    if _is_squeezed(columns, natural, widths):
        below = next((at for at, column in enumerate(columns) if column.goes_below), None)
        widths = _fitted(columns, natural, width, [at for at in range(len(columns)) if at != below])
    yield _line(heads, columns, widths, has_colours=has_colours, is_bold=True)
    for number, row in enumerate(cells, 1):
        is_total = has_total and number == len(cells)
        yield _line(row, columns, widths, has_colours=has_colours, is_bold=is_total)
        if below is not None:
            under = {below: max(1, width - INDENT)}
            yield " " * INDENT + _line(row, columns, under, has_colours=has_colours)


def _cell(cell: object) -> Cell:
    if isinstance(cell, Cell):
        return cell._replace(
            text=one_line(cell.text),
            before=one_line(cell.before),
            behind=one_line(cell.behind),
            short=one_line(cell.short),
        )
    return Cell(one_line("" if cell is None else str(cell)))


# -- widths


def _is_squeezed(columns: Sequence[Column], natural: Sequence[int], widths: dict[int, int]) -> bool:
    """Whether the widest column is less than readable, beside one that can go below it."""
    if not any(column.goes_below for column in columns):
        return False
    widest = max((at for at in widths if columns[at].flexible), default=None)
    return widest is not None and widths[widest] < min(natural[widest], READABLE)


def _fitted(
    columns: Sequence[Column], natural: Sequence[int], width: int, wanted: Sequence[int]
) -> dict[int, int]:
    """The columns that stay, with their widths. A column goes if it is not enough to cut the flexible ones to
    their least."""
    kept = list(wanted)
    leaving = sorted((at for at in kept if columns[at].optional), key=lambda at: (columns[at].goes, at))
    widest = max((at for at in kept if columns[at].flexible), default=None)

    def least(at: int) -> int:
        if not columns[at].flexible:
            return natural[at]
        return min(natural[at], columns[leaving[-1]].leaves if at == widest else columns[at].least)

    while leaving and sum(map(least, kept)) + GAP * (len(kept) - 1) > width:
        kept.remove(leaving.pop())
    widths = {at: natural[at] for at in kept}
    excess = sum(widths.values()) + GAP * (len(kept) - 1) - width
    flexible = [at for at in reversed(kept) if columns[at].flexible]
    steps = [(at, COMFORTABLE) for at in flexible[:1]]
    steps += [(at, columns[at].least) for at in (*flexible[1:], *flexible[:1])]
    for at, limit in (*steps, *((at, LEAST) for at in (*flexible, *reversed(kept)))):
        cut = min(max(excess, 0), max(0, widths[at] - limit))
        widths[at] -= cut
        excess -= cut
    return widths


# -- lines


def _line(
    cells: Sequence[Cell],
    columns: Sequence[Column],
    widths: dict[int, int],
    *,
    has_colours: bool,
    is_bold: bool = False,
) -> str:
    parts = []
    for at, room in widths.items():
        style = "bold" if is_bold else columns[at].style
        shown, taken = _fit(cells[at], room, style, has_colours=has_colours)
        space = " " * (room - taken)
        parts.append(space + shown if columns[at].right else shown + space)
    return (" " * GAP).join(parts).rstrip(" ")


def _fit(cell: Cell, room: int, style: str, *, has_colours: bool) -> tuple[str, int]:
    """A cell in so many columns of the terminal, and how many it takes."""
    before, behind = f"{cell.before} " if cell.before else "", ""
    for words in (cell.behind, cell.short):
        behind = f" {words}" if words else ""
        if _width(before) + _width(behind) + min(_width(cell.text), LEAST) <= room:
            break
    else:
        before, behind = "", ""
    text = cut(cell.text, room - _width(before) - _width(behind))
    taken = _width(before) + _width(text) + _width(behind)
    if not has_colours:
        return before + text + behind, taken
    spans = ((before, cell.before_style), (text, style), (behind, cell.behind_style))
    return "".join(_styled(span, look) for span, look in spans), taken


def _styled(text: str, style: str) -> str:
    codes = ";".join(STYLES[word] for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m" if codes and text else text


def cut(text: str, room: int) -> str:
    """At most so many columns of the terminal; what is missing is marked by …"""
    if _width(text) <= room:
        return text
    if text.isascii() or not _ODD.search(text):
        return text[: max(0, room - 1)].rstrip() + "…"
    from rich.cells import set_cell_size

    return set_cell_size(text, max(0, room - 1)).rstrip() + "…"


def _whole_width(cell: Cell) -> int:
    beside = sum(_width(part) + 1 for part in (cell.before, cell.behind) if part)
    return _width(cell.text) + beside


def _width(text: str) -> int:
    """In columns of the terminal."""
    if text.isascii() or not _ODD.search(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
