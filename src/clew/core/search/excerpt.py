"""The part of a text around a hit, with the hits in it marked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from clew.core.messages.words import Term, Word, run_together, words_in

WORDS_BEFORE: Final = 8
WORDS: Final = 30
LONGEST: Final = 400
"""Characters of an excerpt, at most."""
LONG: Final = 4000


class Excerpt(NamedTuple):
    text: str
    marks: tuple[tuple[int, int], ...]


def excerpt(text: str, terms: Sequence[Term]) -> Excerpt | None:
    """About 30 words around the first hit; None: there is no hit. Reads no further than that."""
    text = text[_before_first(text, terms) :]
    finder = _Finder(text, terms)
    before: deque[Word] = deque(maxlen=WORDS_BEFORE + max(len(term.words) for term in terms))
    words = words_in(text)
    hit: tuple[int, int] | None = None
    for word in words:
        before.append(word)
        hit = finder.hit_at_end(before)
        if hit is not None:
            break
    if hit is None:
        return None
    window = list(before)
    hits = [hit, *finder.hits_in(window)]
    for word in words:
        if len(window) >= WORDS or word.end - hit[0] > LONGEST:
            break
        window.append(word)
        another = finder.hit_at_end(window)
        if another is not None:
            hits.append(another)
    return _cut(text, window, hits)


def beginning(text: str) -> Excerpt:
    """The first words of a text, of which none is marked."""
    start = len(text) - len(text.lstrip())
    return Excerpt(text[start : start + LONGEST].rstrip(), ())


def _before_first(text: str, terms: Sequence[Term]) -> int:
    """A place between two words, some way before the first hit: what lies before it need not be looked at."""
    if len(text) < LONG or not text.isascii():
        return 0
    lower = text.lower()
    found = [at for term in terms if (at := lower.find(term.words[0])) >= 0]
    start = max(min(found, default=0) - LONGEST, 0)
    return max(text.rfind(" ", 0, start), text.rfind("\n", 0, start)) + 1


class _Finder:
    """Finds terms where their last word is."""

    def __init__(self, text: str, terms: Sequence[Term]) -> None:
        self._text = text
        self._terms = terms
        self._lasts = frozenset(term.words[-1] for term in terms if not term.prefix)
        self._beginnings = tuple(term.words[-1] for term in terms if term.prefix)

    def hit_at_end(self, words: Sequence[Word]) -> tuple[int, int] | None:
        """Where a term stands that ends with the last of these words."""
        last = words[-1]
        may_end = last.word in self._lasts or last.word.startswith(self._beginnings)
        is_part = len(words) > 1 and words[-2].end == last.start
        if not may_end and not is_part:
            return None  # nearly always
        for term in self._terms:
            count = len(term.words)
            tail = [words[index] for index in range(max(len(words) - count, 0), len(words))]
            if len(tail) == count and _agree(tail, term):
                return tail[0].start, last.end
            if count == 1 and is_part and (whole := _identifier(self._text, words, term)):
                return whole
        return None

    def hits_in(self, words: Sequence[Word]) -> Iterator[tuple[int, int]]:
        for end in range(1, len(words) + 1):
            hit = self.hit_at_end(words[:end])
            if hit is not None:
                yield hit


def _agree(tail: Sequence[Word], term: Term) -> bool:
    if any(found.word != wanted for found, wanted in zip(tail[:-1], term.words[:-1], strict=True)):
        return False
    last, wanted = tail[-1].word, term.words[-1]
    return last.startswith(wanted) if term.prefix else last == wanted


def _identifier(text: str, words: Sequence[Word], term: Term) -> tuple[int, int] | None:
    """An identifier in camel case that ends here and is the term when its parts are run together."""
    last = words[-1]
    if last.end < len(text) and text[last.end].isalnum():
        return None  # it goes on
    first = len(words) - 1
    while first and words[first - 1].end == words[first].start:
        first -= 1
    if first == len(words) - 1:
        return None
    start = words[first].start
    for whole in run_together(text[start : last.end]):
        if whole.startswith(term.words[0]) if term.prefix else whole == term.words[0]:
            return start, last.end
    return None


def _cut(text: str, window: list[Word], hits: Sequence[tuple[int, int]]) -> Excerpt:
    """The text of these words, with the marks of these hits, of which the first must be in it."""
    start = max(window[0].start, hits[0][0] - LONGEST // 2)
    end = min(max(window[-1].end, hits[0][1]), start + LONGEST)
    start, end = _whole_if_short(text, start, end)
    marks: list[tuple[int, int]] = []
    for first, last in sorted(set(hits)):
        if start <= first < end and (not marks or first - start >= marks[-1][1]):
            marks.append((first - start, min(last, end) - start))
    return Excerpt(text[start:end], tuple(marks))


def _whole_if_short(text: str, start: int, end: int) -> tuple[int, int]:
    """With the punctuation at the ends, when nothing else is there."""
    if start <= 8 and not any(map(str.isalnum, text[:start])):
        start = 0
    if len(text) - end <= 8 and not any(map(str.isalnum, text[end:])):
        end = len(text)
    return start, end
