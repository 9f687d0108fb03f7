"""Words: what a text is searched by, and the queries that are made of them.

A word is a run of letters and digits, in lower case, without accents. An identifier is its parts:
`getUserName`, `user_name` and `src/user.name` are found by `user`, by `name` and by `userName`; one in
camel case also by its letters run together. Scripts that put no spaces between words are taken letter
by letter, so that any part of them is found.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

import msgspec

from clew.errors import InvalidQueryError

LONGEST: Final = 200
"""Of a longer word, such as an image in base64, the beginning counts."""
_LONGEST_IDENTIFIER: Final = 80
_SLICE: Final = 1 << 20

# Thai, Lao, Burmese, Khmer; kana; Han; Hangul.
_LETTERWISE: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_FIRST_LETTERWISE: Final = "\u0e00"
_ACCENTS: Final = "\u0300-\u036f"
_RUN: Final = rf"[^\W_{_LETTERWISE}]+"
_ASCII_WORD: Final = re.compile("[A-Za-z0-9]+")
_PLAIN_WORD: Final = re.compile("[a-z0-9]+")
_CAMEL: Final = re.compile("[a-z0-9][A-Z]|[A-Z][A-Z][a-z]")
_KINDS: Final = bytes(
    ord("a" if chr(code).islower() else "A" if chr(code).isupper() else "0" if chr(code).isdigit() else " ")
    if 0 < code < 128
    else code
    for code in range(256)
)
"""What each ASCII character is: a small letter, a capital, a digit, or none of them."""
_HUMPS: Final = (b"aA", b"0A", b"AAa")
"""The same as `_CAMEL`, among the kinds of characters."""
_SAME: Final = bytes.maketrans(b"A0", b"aa")
_TOO_LONG: Final = b"a" * (LONGEST + 1)
_PART: Final = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")


@cache
def _any_word() -> re.Pattern[str]:
    """In all scripts. It takes longer to compile than a search for plain words takes."""
    return re.compile(rf"[{_LETTERWISE}](?<=\w)|{_RUN}(?:[{_ACCENTS}]+(?:{_RUN})?)*")


def _word(text: str) -> re.Pattern[str]:
    """What finds the words of a text."""
    return _ASCII_WORD if text.isascii() else _any_word()


class Word(NamedTuple):
    """A word and where in its text it stands."""

    word: str
    start: int
    end: int


def is_plain(text: str) -> bool:
    """Whether its words are its runs of ASCII letters and digits, and no more need be known of it."""
    if not text.isascii():
        return False
    kinds = text.encode().translate(_KINDS)
    # A few looks for bytes take a seventh of the time of one pattern for all of it.
    return not (
        b"\0" in kinds or any(hump in kinds for hump in _HUMPS) or _TOO_LONG in kinds.translate(_SAME)
    )


def words_in(text: str) -> Iterator[Word]:
    """The words in the order in which they stand."""
    for match in _word(text).finditer(text):
        yield from _parts(match[0], match.start())


def _parts(found: str, start: int) -> Iterator[Word]:
    if _is_camel(found):
        for part in _PART.finditer(found):
            yield Word(part[0].lower(), start + part.start(), start + part.end())
    else:
        yield Word(fold(found), start, start + len(found))


def _is_camel(found: str) -> bool:
    return len(found) <= _LONGEST_IDENTIFIER and found.isascii() and _CAMEL.search(found) is not None


def fold(word: str) -> str:
    """The form in which a word is compared."""
    if word.isascii():
        return word[:LONGEST].lower()
    if len(word) == 1 and word >= _FIRST_LETTERWISE:
        return word
    # Some letters have their capitals only once they came apart, and some come apart once they are small.
    apart = unicodedata.normalize("NFKD", word[:LONGEST]).casefold()
    letters = unicodedata.normalize("NFKD", apart)
    # Some signs come apart into letters with a space or a bracket: they must stay one word.
    kept = "".join(letter for letter in letters if letter.isalnum())
    return unicodedata.normalize("NFC", kept)[:LONGEST] or word[0]


def run_together(text: str) -> list[str]:
    """The identifiers in camel case, each as one word."""
    return [found.lower() for found in _word(text).findall(text) if _is_camel(found)]


def flat(text: str) -> str:
    """The words of a text, with spaces between, those of `run_together` behind them: two texts of which
    this is equal are found by the same queries."""
    return " ".join(part for part in _flat_slices(text) if part)


def _flat_slices(text: str) -> Iterator[str]:
    """A slice at a time: the words of a text of many megabytes would take far more memory than it does."""
    together: list[str] = []
    start = 0
    while start < len(text):
        end = _end_of_slice(text, start)
        piece = text[start:end]
        if is_plain(piece):
            yield " ".join(_PLAIN_WORD.findall(piece.lower()))
        else:
            yield " ".join(_flat_words(piece, together))
        start = end
    yield " ".join(together)


def _flat_words(text: str, together: list[str]) -> Iterator[str]:
    """As `words_in`, without places, which is what takes time there; and what `run_together` finds."""
    for found in _word(text).findall(text):
        if not found.isascii() or len(found) > _LONGEST_IDENTIFIER:
            yield fold(found)
        elif found.islower() or found[1:].islower() or _CAMEL.search(found) is None:
            yield found.lower()
        else:
            together.append(found.lower())
            yield from (part.lower() for part in _PART.findall(found))


def _end_of_slice(text: str, start: int) -> int:
    """Between two words, if there is such a place."""
    end = start + _SLICE
    if end >= len(text):
        return len(text)
    for at in range(end, max(start, end - LONGEST), -1):
        if text[at - 1].isspace():
            return at
    return end


# -- a query: as text, and as terms

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

    def matches_text(self, text: str) -> bool:
        """Whether a text matches. That one in ASCII lacks a word is seen before it is taken apart."""
        if text.isascii():
            lower = text.lower()
            if not all(word in lower for term in self.wanted for word in term.words):
                return False
        return self.matches(flat(text))


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
