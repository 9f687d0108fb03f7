"""`read_session`: the messages around a place."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.core.conversation import points
from clew.core.conversation.points import Point
from clew.core.log.tree import locate
from clew.model import Entry, Head
from clew.server.mcp.budget import ROOM, TOKENS, cut_to_tokens, tokens
from clew.server.mcp.entries import Role, ShownEntry, Teller, Tools, role_of
from clew.server.mcp.schema import Answer, Arguments, Tool
from clew.server.mcp.view import View, place_in
from clew.session import Session

MOST_READ: Final = 1000
"""Entries that are looked at in each direction, to find those of the roles that are asked for."""
AHEAD: Final = 100
"""Entries behind the last one in which the results of its calls are looked for."""

PlaceText = Annotated[
    str, Meta(min_length=1, max_length=2000, description="ID (its end), ID@entry, ID@12, ID@checkpoint")
]


class ReadArguments(Arguments, frozen=True, kw_only=True):
    place: PlaceText
    before: Annotated[int, Meta(ge=0, le=50)] = 3
    after: Annotated[int, Meta(ge=0, le=100)] = 6
    roles: tuple[Role, ...] = ("user", "assistant")
    tools: Tools = "fold"
    max_chars: Annotated[int, Meta(ge=100, le=20_000, description="of an entry")] = 1500
    max_tokens: Annotated[int, Meta(ge=500, le=20_000)] = TOKENS


class ReadAnswer(Answer, kw_only=True):
    title: str | None
    entries: list[ShownEntry]
    previous: str | None = None
    """Where to read what came before: as `place`, with after=0."""
    next: str | None = None
    """Where to go on: as `place`, with before=0."""


class _Window(msgspec.Struct):
    """The entries around a place, oldest first, and those next to them."""

    entries: list[Entry]
    anchor: int
    """The index of the entry at the place, or of the first behind it."""
    previous: Entry | None = None
    following: Entry | None = None


def read_session(view: View, args: ReadArguments) -> ReadAnswer:
    session, point = view.place(args.place)
    text, info = view.text(), session.info
    teller = Teller(info, text, args.tools)
    window = _around(session, point, args, teller)
    told = [teller.tell(entry, args.max_chars) for entry in window.entries]
    first, last = fitted(told, window.anchor, args.max_tokens)
    previous = window.entries[first - 1] if first else window.previous
    following = window.entries[last] if last < len(told) else window.following
    return ReadAnswer(
        title=text.title(info.title),
        entries=told[first:last],
        previous=None if previous is None else place_in(info.id, previous.id),
        next=None if following is None else place_in(info.id, following.id),
        redacted=text.redacted,
    )


def fitted(told: list[ShownEntry], anchor: int, most: int) -> tuple[int, int]:
    """Which of the entries are told within the budget: from, to. The one at the anchor always is, and is cut
    if need be; those before it give way first."""
    room = most - ROOM
    if anchor < len(told) and tokens(told[anchor]) > room:
        one = told[anchor]
        spare = room - tokens(msgspec.structs.replace(one, text=""))
        one.text, _ = cut_to_tokens(one.text, spare)
        one.truncated = True
    first = last = anchor
    while last < len(told) and tokens(told[last]) <= room:
        room -= tokens(told[last])
        last += 1
    while first and tokens(told[first - 1]) <= room:
        room -= tokens(told[first - 1])
        first -= 1
    return first, last


def _around(session: Session, point: Point | None, args: ReadArguments, teller: Teller) -> _Window:
    read = partial(_Chosen, roles=args.roles, teller=teller)
    if point is None:
        back = read(session.entries(newest_first=True, damaged="skip"), args.before + args.after + 1)
        entries = back.entries[::-1]
        return _Window(entries, max(len(entries) - 1, 0), back.left)
    anchor, at = _stand(session, point)
    if anchor is None:  # before the first entry
        start = read(session.entries(damaged="skip"), args.after + 1)
        return _Window(start.entries, 0, None, start.left)
    here = read(session.entries(at=anchor, last=1, damaged="skip"), 1)
    back = read(session.entries(at=at, before=anchor, newest_first=True, damaged="skip"), args.before)
    forth = read(session.entries(at=at, after=anchor, damaged="skip"), args.after)
    entries = [*back.entries[::-1], *here.entries, *forth.entries]
    return _Window(entries, len(back.entries), back.left, forth.left)


class _Chosen:
    """The first entries of the roles that are asked for. Of the others only the results of tools are kept,
    for the lines of their calls."""

    def __init__(
        self, entries: Iterable[Entry], count: int, *, roles: Iterable[Role], teller: Teller
    ) -> None:
        source = iter(entries)
        self.entries: list[Entry] = []
        self.left: Entry | None = None
        """The first entry behind the last one that was chosen, if something is left to read."""
        passed: Entry | None = None
        for number, entry in enumerate(source):
            teller.hear(entry)
            if len(self.entries) == count or number == MOST_READ:
                self.left = passed or entry
                break
            if role_of(entry) in roles:
                self.entries.append(entry)
                passed = None
            elif passed is None:
                passed = entry
        for entry in islice(source, AHEAD):
            teller.hear(entry)


def _stand(session: Session, point: Point) -> tuple[Head | None, Head | None]:
    """The entry at a point, and the end of the path on which to read: None if that is the session's own."""
    with session._look() as (reader, row):
        branch, position = points.resolve(reader, row, point)
        if not branch or position < 0:
            return None, None
        uid = reader.get_branch(branch).uid
        anchor = Head(uid, position)
        if locate(points.path_of(reader, row.head), position) == branch:
            return anchor, None
        return anchor, Head(uid, reader.last_position(branch))


READ_SESSION: Final = Tool(
    name="read_session",
    description="Messages around a place. Go on with place=next, before=0.",
    arguments=ReadArguments,
    answer=ReadAnswer,
    run=read_session,
)
