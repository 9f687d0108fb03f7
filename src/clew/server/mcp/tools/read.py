"""`read_session`: the messages around a place."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from clew.core.conversation import points
from clew.core.conversation.points import Point
from clew.core.log.ids import MAX_POSITION
from clew.core.log.tree import locate
from clew.errors import CorruptEntryError
from clew.model import Entry, Head
from clew.server.mcp.budget import TOKENS, cut_to_tokens, in_list, room_in
from clew.server.mcp.entries import Role, ShownEntry, Teller, Tools, role_of
from clew.server.mcp.places import place_in
from clew.server.mcp.schema import Answer, Arguments, Tool
from clew.server.mcp.view import View
from clew.session import Session

MOST_READ: Final = 1000
"""Entries that are looked at in each direction, to find those of the roles that are asked for."""
AHEAD: Final = 100
"""Entries behind the last one in which the results of its calls are looked for."""

PlaceText = Annotated[
    str, Meta(min_length=1, max_length=4096, description="ID (its end), ID@entry, ID@12, ID@checkpoint")
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
    left_out: int = 0
    """Damaged entries between `previous` and `next`, which cannot be read."""


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
    damage: list[CorruptEntryError] = []
    window = _around(session, point, args, teller, damage)
    told = [teller.tell(entry, args.max_chars) for entry in window.entries]
    longest = max((place_in(info.id, entry.id) for entry in _all(window)), key=len, default="")
    answer = ReadAnswer(title=text.title(info.title), entries=[], previous=longest, next=longest)
    first, last = fitted(told, window.anchor, room_in(answer, args.max_tokens))
    previous = window.entries[first - 1] if first else window.previous
    following = window.entries[last] if last < len(told) else window.following
    answer.entries = told[first:last]
    answer.previous = None if previous is None else place_in(info.id, previous.id)
    answer.next = None if following is None else place_in(info.id, following.id)
    low = -1 if previous is None else previous.position
    high = MAX_POSITION + 1 if following is None else following.position
    answer.left_out = len({one.position for one in damage if low < one.position < high})
    answer.redacted = text.redacted
    return answer


def _all(window: _Window) -> Iterator[Entry]:
    return filter(None, (*window.entries, window.previous, window.following))


def fitted(told: list[ShownEntry], anchor: int, room: int) -> tuple[int, int]:
    """Which of the entries are told in so many tokens: from, to. The one at the anchor always is, and is
    cut if need be; those before it give way first."""
    if anchor >= len(told):
        return anchor, anchor
    _cut_to(told[anchor], room)
    room -= in_list(told[anchor])
    first, last = anchor, anchor + 1
    while last < len(told) and in_list(told[last]) <= room:
        room -= in_list(told[last])
        last += 1
    while first and in_list(told[first - 1]) <= room:
        room -= in_list(told[first - 1])
        first -= 1
    return first, last


def _cut_to(one: ShownEntry, room: int) -> None:
    if in_list(one) > room:
        spare = room - in_list(msgspec.structs.replace(one, text=""))
        one.text, one.truncated = cut_to_tokens(one.text, spare)


def _around(
    session: Session,
    point: Point | None,
    args: ReadArguments,
    teller: Teller,
    damage: list[CorruptEntryError],
) -> _Window:
    def read(count: int, **where: Any) -> _Chosen:
        entries = session.entries(**where, damaged="skip", on_damage=damage.append)
        return _Chosen(entries, count, args.roles, teller)

    if point is None:
        back = read(args.before + args.after + 1, newest_first=True)
        entries = back.entries[::-1]
        return _Window(entries, max(len(entries) - 1, 0), back.left)
    anchor, at = _stand(session, point)
    if anchor is None:  # before the first entry
        start = read(args.after + 1)
        return _Window(start.entries, 0, None, start.left)
    here = read(1, at=anchor, last=1)
    back = read(args.before, at=at, before=anchor, newest_first=True)
    forth = read(args.after, at=at, after=anchor)
    entries = [*back.entries[::-1], *here.entries, *forth.entries]
    return _Window(entries, len(back.entries), back.left, forth.left)


class _Chosen:
    """The first entries of the roles that are asked for. Of the others only the results of tools are kept,
    for the lines of their calls."""

    def __init__(self, entries: Iterator[Entry], count: int, roles: Collection[Role], teller: Teller) -> None:
        self.entries: list[Entry] = []
        self.left: Entry | None = None
        """Where to go on: the next entry of these roles, or the first that was not looked at."""
        for number, entry in enumerate(entries):
            teller.hear(entry)
            is_one = role_of(entry) in roles
            if number >= MOST_READ or (is_one and len(self.entries) == count):
                self.left = entry
                break
            if is_one:
                self.entries.append(entry)
        for entry in islice(entries, AHEAD):
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
