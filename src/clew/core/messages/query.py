"""What somebody is looking for: a query as text, and as terms."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from clew.core.messages.words import words_in
from clew.errors import InvalidQueryError

MOST_TERMS: Final = 64
LONGEST_QUERY: Final = 10_000
SHOWN: Final = 60
_TERM: Final = re.compile(r'(-?)(?:"([^"]*)"?|([^\s"]+))(\*?)')


class Term(msgspec.Struct, frozen=True):
    """Words that stand behind one another; of the last one maybe only the beginning."""

    words: tuple[str, ...]
    prefix: bool = False

    @property
    def needle(self) -> str:
        """What stands in the flat form of a text, with a space before and behind it, that has this term."""
        return f" {' '.join(self.words)}{'' if self.prefix else ' '}"


class Query(msgspec.Struct, frozen=True):
    """A text matches if it has all of `wanted` and none of `unwanted`."""

    wanted: tuple[Term, ...]
    unwanted: tuple[Term, ...] = ()

    def matches(self, flat: str) -> bool:
        """Whether a text matches whose flat form this is (`flat`)."""
        text = f" {flat} "
        return all(term.needle in text for term in self.wanted) and not any(
            term.needle in text for term in self.unwanted
        )


def parse(text: str) -> Query:
    """Words, "phrases", prefix*, -exclude. There is no other syntax: what looks like one is text."""
    if not isinstance(text, str):
        raise InvalidQueryError(f"a query is text, not {type(text).__name__}")
    if len(text) > LONGEST_QUERY:
        raise InvalidQueryError(f"the query has {len(text)} characters; at most {LONGEST_QUERY} are allowed")
    wanted: list[Term] = []
    unwanted: list[Term] = []
    for minus, phrase, word, star in _TERM.findall(text):
        is_prefix = bool(star) or word.endswith("*")
        words = tuple(found.word for found in words_in(phrase or word))
        if words:
            (unwanted if minus else wanted).append(Term(words, is_prefix))
    if not wanted:
        raise InvalidQueryError(f"there is no word to look for in {_shown(text)}")
    if len(wanted) + len(unwanted) > MOST_TERMS:
        raise InvalidQueryError(f"a query has at most {MOST_TERMS} words and phrases: {_shown(text)}")
    return Query(_each_once(wanted), _each_once(unwanted))


def _each_once(terms: list[Term]) -> tuple[Term, ...]:
    return tuple(dict.fromkeys(terms))


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")
