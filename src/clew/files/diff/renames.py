"""Which of the files that went away are those that came, under another name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from clew.files.diff.trees import Difference, kind_of

SIMILAR: Final = 0.5
"""How much of the larger file must be in the other one."""
MOST_TEXT: Final = 1024 * 1024
MOST_CANDIDATES: Final = 500
COMMON: Final = 50
"""A line that is in more files than this says nothing about where a file comes from."""


def exact_renames(removed: Sequence[Difference], added: Sequence[Difference]) -> dict[bytes, Difference]:
    """For the path of each added file that was moved as it is: where it was. Each file that went away is
    used once, for one of the same name before others. Empty files are all alike, so they tell nothing."""
    by_digest: dict[bytes, list[Difference]] = defaultdict(list)
    for gone in removed:
        if gone.old is not None and kind_of(gone.old) == 0 and gone.old.size:
            by_digest[gone.old.digest].append(gone)
    pairs: dict[bytes, Difference] = {}
    for same_name in (True, False):
        for come in added:
            if come.path in pairs or come.new is None or kind_of(come.new) != 0:
                continue
            candidates = by_digest.get(come.new.digest, [])
            for place, gone in enumerate(candidates):
                if not same_name or _name(gone.path) == _name(come.path):
                    pairs[come.path] = candidates.pop(place)
                    break
    return pairs


def similar_renames(removed: Mapping[bytes, bytes], added: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """For the path of each added text that is like a removed one: the path of that one.

    Both maps lead from paths to contents. The most alike come first; each path is used once.
    """
    old_lines = {path: _lines(content) for path, content in removed.items()}
    holders: dict[bytes, list[bytes]] = defaultdict(list)
    for path, lines in old_lines.items():
        for line in lines:
            holders[line].append(path)
    scores: list[tuple[float, bool, bytes, bytes]] = []
    for path, content in added.items():
        shared: dict[bytes, int] = defaultdict(int)
        for line, count in _lines(content).items():
            candidates = holders.get(line, ())
            if len(candidates) <= COMMON:
                for old in candidates:
                    shared[old] += len(line) * min(count, old_lines[old][line])
        for old, size in shared.items():
            score = size / max(len(content), len(removed[old]))
            if score >= SIMILAR:
                scores.append((-score, _name(old) != _name(path), path, old))
    pairs: dict[bytes, bytes] = {}
    used: set[bytes] = set()
    for _, _, path, old in sorted(scores):
        if path not in pairs and old not in used:
            pairs[path] = old
            used.add(old)
    return pairs


def is_text(content: bytes) -> bool:
    if b"\0" in content:
        return False
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _lines(content: bytes) -> dict[bytes, int]:
    counts: dict[bytes, int] = defaultdict(int)
    for line in content.splitlines(keepends=True):
        counts[line] += 1
    return counts
