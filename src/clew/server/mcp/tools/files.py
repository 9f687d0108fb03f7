"""`diff_files`: what changed in the files between two checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from clew.errors import InvalidError, NotFoundError
from clew.files.diff.text import unified
from clew.model.files import FileDiff, Snapshot
from clew.server.mcp.budget import TOKENS, cut_to_tokens, in_list, room_in
from clew.server.mcp.places import unescaped
from clew.server.mcp.schema import Answer, Arguments, Tool
from clew.server.mcp.text import Text
from clew.server.mcp.tools.read import PlaceText
from clew.server.mcp.tools.search import Cursor
from clew.server.mcp.view import Place, View
from clew.store import Store

PAGE: Final = 10
"""Files that are compared at once."""
MOST_FILES: Final = 10**9
PATH: Final = 300
"""Letters of a path."""


class DiffArguments(Arguments, frozen=True, kw_only=True):
    a: PlaceText
    b: (
        Annotated[str, Meta(max_length=4096, description="default: the newest files of a's session")] | None
    ) = None
    path: Annotated[str, Meta(max_length=4096, description="a file, or a folder")] | None = None
    cursor: Cursor | None = None
    max_tokens: Annotated[int, Meta(ge=500, le=20_000)] = TOKENS


class ChangedFile(msgspec.Struct, kw_only=True):
    path: str
    status: str
    old_path: str | None
    diff: str | None
    truncated: bool


class DiffAnswer(Answer, kw_only=True):
    files: list[ChangedFile]
    next: str | None = None


def diff_files(view: View, args: DiffArguments) -> DiffAnswer:
    a = view.place(args.a)
    b = Place(a.session, None) if args.b is None else view.place(args.b)
    sides = _Sides(view.store, view.text(), snapshot_of(view.store, a), snapshot_of(view.store, b))
    answer = DiffAnswer(files=[], next=str(MOST_FILES))
    room, number = room_in(answer, args.max_tokens), _number(args.cursor)
    answer.next = None
    for one in sides.changes(number, unescaped(args.path) if args.path is not None else None):
        if one is not None:
            told = sides.told(one)
            if not answer.files:
                _cut_to(told, room)
            room -= in_list(told)
            if room < 0 and answer.files:
                answer.next = str(number)
                break
            answer.files.append(told)
        number += 1
    answer.redacted = sides.text.redacted
    return answer


def _number(cursor: str | None) -> int:
    """How many files were told, or passed over, before this page."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and int(cursor) <= MOST_FILES):
        raise InvalidError(f"{cursor!r} is no `next` of diff_files; leave out `cursor` to begin")
    return int(cursor)


def snapshot_of(store: Store, place: Place) -> Snapshot:
    """The files at a place. InvalidError: none were kept there."""
    from clew.files.rewind import snapshot_at  # 2 MB, and 20 ms of the start of `clew mcp`

    session, point = place
    try:
        with session._look() as (reader, row):
            id = snapshot_at(reader, row, session.head if point is None else point)
        return store.get_snapshot(id)  # which is an id, and never a directory of this machine
    except NotFoundError as error:
        raise InvalidError(
            f"{session.id!r} has no checkpoint with files there: {error}; session_overview lists them"
        ) from error


class _Sides(NamedTuple):
    """Two snapshots, and how their differences are told."""

    store: Store
    text: Text
    a: Snapshot
    b: Snapshot

    def changes(self, number: int, path: str | None) -> Iterator[FileDiff | None]:
        """What differs from this number on; None: it is not what was asked for."""
        after = None
        if number:
            passed = self.store.diff(self.a, self.b, limit=number)
            after = passed[-1].path if passed else None
        while True:
            page = self.store.diff(self.a, self.b, text=True, after=after, limit=PAGE)
            yield from (one if _is_meant(one, path) else None for one in page)
            if len(page) < PAGE:
                return
            after = page[-1].path

    def told(self, one: FileDiff) -> ChangedFile:
        return ChangedFile(
            path=self.text.path(one.path, PATH),
            status=one.status,
            old_path=None if one.old_path is None else self.text.path(one.old_path, PATH),
            diff=None if one.text is None else self._diff(one),
            truncated=False,
        )

    def _diff(self, one: FileDiff) -> str:
        """Compared anew without the secrets, if one is in the files: of a key of many lines the diff may have
        some in the middle, which are not known to be of a key."""
        old = None if one.status == "added" else one.old_path or one.path
        new = None if one.status == "removed" else one.path
        before, after = self._content(self.a, old), self._content(self.b, new)
        was, now = self.text.plain(before), self.text.plain(after)
        if not one.text or (was, now) == (before, after):
            return self.text.clean(one.text or "")
        return self.text.clean(unified(was, now, old, new)) or "only secrets differ"

    def _content(self, snapshot: Snapshot, path: str | None) -> str:
        return "" if path is None else self.store.read_file(snapshot, path).decode("utf-8", "replace")


def _is_meant(one: FileDiff, path: str | None) -> bool:
    if path is None:
        return True
    folder = path.strip("/")
    return any(each == folder or each.startswith(f"{folder}/") for each in (one.path, one.old_path) if each)


def _cut_to(told: ChangedFile, room: int) -> None:
    """The first file of an answer may be longer than all of it."""
    if told.diff is not None and in_list(told) > room:
        spare = room - in_list(msgspec.structs.replace(told, diff=""))
        told.diff, told.truncated = cut_to_tokens(told.diff, spare)


DIFF_FILES: Final = Tool(
    name="diff_files",
    description="Unified diff of the files between two places that have checkpoints with files.",
    arguments=DiffArguments,
    answer=DiffAnswer,
    run=diff_files,
    needs="files",
)
