"""Snapshots: what they hold, and how they differ. All of it is read from the store, nothing from the disk."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterator
from itertools import chain
from typing import Final
from urllib.parse import quote

import msgspec

from clew.errors import InvalidQueryError, NotFoundError, SnapshotNotFoundError
from clew.model.files import Snapshot, SnapshotFile
from clew.server.access.guard import attachment
from clew.server.call import Answer, Call
from clew.server.problems import Problem
from clew.server.routing import API, Routes, part_of
from clew.server.wire.files import (
    DiffPage,
    DiffQuery,
    FileHistory,
    FileHistoryQuery,
    FilePage,
    FilesQuery,
    ListedFile,
    SnapshotList,
    SnapshotPage,
    SnapshotsQuery,
)
from clew.store import Store

routes = Routes()

PIECE: Final = 1024 * 1024
BLOCK: Final = 256 * 1024
"""Bytes that are sent at once."""
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


@routes.get("/snapshots", answer=SnapshotPage, scope="files")
def list_snapshots(call: Call, query: SnapshotsQuery) -> Answer:
    """List snapshots of directories, newest first."""
    found = call.store.snapshots(root=query.root, limit=query.limit + 1, before=query.cursor)
    page = found[: query.limit]
    cursor = page[-1].id if len(found) > query.limit else None
    return Answer(value=SnapshotPage(page, cursor), headers=call.next_page(cursor))


@routes.get("/sessions/{id}/snapshots", answer=SnapshotList, scope="files")
def session_snapshots(call: Call, id: str) -> SnapshotList:
    """The snapshots that the checkpoints of a session name, oldest first."""
    found: dict[str, Snapshot] = {}
    for checkpoint in call.session(id).checkpoints():
        if checkpoint.snapshot is not None and checkpoint.snapshot not in found:
            try:
                found[checkpoint.snapshot] = call.store.get_snapshot(checkpoint.snapshot)
            except SnapshotNotFoundError:
                continue  # files of an imported session stayed behind
    return SnapshotList(list(found.values()))


@routes.get("/sessions/{id}/file-history", answer=FileHistory, scope="files")
def file_history(call: Call, id: str, query: FileHistoryQuery) -> FileHistory:
    """The checkpoints on the path at which a file was not as at the one before, oldest first."""
    return FileHistory(call.session(id).file_history(query.path))


@routes.get("/snapshots/{id}", answer=Snapshot, scope="files")
def get_snapshot(call: Call, id: str) -> Snapshot:
    """A snapshot: when and where it was taken, how much it holds, what was skipped."""
    return snapshot_of(call, id)


@routes.get("/snapshots/{id}/files", answer=FilePage, scope="files")
def list_files(call: Call, id: str, query: FilesQuery) -> Answer:
    """List what a snapshot holds: files, links and empty directories."""
    snapshot = snapshot_of(call, id)
    after = None if query.cursor is None else _path_of(query.cursor)
    found = call.store.list_files(snapshot, query.path, after=after, limit=query.limit + 1, deep=query.deep)
    page = found[: query.limit]
    cursor = _cursor_of(page[-1].path) if len(found) > query.limit else None
    base = call.url(f"{API}/snapshots/{part_of(id)}/files/")
    return Answer(
        value=FilePage([_listed(base, one) for one in page], cursor), headers=call.next_page(cursor)
    )


def _listed(base: str, file: SnapshotFile) -> ListedFile:
    url = None if file.kind == "directory" else base + quote(os.fsencode(file.path), safe="/")
    return ListedFile(**msgspec.structs.asdict(file), url=url)


@routes.get("/snapshots/{id}/files/{path*}", scope="files", slow=True, media_type="application/octet-stream")
def read_file(call: Call, id: str, path: str) -> Answer:
    """Read a file of a snapshot, byte for byte; of a link, where it leads.

    `ETag` names the content; `Range` with one range of bytes reads a part.
    """
    snapshot = snapshot_of(call, id)
    found = call.store.list_files(snapshot, path, limit=1)
    file = found[0] if found else None
    if file is None or file.kind == "directory" or file.path != path:
        raise NotFoundError(f"snapshot {snapshot.id} holds no file {_shown(path)!r}")
    tag = f'"{file.hash}"'
    start, end = _range_of(call, tag, file.size)
    headers = {
        **attachment(path.rpartition("/")[2]),
        "accept-ranges": "bytes",
        "content-length": str(end - start),
    }
    is_part = end - start < file.size
    if is_part:
        headers["content-range"] = f"bytes {start}-{end - 1}/{file.size}"
    return Answer(
        stream=begun(_pieces(call.store, snapshot, file, start, end)),
        status=206 if is_part else 200,
        headers=headers,
        etag=tag,
    )


@routes.get("/diff", answer=DiffPage, scope="files", slow=True)
def diff(call: Call, query: DiffQuery) -> Answer:
    """Compare two snapshots: which files were added, removed, changed, renamed."""
    a, b = snapshot_of(call, query.a), snapshot_of(call, query.b)
    after = None if query.cursor is None else _path_of(query.cursor)
    found = call.store.diff(a, b, text=query.text, renames=query.renames, after=after, limit=query.limit + 1)
    page = found[: query.limit]
    cursor = _cursor_of(page[-1].path) if len(found) > query.limit else None
    return Answer(value=DiffPage(page, cursor), headers=call.next_page(cursor))


def snapshot_of(call: Call, id: str) -> Snapshot:
    """A snapshot by its id, never by a path or a hash. SnapshotNotFoundError: there is none, or no session
    that the caller may see names it."""
    snapshot = call.store.get_snapshot(id)
    if call.principal.is_bound:
        named_by = call.store.sessions_with_snapshot(id)
        if not any(call.principal.sees(session.info) for session in named_by):
            raise SnapshotNotFoundError(id)
    return snapshot


# -- pieces


def _pieces(store: Store, snapshot: Snapshot, file: SnapshotFile, start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, PIECE):
        yield store.read_file(snapshot, file.path, start=at, length=min(PIECE, end - at))


def begun(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same in larger pieces, the first of which is made already: what is wrong with it is told instead of
    the answer. What is wrong later cuts it off."""
    blocks = _blocks(pieces)
    return chain([next(blocks, b"")], blocks)


def _blocks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= BLOCK:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


def _range_of(call: Call, tag: str, size: int) -> tuple[int, int]:
    """Which bytes are asked for: all, unless there is one range that can be read."""
    asked = _RANGE.fullmatch((call.header("range") or "").strip())
    known = call.header("if-range")
    if asked is None or (known is not None and known.strip() != tag) or asked[0] == "bytes=-":
        return 0, size
    first, last = asked[1], asked[2]
    if first:
        start, end = int(first), min(int(last) + 1, size) if last else size
    else:
        start, end = max(0, size - int(last)), size
    if start >= end:
        raise Problem(
            416,
            "range_not_satisfiable",
            "The range is not part of the file",
            f"the file has {size} bytes",
            headers={"content-range": f"bytes */{size}"},
        )
    return start, end


# -- names of files, which may be no Unicode


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "replace")


def _cursor_of(path: str) -> str:
    return base64.urlsafe_b64encode(os.fsencode(path)).decode().rstrip("=")


def _path_of(cursor: str) -> str:
    try:
        return os.fsdecode(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError) as exc:
        raise InvalidQueryError(f"{cursor[:40]!r} is no cursor of a list of files") from exc
