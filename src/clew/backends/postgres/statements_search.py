"""The SQL statements about the words of entries.

Made of constants only, every value a parameter; {s} is the quoted schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from clew.core.messages.query import Query, Term
    from clew.core.messages.texts import TextQuery, TextRow

SLICE_WORDS: Final = 5000
SLICE_BYTES: Final = 400_000
"""Of a tsvector, which holds a mebibyte."""

UNSEARCHED: Final = (
    "SELECT DISTINCT tree FROM {s}.sessions LEFT JOIN {s}.texts_sessions AS seen USING (home, sid)"
    " WHERE (seen.updated, seen.branch, seen.position, seen.moves) IS DISTINCT FROM"
    " (sessions.updated, sessions.branch, sessions.position, sessions.moves)"
)
SEARCHED_UPTO: Final = "SELECT position FROM {s}.texts_branches WHERE home = $1 AND branch = $2"
SET_UPTO: Final = (
    "INSERT INTO {s}.texts_branches (home, branch, position) VALUES ($1, $2, $3)"
    " ON CONFLICT (home, branch) DO UPDATE SET position = excluded.position"
)
SET_SEARCHED: Final = (
    "INSERT INTO {s}.texts_sessions (home, sid, updated, branch, position, moves)"
    " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (home, sid) DO UPDATE SET"
    " (updated, branch, position, moves)"
    " = (excluded.updated, excluded.branch, excluded.position, excluded.moves)"
)
ADD_TEXT: Final = (
    "INSERT INTO {s}.texts (home, branch, position, slice, slices, time, role, words)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, array_to_tsvector($8::text[])) ON CONFLICT DO NOTHING"
)
DROP_TEXTS: Final = "DELETE FROM {s}.texts WHERE home = $1 AND branch = $2 AND position > $3"
ERASE_TEXTS: Final = "DELETE FROM {s}.texts WHERE home = $1 AND branch = $2 AND position = ANY($3)"
LOWER_UPTO: Final = (
    "UPDATE {s}.texts_branches SET position = least(position, $3) WHERE home = $1 AND branch = $2"
)
FORGET_TREE: Final = (
    "DELETE FROM {s}.texts_sessions WHERE home = $1 AND sid IN (SELECT sid FROM {s}.sessions"
    " WHERE home = $1 AND tree = (SELECT tree FROM {s}.branches WHERE home = $1 AND branch = $2))"
)
DROP_UPTO: Final = "DELETE FROM {s}.texts_branches WHERE home = $1 AND branch = $2"
DROP_SEARCHED: Final = "DELETE FROM {s}.texts_sessions WHERE home = $1 AND sid = $2"


def finding(wanted: TextQuery) -> tuple[str, list[Any]]:
    """The statement for a query; what it finds may lack what only a look at the text shows: see `is_sure`."""
    given: list[Any] = [
        expression(wanted.query, tools=wanted.tools),
        any_of(wanted.query, tools=wanted.tools),
    ]
    pieces: list[str] = []

    def piece(text: str, *values: Any) -> None:
        marks = []
        for value in values:
            given.append(value)
            marks.append(f"${len(given)}")
        pieces.append(text.format(*marks))

    if wanted.since is not None:
        piece("time >= {}", wanted.since)
    if wanted.until is not None:
        piece("time < {}", wanted.until)
    if wanted.before is not None:
        piece("(time, branch, position) < ({}, {}, {})", *wanted.before)
    if wanted.role is not None:
        piece("role = {}", wanted.role)
    if wanted.branches is not None:
        piece("branch = ANY({}::bigint[])", sorted(wanted.branches))
    also = "".join(f" AND {each}" for each in pieces)
    given.append(wanted.limit)
    columns = "SELECT time, branch, position, slices FROM {s}.texts"
    sql = (
        f"{columns} WHERE slices = 1 AND words @@ $1::text::tsquery{also}"
        f" UNION {columns} WHERE slices > 1 AND words @@ $2::text::tsquery{also}"
        f" ORDER BY time DESC, branch DESC, position DESC LIMIT ${len(given)}"
    )
    return sql, given


def is_sure(query: Query) -> bool:
    """Whether the words alone decide, and not where they stand."""
    return all(len(term.words) == 1 for term in (*query.wanted, *query.unwanted))


def expression(query: Query, *, tools: bool) -> str:
    """What every text that matches has, in the words of a tsquery."""
    pieces = [_words(term, tools) for term in query.wanted]
    pieces += [f"!({_words(term, tools)})" for term in query.unwanted if len(term.words) == 1]
    return " & ".join(pieces)


def any_of(query: Query, *, tools: bool) -> str:
    """What a slice of a text has that matches as a whole."""
    return " | ".join(f"({_words(term, tools)})" for term in _single_words(query))


def _single_words(query: Query) -> Iterator[Term]:
    from clew.core.messages.query import Term

    for term in query.wanted:
        yield Term(term.words[-1:], term.prefix)


def _words(term: Term, tools: bool) -> str:
    found = []
    for number, word in enumerate(term.words, 1):
        star = ":*" if term.prefix and number == len(term.words) else ""
        said, tool = f"'s{ascii_word(word)}'{star}", f"'t{ascii_word(word)}'{star}"
        found.append(f"({said} | {tool})" if tools else said)
    return " & ".join(found)


def ascii_word(word: str) -> str:
    """As a database of any encoding keeps it; the beginning of a word stays its beginning."""
    if word.isascii():
        return word
    return "".join(letter if letter.isascii() else f"_{ord(letter):06x}" for letter in word)


def slices_of(row: TextRow) -> list[list[str]]:
    """The words of a text, each once, as many together as a tsvector holds."""
    from clew.core.messages.words import flat

    words = [f"s{ascii_word(word)}" for word in dict.fromkeys(flat(row.said).split(" ")) if word]
    words += [f"t{ascii_word(word)}" for word in dict.fromkeys(flat(row.tool).split(" ")) if word]
    slices: list[list[str]] = [[]]
    size = 0
    for word in words:
        if len(slices[-1]) >= SLICE_WORDS or size + len(word) > SLICE_BYTES:
            slices.append([])
            size = 0
        slices[-1].append(word)
        size += len(word)
    return slices
