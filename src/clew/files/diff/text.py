"""The unified diff of two texts, in a time that is bounded whatever they hold.

difflib may take time by the cube of the length. So the texts are cut at the lines that are in each of
them just once, in the same order (such lines belong together), and only short stretches between are left
to it; a long stretch without one such line is told as replaced.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, TypeAlias

CONTEXT: Final = 3
MOST_PAIRS: Final = 250_000
"""Stretches of more pairs of lines than this are not compared line by line."""

Block: TypeAlias = tuple[int, int, int]
"""So many lines from here in the one text are those from there in the other: (old, new, count)."""


def unified(old: str, new: str, old_name: str | None, new_name: str | None) -> str:
    """Empty if the texts are equal. A name is None where there is no file."""
    a, b = _lines(old), _lines(new)
    parts: list[str] = []
    for group in _grouped(blocks(a, b), len(a), len(b)):
        parts += _hunk(a, b, group)
    if not parts:
        return ""
    return f"--- {_header('a', old_name)}\n+++ {_header('b', new_name)}\n" + "".join(parts)


def blocks(a: Sequence[str], b: Sequence[str]) -> list[Block]:
    """What the two have in common, in order, joined where it is adjacent."""
    found: list[Block] = []
    for i, j, count in _matches(a, b):
        if found and found[-1][0] + found[-1][2] == i and found[-1][1] + found[-1][2] == j:
            found[-1] = found[-1][0], found[-1][1], found[-1][2] + count
        elif count:
            found.append((i, j, count))
    return found


def _matches(a: Sequence[str], b: Sequence[str]) -> Iterator[Block]:
    head = _common(a, b, len(a), len(b))
    yield 0, 0, head
    tail = _common(a[::-1], b[::-1], len(a) - head, len(b) - head)
    end_a, end_b = len(a) - tail, len(b) - tail
    i, j = head, head
    for x, y in [*_anchors(a, b, head, end_a, end_b), (end_a, end_b)]:
        yield from _between(a, b, i, x, j, y)
        if x < end_a:
            yield x, y, 1
        i, j = x + 1, y + 1
    yield end_a, end_b, tail


def _common(a: Sequence[str], b: Sequence[str], most_a: int, most_b: int) -> int:
    count = 0
    while count < most_a and count < most_b and a[count] == b[count]:
        count += 1
    return count


def _anchors(a: Sequence[str], b: Sequence[str], first: int, end_a: int, end_b: int) -> list[tuple[int, int]]:
    """The longest row of lines that are in each text once, and in the same order in both."""
    once_a, once_b = Counter(a[first:end_a]), Counter(b[first:end_b])
    place = {line: j for j, line in enumerate(b[first:end_b], first) if once_b[line] == 1}
    pairs = [
        (i, place[line])
        for i, line in enumerate(a[first:end_a], first)
        if once_a[line] == 1 and line in place
    ]
    # The longest increasing row of places in b: `lowest` holds where the best row of each length ends.
    lowest: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for at, (_, j) in enumerate(pairs):
        length = bisect_left(lowest, j)
        lowest[length : length + 1] = [j]
        ends[length : length + 1] = [at]
        before.append(ends[length - 1] if length else -1)
    row: list[tuple[int, int]] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        row.append(pairs[at])
        at = before[at]
    return row[::-1]


def _between(a: Sequence[str], b: Sequence[str], i: int, x: int, j: int, y: int) -> Iterator[Block]:
    if 0 < (x - i) * (y - j) <= MOST_PAIRS:
        matcher = SequenceMatcher(None, a[i:x], b[j:y])
        for match in matcher.get_matching_blocks():
            yield i + match.a, j + match.b, match.size


def _grouped(common: Sequence[Block], length_a: int, length_b: int) -> Iterator[list[Block]]:
    """The blocks around each run of changes, those at its edges cut to the context."""
    group: list[Block] = []
    if not common or common[0][:2] != (0, 0):
        common = [(0, 0, 0), *common]
    if (common[-1][0] + common[-1][2], common[-1][1] + common[-1][2]) != (length_a, length_b):
        common = [*common, (length_a, length_b, 0)]
    for i, j, count in common:
        if not group:
            kept = min(count, CONTEXT)
            group = [(i + count - kept, j + count - kept, kept)]
        elif count > 2 * CONTEXT:
            yield [*group, (i, j, CONTEXT)]
            group = [(i + count - CONTEXT, j + count - CONTEXT, CONTEXT)]
        else:
            group.append((i, j, count))
    if len(group) > 1:
        i, j, count = group[-1]
        yield [*group[:-1], (i, j, min(count, CONTEXT))]


def _hunk(a: Sequence[str], b: Sequence[str], group: Sequence[Block]) -> Iterator[str]:
    (i, j, _), (last_i, last_j, last) = group[0], group[-1]
    yield f"@@ -{_range(i, last_i + last)} +{_range(j, last_j + last)} @@\n"
    for x, y, count in group:
        yield from (_marked("-", line) for line in a[i:x])
        yield from (_marked("+", line) for line in b[j:y])
        yield from (_marked(" ", line) for line in a[x : x + count])
        i, j = x + count, y + count


def _range(first: int, end: int) -> str:
    count = end - first
    if count == 1:
        return str(first + 1)
    return f"{first + 1 if count else first},{count}"


def _marked(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


def _header(side: str, name: str | None) -> str:
    """A name as it may stand in one line, and be printed: what cannot is escaped, as git does."""
    if name is None:
        return "/dev/null"
    path = f"{side}/{name}"
    if path.isprintable() and '"' not in path and "\\" not in path:
        return path
    octal = "".join(
        f"\\{byte:03o}" if byte < 32 or byte > 126 else {34: '\\"', 92: "\\\\"}.get(byte, chr(byte))
        for byte in path.encode("utf-8", "surrogateescape")
    )
    return f'"{octal}"'


def _lines(text: str) -> list[str]:
    """Cut at line feeds alone: whatever else some call the end of a line is part of it."""
    lines = text.split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])
