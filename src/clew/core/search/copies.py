"""One hit for what several sessions hold.

Programs copy texts: the answer of a subagent is the result of a call in its parent, its task is an argument
of that call; a fork that a program made, or a session that it resumed in a new file, begins with the
messages of its base. Who searches wants to see such a text once: where it was said.

What is compared are the hits of one page, in the order in which they come: a copy whose original lies on
another page is shown.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import msgspec

from clew.backends.contract import Reader
from clew.core.log import checks
from clew.core.log.records import COPIED_FROM, agent_of, parent_of
from clew.core.log.rows import SessionRow
from clew.core.messages.search_text import Searched, TextPlace
from clew.core.messages.words import Query, flat
from clew.errors import CorruptError


class Ties(NamedTuple):
    """What a session says of others."""

    parent: str | None
    """It is a subagent of this one."""
    base: str | None
    """Its program copied its beginning from this one."""
    is_foreign: bool
    """A program or a framework wrote it: its times are those of that program."""


_NONE = Ties(None, None, False)


class Candidate(msgspec.Struct, eq=False):
    """A hit of a page, as long as no better one says the same."""

    place: TextPlace
    session: SessionRow
    text: Searched
    in_tool: bool
    copies: int = 0
    """Hits that were passed over for this one."""


class Copies:
    """The candidates of one page."""

    def __init__(self, reader: Reader, query: Query) -> None:
        self._reader = reader
        self._query = query
        self._ties: dict[int, Ties] = {}
        self._same: defaultdict[tuple[int, str, str], list[Candidate]] = defaultdict(list)
        self._in: defaultdict[str, list[Candidate]] = defaultdict(list)
        """By the id of the session that shows them."""
        self._below: defaultdict[str, list[Candidate]] = defaultdict(list)
        """By the id of the session that they are in a subagent of."""

    def add(self, new: Candidate, page: list[Candidate]) -> bool:
        """Put a hit on the page, or count it with the one that says the same; one that it replaces is
        taken off the page. False: the page did not get longer."""
        beside = self._copy_of(new) or self._told_in(new)
        if beside is None:
            self._keep(new, page)
            return True
        if not self._is_rather(new, beside):
            beside.copies += 1
            return False
        new.copies = beside.copies + 1
        page.remove(beside)
        self._forget(beside)
        self._keep(new, page)
        return False

    def _keep(self, one: Candidate, page: list[Candidate]) -> None:
        page.append(one)
        for group in self._groups(one):
            group.append(one)

    def _forget(self, one: Candidate) -> None:
        for group in self._groups(one):
            group.remove(one)

    def _groups(self, one: Candidate) -> list[list[Candidate]]:
        parent = self._of(one.session).parent
        found = [self._same[one.text], self._in[one.session.id]]
        return found if parent is None else [*found, self._below[parent]]

    def _of(self, session: SessionRow) -> Ties:
        if session.sid not in self._ties:
            self._ties[session.sid] = self._read(session)
        return self._ties[session.sid]

    def _read(self, session: SessionRow) -> Ties:
        try:
            metadata = checks.metadata(session.id, self._reader.get_details(session.sid))
        except (KeyError, CorruptError):
            return _NONE
        base = metadata.get(COPIED_FROM)
        is_foreign = agent_of(metadata) is not None
        return Ties(parent_of(metadata), base if isinstance(base, str) else None, is_foreign)

    # -- the same message in another session

    def _copy_of(self, new: Candidate) -> Candidate | None:
        return next((old for old in self._same[new.text] if self._is_copy(new, old)), None)

    def _is_copy(self, one: Candidate, other: Candidate) -> bool:
        """Equal messages: at one place of a session and its copy, or at the same moment of a program."""
        if one.session.sid == other.session.sid:
            return False  # it was said twice
        ours, theirs = self._of(one.session), self._of(other.session)
        is_same_time = one.place.time == other.place.time
        if is_same_time and ours.is_foreign and theirs.is_foreign:
            return True
        is_related = other.session.id == ours.base or one.session.id == theirs.base
        is_related = is_related or (ours.base is not None and ours.base == theirs.base)
        return is_related and (is_same_time or one.place.position == other.place.position)

    # -- what a subagent was told, and answered

    def _told_in(self, new: Candidate) -> Candidate | None:
        if new.in_tool:
            return next((old for old in self._below[new.session.id] if self._is_quoted(old, new)), None)
        parent = self._of(new.session).parent
        if parent is None:
            return None
        return next((old for old in self._in[parent] if old.in_tool and self._is_quoted(new, old)), None)

    def _is_quoted(self, said: Candidate, call: Candidate) -> bool:
        """Whether a call of a tool, or its result, is found only for what was said in a subagent."""
        words = said.text.said.strip()
        if said.in_tool or not words or words not in call.text.tool:
            return False
        rest = f"{call.text.said}\n{call.text.tool.replace(words, chr(10))}"
        return not self._query.matches(flat(rest))

    # -- which of two is shown

    def _is_rather(self, new: Candidate, old: Candidate) -> bool:
        """What was said comes before its quotation in a call, the base before its copies."""
        if new.in_tool != old.in_tool:
            return old.in_tool
        return self._of(old.session).base is not None and (
            self._of(new.session).base is None or self._of(old.session).base == new.session.id
        )
