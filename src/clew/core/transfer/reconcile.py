"""How a tree of sessions fits into a store that may hold it, or a part of it, already.

A tree that was copied bears a mark: its fingerprint as it was then. It tells who has changed since:

    the target is as the mark says     what is new in the source is written
    the source is as the mark says     the target went on by itself: there is nothing to copy
    neither                            both went on: a conflict
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from clew.backends.contract import STORE_WIDE, Reader
from clew.core.conversation.leftovers import refuse_leftovers
from clew.core.conversation.points import find
from clew.core.log.records import decoder
from clew.core.log.rows import NOWHERE, SessionQuery, SessionRow
from clew.core.transfer.part import fingerprint_of_part, fingerprint_there
from clew.core.transfer.source import BranchImage, SessionImage, TreeImage, fingerprint, read_image
from clew.errors import ConflictError

TRASH_PAGE: Final = 100


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """Kept with each session that was copied."""

    fingerprint: str = ""
    file: str = ""
    """Of a session that came in a file of its own: the fingerprint of what the file said."""
    staged: bool = False
    """The copy is not over. What is in it is not to be seen yet, and may be thrown away."""


encode_mark = msgspec.json.Encoder().encode
_decode_mark = decoder(Mark, "the record of a copy")


class Fit(msgspec.Struct, frozen=True):
    """Where the parts of a tree are in the target."""

    verdict: Literal["write", "same", "kept"]
    tree: int
    """0: it is not there."""
    sids: dict[int, int]
    """Sessions that are there, by their sids in the source."""
    branches: dict[str, tuple[int, int]]
    """Number and last position of those that are there."""
    staged: bool


def fit(reader: Reader, image: TreeImage) -> Fit:
    """ConflictError: the target holds something else under the same names."""
    branches, trees = _branches_there(reader, image)
    refuse_leftovers(reader, trees, image.sessions[0].row.id)
    if len(trees) > 1:
        reason = "its branches belong to several trees there"
        if image.is_part:
            reason += ", as files of its forks were imported before it; import them into a new store together"
        raise _conflict(image.sessions[0], reason)
    sids = {session.row.sid: sid for session, sid in _sessions_there(reader, image, trees)}
    tree = trees.pop() if trees else _tree_of(reader, sids)
    marks = [mark_of(reader, sid) for sid in sids.values()]
    staged = any(mark is not None and mark.staged for mark in marks)
    check_names(reader, image, sids)
    if image.is_part:
        _check_shared(reader, image, sids, branches)
    if not sids:
        if branches and not image.is_part:
            raise _conflict(
                image.sessions[0],
                "its history is there as another session's; clew copy brings a fork together with its base",
            )
        return Fit("write", tree, sids, branches, staged)
    verdict = _verdict(reader, image, tree, sids, marks[0], staged=staged)
    if verdict == "write" and not image.is_part:
        _check_branches(reader, image, tree, sids, branches)
    return Fit(verdict, tree, sids, branches, staged)


def _verdict(
    reader: Reader, image: TreeImage, tree: int, sids: dict[int, int], mark: Mark | None, *, staged: bool
) -> Literal["write", "same", "kept"]:
    if staged:
        return "write"
    if image.is_part:
        ours = fingerprint_of_part(image)
        if mark is not None and mark.file == ours:
            return "kept"
        theirs = fingerprint_there(reader, next(iter(sids.values())))
    else:
        ours = fingerprint(image)
        theirs = fingerprint(read_image(reader, tree, set(sids.values())))
    if ours == theirs:
        return "same"
    if mark is None:
        raise _conflict(image.sessions[0], "it is there, and differs")
    if mark.fingerprint == ours:
        return "kept"
    if mark.fingerprint != theirs:
        raise _conflict(image.sessions[0], "both changed since it was copied")
    return "write"


def _branches_there(reader: Reader, image: TreeImage) -> tuple[dict[str, tuple[int, int]], set[int]]:
    found, trees = dict[str, tuple[int, int]](), set[int]()
    for branch in image.branches:
        there = reader.find_branch(branch.uid)
        if there is not None:
            found[branch.uid] = there.branch, reader.last_position(there.branch)
            trees.add(there.tree)
    return found, trees


def _sessions_there(reader: Reader, image: TreeImage, trees: set[int]) -> Iterator[tuple[SessionImage, int]]:
    """By the branches that they own; those that own none by id and time of creation."""
    owners: dict[int, int] = {}
    for branch in image.branches:
        there = reader.find_branch(branch.uid)
        if there is not None and there.owner and branch.owner:
            owners.setdefault(branch.owner, there.owner)
    relatives = [row for tree in trees for row in reader.tree_sessions(tree)]
    for session in image.sessions:
        sid = owners.get(session.row.sid)
        if sid is None:
            candidates = relatives if trees else list(_named(reader, session.row))
            free = (row for row in candidates if row.sid not in owners.values())
            sid = next((row.sid for row in free if _is_same(row, session.row)), None)
        if sid is not None:
            yield session, sid


def _is_same(row: SessionRow, other: SessionRow) -> bool:
    return (row.id, row.created) == (other.id, other.created)


def _named(reader: Reader, row: SessionRow) -> Iterator[SessionRow]:
    """Sessions of an id, in the trash or not."""
    for found in (reader.find_session(row.id), reader.find_session(row.id, deleted=True)):
        if found is not None:
            yield found
    after: tuple[int, str] | None = None if row.deleted is None else (row.deleted + 1, "")
    while row.deleted is not None:
        query = SessionQuery(limit=TRASH_PAGE, after=after, deleted=True)
        trash = [one.row for one in reader.list_sessions(query)]
        yield from (found for found in trash if found.id == row.id)
        if len(trash) < TRASH_PAGE or (trash[-1].deleted or 0) < row.deleted:
            return
        after = trash[-1].deleted or 0, trash[-1].id


def _tree_of(reader: Reader, sids: dict[int, int]) -> int:
    rows = [reader.get_session(sid) for sid in sids.values()]
    return next((row.tree for row in rows if row is not None), 0)


def mark_of(reader: Reader, sid: int) -> Mark | None:
    value = reader.get_record(sid, "copy", "")
    return None if value is None else _decode_mark(value)


def check_names(reader: Reader, image: TreeImage, sids: dict[int, int]) -> None:
    """The id and the aliases of a session may not lead to another one."""
    for session in image.sessions:
        if session.row.deleted is not None:
            continue
        for name in (session.row.id, *session.aliases):
            holder = find(reader, name)
            if holder is not None and holder.sid != sids.get(session.row.sid):
                raise _conflict(session, f"{name!r} is another session there")


def _check_branches(
    reader: Reader,
    image: TreeImage,
    tree: int,
    sids: dict[int, int],
    branches: dict[str, tuple[int, int]],
) -> None:
    """What is there has to be the beginning of what is to come."""
    for branch in image.branches:
        number, last = branches.get(branch.uid, (0, NOWHERE))
        if not number or last == NOWHERE:
            continue
        there = reader.get_tip(number, last)
        owner = next((one for one in image.sessions if one.row.sid == branch.owner), image.sessions[0])
        if last > branch.last:
            raise _conflict(owner, "it has gone on there")
        if last < branch.last and reader.get_branch(number).owner != sids.get(branch.owner):
            raise _conflict(owner, f"branch {branch.uid} is another session's there")
        if not _begins_alike(reader, number, branch):
            raise _conflict(owner, f"branch {branch.uid} continues something else there")
        if there is not None and last == branch.last and there.digest != branch.digest:
            raise _conflict(owner, f"branch {branch.uid} has another history there")
    known, mine = {branch.uid for branch in image.branches}, set(sids.values())
    for extra in reader.tree_branches(tree):
        if extra.owner in mine and extra.uid not in known:
            session = next(one for one in image.sessions if sids.get(one.row.sid) == extra.owner)
            raise _conflict(session, "it has gone on there, or was purged in part")


def _check_shared(
    reader: Reader, image: TreeImage, sids: dict[int, int], branches: dict[str, tuple[int, int]]
) -> None:
    """What a file says of its own branches and of those of others has to be what is there, as far as both
    go."""
    (session,) = image.sessions
    for branch in image.branches:
        number, last = branches.get(branch.uid, (0, NOWHERE))
        if not number:
            continue
        owner = reader.get_branch(number).owner
        if branch.owner and owner and owner != sids.get(branch.owner):
            raise _conflict(session, f"branch {branch.uid} is another session's there")
        if not _begins_alike(reader, number, branch):
            raise _conflict(session, f"branch {branch.uid} continues something else there")
        there = reader.get_tip(number, branch.last) if branch.last > NOWHERE else None
        if there is not None and there.digest != branch.digest:
            raise _conflict(session, f"branch {branch.uid} has another history there")
        if max(last, branch.fork) < branch.last and owner not in (0, *sids.values()):
            row = reader.get_session(owner)
            if row is not None and not is_as_it_came(reader, owner):
                raise _conflict(session, f"it continues more of session {row.id!r} than is there")


def is_as_it_came(reader: Reader, sid: int) -> bool:
    """Whether a session came from a file of its own, and was not changed since. Only then may files of its
    relatives bring more of it: no file changes what was written here."""
    mark = mark_of(reader, sid)
    return mark is not None and bool(mark.file) and mark.fingerprint == fingerprint_there(reader, sid)


def _begins_alike(reader: Reader, number: int, branch: BranchImage) -> bool:
    there = reader.get_branch(number)
    parent = reader.get_branch(there.parent).uid if there.parent else ""
    return (parent, there.fork) == (branch.parent, branch.fork)


def _conflict(session: SessionImage, reason: str) -> ConflictError:
    return ConflictError(f"session {session.row.id!r} cannot be copied: {reason}; nothing of it was changed")


# -- other names


def renamed(reader: Reader, image: TreeImage) -> TreeImage:
    """The tree with ids that are free in the target, or that an earlier copy gave; without aliases that
    lead elsewhere there."""
    sessions: list[SessionImage] = []
    for session in image.sessions:
        id = _free_id(reader, session, image)
        aliases = tuple(name for name in session.aliases if _leads_to(reader, name, session, image, id))
        dropped = set(session.aliases) - set(aliases)
        kept = tuple(name for name in session.details.aliases if name not in dropped)
        sessions.append(
            msgspec.structs.replace(
                session,
                row=msgspec.structs.replace(session.row, id=id),
                aliases=aliases,
                details=msgspec.structs.replace(session.details, aliases=kept),
            )
        )
    return msgspec.structs.replace(image, sessions=tuple(sessions))


def _free_id(reader: Reader, session: SessionImage, image: TreeImage) -> str:
    known = _known(reader, session, image)
    if known is not None:
        return known.id
    id, number = session.row.id, 0
    while session.row.deleted is None:
        holder = find(reader, id)
        if holder is None or _is_same(holder, msgspec.structs.replace(session.row, id=id)):
            break
        number += 1
        id = f"{session.row.id}#copy-{number}"
    return id


def _known(reader: Reader, session: SessionImage, image: TreeImage) -> SessionRow | None:
    """The session as it is in the target by its branches."""
    for branch in image.branches:
        there = reader.find_branch(branch.uid) if branch.owner == session.row.sid else None
        if there is not None and there.owner:
            return reader.get_session(there.owner)
    return None


def _leads_to(reader: Reader, alias: str, session: SessionImage, image: TreeImage, id: str) -> bool:
    holder = find(reader, alias)
    known = _known(reader, session, image)
    return holder is None or (known is not None and holder.sid == known.sid) or holder.id == id


def alias_leads_to(reader: Reader, alias: str, sid: int) -> bool:
    return reader.get_record(STORE_WIDE, "alias", alias) == str(sid).encode()
