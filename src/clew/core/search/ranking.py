"""How well a text fits a query: alike on every backend, so that no index ranks by rules of its own."""

from __future__ import annotations

from typing import Final

from clew.core.messages.words import Query, flat

_SATURATION: Final = 1.2
_BY_LENGTH: Final = 0.75
_USUAL_LENGTH: Final = 60
"""Words of a message that is neither short nor long."""


def score(query: Query, said: str, tool: str = "") -> float:
    """Higher is better: many hits in few words, each term counting for itself (BM25 for texts that all have
    all terms, where how rare a term is makes no difference)."""
    text = f" {flat(said)} \n {flat(tool)} "
    length = text.count(" ")
    text = text.replace(" ", "  ")  # so that a word that stands twice is counted twice
    norm = _SATURATION * (1 - _BY_LENGTH + _BY_LENGTH * length / _USUAL_LENGTH)
    points = 0.0
    for term in query.wanted:
        count = text.count(f" {'  '.join(term.words)}{'' if term.prefix else ' '}")
        points += count * (_SATURATION + 1) / (count + norm)
    return round(points, 6)
