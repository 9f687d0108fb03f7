"""Every SQL statement about the words of entries: made of constants only, every value a parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from clew.core.messages.search_text import TextQuery
    from clew.core.messages.words import Term

SLOT_BITS: Final = 17
NUMBERS: Final = (1 << SLOT_BITS) - 1
MICROSECONDS: Final = 6
"""A slot is so many bits of the time: 64 microseconds."""
FEW_BRANCHES: Final = 100
"""So many are looked for in the index of words; of more, each hit is asked whether it is on one of them."""
LAST_SLOT: Final = (1 << (63 - SLOT_BITS)) - 1

UNSEARCHED: Final = (
    "SELECT DISTINCT tree FROM sessions LEFT JOIN search_sessions AS seen ON seen.sid = sessions.sid"
    " WHERE seen.sid IS NULL OR seen.updated <> sessions.updated OR seen.position <> sessions.position"
    " OR seen.branch <> sessions.branch OR seen.moves <> sessions.moves"
)
DATA_VERSION: Final = "PRAGMA data_version"
SEARCHED_UPTO: Final = "SELECT position FROM search_branches WHERE branch = ?"
SET_UPTO: Final = (
    "INSERT INTO search_branches VALUES (?, ?) ON CONFLICT DO UPDATE SET position = excluded.position"
)
SET_SEARCHED: Final = (
    "INSERT OR REPLACE INTO search_sessions SELECT ?1, ?2, ?3, ?4, ?5"
    " WHERE EXISTS (SELECT 1 FROM sessions WHERE sid = ?1)"
)
LAST_OF_SLOT: Final = "SELECT max(place) FROM search_entries WHERE place BETWEEN ? AND ?"
PLACE_OF: Final = "SELECT place FROM search_entries WHERE key = ?"
PLACES: Final = "SELECT place FROM search_entries WHERE key BETWEEN ? AND ? ORDER BY place"
ADD_PLACE: Final = "INSERT INTO search_entries VALUES (?, ?)"
ADD_WORDS: Final = "INSERT INTO search_words (rowid, said, tool, home) VALUES (?, ?, ?, ?)"
DROP_PLACE: Final = "DELETE FROM search_entries WHERE place = ?"
DROP_WORDS: Final = "DELETE FROM search_words WHERE rowid = ?"
DROP_UPTO: Final = "DELETE FROM search_branches WHERE branch = ?"
LOWER_UPTO: Final = "UPDATE search_branches SET position = min(position, ?2) WHERE branch = ?1"
DROP_SEARCHED: Final = "DELETE FROM search_sessions WHERE sid = ?"
FORGET_TREE: Final = (
    "DELETE FROM search_sessions WHERE sid IN (SELECT sid FROM sessions WHERE tree ="
    " (SELECT tree FROM branches WHERE branch = ?))"
)
# Words that were deleted stay in the index until it is merged; this merges all of it.
MERGE: Final = "INSERT INTO search_words (search_words) VALUES ('optimize')"

_FIND: Final = (
    "SELECT time, search_entries.key FROM search_words"
    " CROSS JOIN search_entries ON place = search_words.rowid"
    " CROSS JOIN entries ON entries.key = search_entries.key"
)


def slot_of(time: int) -> int:
    return min(max(time, 0) >> MICROSECONDS, LAST_SLOT)


def finding(wanted: TextQuery, before: int | None) -> tuple[str, list[Any]]:
    """The statement for a query; `before`: only places below this one."""
    pieces = ["search_words MATCH ?"]
    bindings: list[Any] = [expression(wanted)]
    if wanted.since is not None:
        pieces.append("search_words.rowid >= ?")
        bindings.append(slot_of(wanted.since) << SLOT_BITS)
    if wanted.until is not None:
        end = (slot_of(wanted.until) << SLOT_BITS) + NUMBERS + 1
        before = end if before is None else min(end, before)
    if before is not None:
        pieces.append("search_words.rowid < ?")
        bindings.append(min(before, 2**63 - 1))
    if wanted.branches is not None and len(wanted.branches) > FEW_BRANCHES:
        import msgspec

        pieces.append("search_entries.key >> 32 IN (SELECT value FROM json_each(?))")
        bindings.append(msgspec.json.encode(sorted(wanted.branches)).decode())
    bindings.append(wanted.limit)
    return f"{_FIND} WHERE {' AND '.join(pieces)} ORDER BY search_words.rowid DESC LIMIT ?", bindings


def home_words(branch: int, role: int) -> str:
    return f"b{branch} r{role}"


def expression(wanted: TextQuery) -> str:
    """The query in the words of FTS5. A term's words hold neither quotes nor spaces."""
    query = wanted.query
    text = f"({' AND '.join(map(_phrase, query.wanted))})"
    if query.unwanted:
        text = f"({text} NOT ({' OR '.join(map(_phrase, query.unwanted))}))"
    pieces = [f"{'{said tool}' if wanted.tools else 'said'} : {text}"]
    if wanted.role is not None:
        pieces.append(f'home : "r{wanted.role}"')
    if wanted.branches is not None and len(wanted.branches) <= FEW_BRANCHES:
        homes = (f'home : "b{branch}"' for branch in sorted(wanted.branches))
        pieces.append(f"({' OR '.join(homes)})")
    return " AND ".join(pieces)


def _phrase(term: Term) -> str:
    return f'"{" ".join(term.words)}"{" *" if term.prefix else ""}'
