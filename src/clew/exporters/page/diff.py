"""Diffs, drawn line by line: what was added, what was removed, and where, if that is known."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from clew.core.messages.text import visible
from clew.exporters.changes import Line
from clew.exporters.page.text import code

MOST_LINES: Final = 3000
"""A longer diff is drawn with the colours of its letters alone: each line is an element of its own."""
AROUND: Final = 3
"""Unchanged lines that are shown on both sides of a change."""

_CLASSES: Final = {"+": "gi", "-": "gd", "@": "gu", " ": "", "": "gh"}


def diff(lines: Sequence[Line], *, folds: bool = False) -> str:
    """The lines of a diff, as one block. `folds`: leave out what is unchanged far from any change."""
    shown = list(_folded(lines)) if folds else lines
    if len(shown) > MOST_LINES:
        return f"<pre><code>{code(as_text(shown), 'diff')}</code></pre>\n"
    is_numbered = any(line.old is not None or line.new is not None for line in shown)
    drawn = "".join(_line(line) for line in shown)
    return f'<pre class="diff{" num" if is_numbered else ""}">{drawn}</pre>\n'


def as_text(lines: Iterable[Line]) -> str:
    """The same as the text of a diff."""
    return "\n".join(f"{'' if line.mark == '@' else line.mark}{line.text}" for line in lines)


def _line(line: Line) -> str:
    number = line.new if line.mark != "-" else line.old
    told = f' data-n="{number}"' if number is not None else ""
    mark = {"+": "+", "-": "-", " ": " "}.get(line.mark, "")
    inside = html.escape(visible(f"{mark}{line.text}")) or " "
    kind = _CLASSES[line.mark]
    return (
        f'<span class="l {kind}"{told}>{inside}</span>' if kind else f'<span class="l"{told}>{inside}</span>'
    )


def _folded(lines: Sequence[Line]) -> Iterator[Line]:
    changed = [at for at, line in enumerate(lines) if line.mark != " "]
    if not changed:
        yield from lines
        return
    near = set[int]()
    for at in changed:
        near.update(range(at - AROUND, at + AROUND + 1))
    left = 0
    for at, line in enumerate(lines):
        if at in near:
            if left:
                yield Line("@", _left_out(left))
            left = 0
            yield line
        else:
            left += 1
    if left:
        yield Line("@", _left_out(left))


def _left_out(count: int) -> str:
    return f"⋯ {count:,} unchanged line{'' if count == 1 else 's'}"
