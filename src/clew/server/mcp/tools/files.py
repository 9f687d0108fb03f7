"""`diff_files`: what changed in the files between two checkpoints."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.errors import InvalidError, NotFoundError
from clew.files.rewind import snapshot_at
from clew.model.files import FileDiff
from clew.server.mcp.budget import ROOM, TOKENS, cut_to_tokens, tokens
from clew.server.mcp.schema import Answer, Arguments, Tool
from clew.server.mcp.text import Text
from clew.server.mcp.tools.read import PlaceText
from clew.server.mcp.tools.search import Cursor
from clew.server.mcp.view import Place, View

PAGE: Final = 50
"""Files that are compared at once."""


class DiffArguments(Arguments, frozen=True, kw_only=True):
    a: PlaceText
    b: (
        Annotated[str, Meta(max_length=2000, description="default: the newest files of a's session")] | None
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
    text, a = view.text(), view.place(args.a)
    b = Place(a.session, None) if args.b is None else view.place(args.b)
    snapshots = snapshot_of(a), snapshot_of(b)
    room, after = args.max_tokens - ROOM, args.cursor
    shown: list[ChangedFile] = []
    last: str | None = None
    while True:
        page = view.store.diff(*snapshots, text=True, after=after, limit=PAGE)
        for one in page:
            after = one.path
            if not _is_meant(one, args.path):
                continue
            told = _told(text, one)
            if tokens(told) > room and shown:
                return DiffAnswer(files=shown, next=last, redacted=text.redacted)
            room -= tokens(_cut(told, room))
            shown.append(told)
            last = one.path
        if len(page) < PAGE:
            return DiffAnswer(files=shown, redacted=text.redacted)


def snapshot_of(place: Place) -> str:
    """The snapshot of the files at a place. InvalidError: no files were kept there."""
    session, point = place
    with session._look() as (reader, row):
        try:
            return snapshot_at(reader, row, session.head if point is None else point)
        except NotFoundError as error:
            raise InvalidError(
                f"{session.id!r} has no checkpoint with files there: {error}; session_overview lists them"
            ) from error


def _is_meant(one: FileDiff, path: str | None) -> bool:
    if path is None:
        return True
    folder = path.strip("/")
    return any(each == folder or each.startswith(f"{folder}/") for each in (one.path, one.old_path) if each)


def _told(text: Text, one: FileDiff) -> ChangedFile:
    return ChangedFile(
        path=text.line(one.path, 4096),
        status=one.status,
        old_path=None if one.old_path is None else text.line(one.old_path, 4096),
        diff=None if one.text is None else text.clean(one.text),
        truncated=False,
    )


def _cut(told: ChangedFile, room: int) -> ChangedFile:
    """The first file of an answer may be longer than all of it."""
    if told.diff is not None and tokens(told) > room:
        told.diff, told.truncated = cut_to_tokens(told.diff, max(room - 100, 0))
    return told


DIFF_FILES: Final = Tool(
    name="diff_files",
    description="Unified diff of the files between two places that have checkpoints with files.",
    arguments=DiffArguments,
    answer=DiffAnswer,
    run=diff_files,
    needs="files",
)
