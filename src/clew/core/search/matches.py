"""The entries that match a query, newest first: by their text, or by a note beside them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec

from clew.backends.contract import Reader
from clew.core.conversation.annotations import Note, all_notes
from clew.core.messages.search_text import TextPlace, TextQuery

MOST_AT_ONCE: Final = 2000

FindTexts = Callable[[TextQuery], list[TextPlace]]


class Match(NamedTuple):
    """The place of an entry that matches, and by what it does."""

    place: TextPlace
    by_text: bool
    notes: tuple[Note, ...]
    """The notes beside it that match: what came with it, and what sessions noted."""


def matches(reader: Reader, find_texts: FindTexts, query: TextQuery) -> Iterator[Match]:
    """Each entry once. `query.limit` is the size of the first page of texts. Neither the role nor the time
    of an entry with a note is compared here."""
    notes: dict[TextPlace, list[Note]] = {}
    for note in _notes(reader, query):
        notes.setdefault(note.place, []).append(note)
    places = heapq.merge(
        ((place, True) for place in _texts(find_texts, query)),
        ((place, False) for place in sorted(notes, reverse=True)),
        reverse=True,
    )
    for place, ways in groupby(places, key=itemgetter(0)):
        yield Match(place, any(is_text for _, is_text in ways), tuple(notes.get(place, ())))


def _notes(reader: Reader, query: TextQuery) -> Iterator[Note]:
    """All of them are looked at: there are far fewer than messages."""
    for note in all_notes(reader):
        is_behind = query.before is None or note.place < query.before
        is_there = query.branches is None or note.place.branch in query.branches
        if is_behind and is_there and query.query.matches_text(note.text):
            yield note


def _texts(find_texts: FindTexts, query: TextQuery) -> Iterator[TextPlace]:
    """A page at a time; the first ones are small."""
    while True:
        places = find_texts(query)
        yield from places
        if len(places) < query.limit:
            return
        limit = min(query.limit * 4, MOST_AT_ONCE)
        query = msgspec.structs.replace(query, before=places[-1], limit=limit)
