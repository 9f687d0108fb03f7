"""Draws the tree of a session as lanes, oldest entry first, like `git log --graph` upside down.

    ●  0  user       The login page returns 500.
    ●  1  assistant  Two ways: a guard, or a middleware.   ◆ plan
    ├─╮
    │ ·  2  assistant  I rewrote auth.py.
    ├─╮
    │ ○  2  user       Try the middleware.                 ◀ login-bug#fork-1
    ●  2  user       Only guard line 42.                   ◀ login-bug

The path of the session runs straight down. What leaves it is drawn to the right, at once and whole, so
there are never more lanes than forks within forks; those that are more than `MOST_LANES` deep share one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

import clew
from clew.cli.store import reached

State = Literal["here", "elsewhere", "left"]

GLYPHS: Mapping[State, str] = {"here": "●", "elsewhere": "○", "left": "·"}
START = clew.Head("", -1)
"""Before the first entry: where an empty session stands, and where every history begins."""
MOST_LANES: Final = 40
"""No terminal is wide enough for more."""


class Row(NamedTuple):
    """One line of the drawing: an entry, or (without one) lanes that part, or entries left out."""

    lanes: str
    entry: clew.Head | None = None
    state: State = "left"
    """On the path of the session, on that of a relative, or on no path: only undo leads there."""
    heads: tuple[str, ...] = ()
    """The sessions that stand here."""
    checkpoints: tuple[str, ...] = ()
    folded: int = 0
    """So many entries are left out here."""
    is_end: bool = False
    """The last entry of what a rewind left behind."""

    @property
    def is_plain(self) -> bool:
        return self.entry is not None and not self.heads and not self.checkpoints and not self.is_end


def draw(tree: clew.Tree, *, fold: int = 8) -> list[Row]:
    """The rows of a tree. Of more than `fold` entries in a row that bear no name, the middle is left out."""
    drawing = _Drawing(tree)
    drawing.walk()
    return list(_folded(drawing.rows, fold))


class _Drawing:
    def __init__(self, tree: clew.Tree) -> None:
        self.rows: list[Row] = []
        self.children: defaultdict[clew.Head, list[clew.Head]] = defaultdict(list)
        self.lasts = {branch.id: branch.last for branch in tree.branches}
        for branch in tree.branches:
            self.children[branch.parent or START].append(clew.Head(branch.id, branch.first))
        self.here = reached([tree.heads.get(tree.session, START)], tree)
        self.alive = reached(tree.heads.values(), tree)
        self.heads: defaultdict[clew.Head, list[str]] = defaultdict(list)
        for session, head in tree.heads.items():
            self.heads[head].append(session)
        self.checkpoints: defaultdict[clew.Head, list[str]] = defaultdict(list)
        for checkpoint in tree.checkpoints:
            names = self.checkpoints[checkpoint.head]
            if checkpoint.name not in names:  # forks have theirs of the same name at the same place
                names.append(checkpoint.name)

    def walk(self) -> None:
        """Draw everything: an entry, what leaves the lane behind it, what goes on in it."""
        waiting: list[tuple[clew.Head, str, str]] = [(START, "", "")]
        while waiting:
            entry, prefix, fork = waiting.pop()
            if fork:
                self.rows.append(Row(fork))
            after = self._after(entry)
            straight = self._straight_on(entry, after)
            if entry != START or len(after) != 1 or straight is None or self._is_named(entry):
                self._put(entry, prefix)
            if straight is not None:
                waiting.append((straight, prefix, ""))
            aside = [other for other in after if other != straight]
            is_full = len(prefix) >= 2 * (MOST_LANES - 1)
            for other in reversed(aside):
                is_end = straight is None and other == aside[-1]
                lane = "" if is_full else "  " if is_end else "│ "
                waiting.append((other, prefix + lane, prefix + ("╰─╮" if is_end else "├─╮")))

    def _after(self, entry: clew.Head) -> list[clew.Head]:
        going_on = []
        if entry.position < self.lasts.get(entry.branch, -1):
            going_on = [clew.Head(entry.branch, entry.position + 1)]
        return going_on + self.children.get(entry, [])

    def _straight_on(self, entry: clew.Head, after: list[clew.Head]) -> clew.Head | None:
        """The entry to draw below this one. On the session's own path: only one that is on it too."""
        if entry == START or self._state(entry) == "here":
            return next((other for other in after if self._state(other) == "here"), None)
        ranked = sorted(after, key=lambda other: self._state(other) != "elsewhere")
        return next(iter(ranked), None)

    def _state(self, entry: clew.Head) -> State:
        if entry.position <= self.here.get(entry.branch, -1):
            return "here"
        return "elsewhere" if entry.position <= self.alive.get(entry.branch, -1) else "left"

    def _is_named(self, entry: clew.Head) -> bool:
        return entry in self.heads or entry in self.checkpoints

    def _put(self, entry: clew.Head, prefix: str) -> None:
        state = self._state(entry)
        glyph = "◌" if entry == START else GLYPHS[state]
        heads, names = tuple(self.heads.get(entry, ())), tuple(self.checkpoints.get(entry, ()))
        is_end = state == "left" and entry != START and not self._after(entry)
        self.rows.append(Row(prefix + glyph, entry, state, heads, names, is_end=is_end))


def _folded(rows: list[Row], fold: int) -> Iterator[Row]:
    kept = max(1, fold // 2)
    index = 0
    while index < len(rows):
        end = index
        while end < len(rows) and rows[end].is_plain and rows[end].lanes == rows[index].lanes:
            end += 1
        if end - index > max(fold, 2 * kept):
            yield from rows[index : index + kept]
            yield Row(rows[index].lanes[:-1] + "┆", state=rows[index].state, folded=end - index - 2 * kept)
            yield from rows[end - kept : end]
        else:
            end = max(end, index + 1)
            yield from rows[index:end]
        index = end


def newest_first(rows: Iterable[Row]) -> list[Row]:
    """The same drawing the other way up, as `git log --graph` has it."""
    turned = str.maketrans("╮╰", "╯╭")
    return [row._replace(lanes=row.lanes.translate(turned)) for row in reversed(list(rows))]
