"""What a fork or a rewind would do, said before it is done."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from rich.text import Text

import clew
from clew.cli.commands.move import place_words
from clew.cli.entries import first_words, who
from clew.cli.places import path_to
from clew.cli.safe import one_line
from clew.cli.text import count

SHOWN: Final = 8
WORDS: Final = 200


def rewind_lines(session: clew.Session, tree: clew.Tree, place: clew.Head) -> Iterator[Text]:
    """Where the session goes, and what it leaves behind."""
    head = tree.heads[session.id]
    shared = last_shared(tree, head, place)
    yield Text(f"Rewind {one_line(session.id)} from {place_words(head)} to {place_words(place)}?", "bold")
    left, joined = head.position - shared, place.position - shared
    if left:
        yield Text(f"Left behind, but kept: {count(left, 'entry')}. u brings them back.")
    after = shared if shared >= 0 else None
    for entry in islice(session.entries(after=after, damaged="skip"), min(left, SHOWN)):
        yield _said(entry)
    if left > SHOWN:
        yield Text(f"  … and {left - SHOWN:,} more", "italic")
    if joined:
        yield Text(f"Comes in from another branch: {count(joined, 'entry')}.")
    yield Text("Files stay as they are; clew rewind --files takes them along.", "dim")


def fork_lines(session: clew.Session, place: clew.Head, entry: clew.Entry | None) -> Iterator[Text]:
    yield Text(f"Fork {one_line(session.id)} at {place_words(place)}:", "bold")
    if entry is not None:
        yield _said(entry)


def last_shared(tree: clew.Tree, a: clew.Head, b: clew.Head) -> int:
    """The last position that the ways to two places have in common; -1: none."""
    ends = {branch: last for branch, _, last in path_to(tree, a)}
    shared = [min(last, ends[branch]) for branch, _, last in path_to(tree, b) if branch in ends]
    return max(shared, default=-1)


def _said(entry: clew.Entry) -> Text:
    words = one_line(first_words(entry)[: 2 * WORDS])[:WORDS]
    line = Text(f"  {entry.position:>4}  {one_line(who(entry)):<9}  {words}")
    line.no_wrap, line.overflow = True, "ellipsis"
    return line
