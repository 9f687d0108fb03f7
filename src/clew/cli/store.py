"""What a command is about: the store, a session, a place in it, and the entries around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click

import clew
from clew.backends.contract import STORE_WIDE
from clew.backends.registry import parse
from clew.cli.app import Refused, Settings
from clew.cli.names import branch_names, entry_name, find_entry, short_ids
from clew.cli.text import one_line
from clew.core.conversation.history import branch_pages
from clew.core.log.ids import parse_entry_id
from clew.core.log.rows import SessionName
from clew.core.messages.shell import typed
from clew.errors import CheckpointNotFoundError, SessionDeletedError, SessionNotFoundError, StoreNotFoundError
from clew.importers.short_ids import MOST, meant, stands_for, was_shown_as


def place_of(session: clew.Session, point: clew.Head | str | int) -> clew.Head:
    """The head that a rewind to this point would give."""
    if isinstance(point, clew.Head):
        return point
    tree = session.tree()
    if isinstance(point, int):
        for branch, first, last in path_to(tree, tree.heads[session.id]):
            if first <= point <= last:
                return clew.Head(branch, point)
        raise CheckpointNotFoundError(session.id, point)
    named = next((one for one in session.checkpoints() if one.name == point), None)
    if named is not None:
        return named.head
    return _entry(session, tree, point)


def _entry(session: clew.Session, tree: clew.Tree, text: str) -> clew.Head:
    """The entry with this id, or this short name."""
    found = find_entry(tree.branches, text)
    if not found:
        raise CheckpointNotFoundError(session.id, text)
    if len(found) > 1:
        names = branch_names(branch.id for branch in tree.branches)
        shown = _some(entry_name(names, place) for place in found)
        raise Refused(f"{len(found)} entries of {session.id} go by {text!r}: {shown}")
    return found[0]


def path_to(tree: clew.Tree, head: clew.Head) -> list[tuple[str, int, int]]:
    """The runs of entries that lead to a place: branch, first and last position; oldest first."""
    branches = {branch.id: branch for branch in tree.branches}
    found = []
    place: clew.Head | None = head
    while place is not None and place.branch in branches:  # a tree has no rings: `tree()` leaves them out
        branch = branches[place.branch]
        found.append((branch.id, branch.first, place.position))
        place = branch.parent
    return found[::-1]


def is_on_path(tree: clew.Tree, place: clew.Head) -> bool:
    """Whether a place is on the path of the session whose tree this is."""
    return any(
        branch == place.branch and first <= place.position <= last
        for branch, first, last in path_to(tree, tree.heads[tree.session])
    )


def reached(heads: Iterable[clew.Head], tree: clew.Tree) -> dict[str, int]:
    """For each branch the last position that lies on the path to one of these heads. Each branch is looked at
    as often as it is left in another place, not once for every head."""
    parents = {branch.id: branch.parent for branch in tree.branches}
    found: dict[str, int] = {}
    for head in heads:
        place: clew.Head | None = head
        while place is not None and place.branch in parents and found.get(place.branch, -1) < place.position:
            is_new = place.branch not in found
            found[place.branch] = place.position
            place = parents[place.branch] if is_new else None
    return found


# -- entries of a whole tree, also those that a rewind left behind


def entries_of_tree(store: clew.Store, tree: clew.Tree) -> Iterator[clew.Entry]:
    """Every entry of the tree, each once, branch by branch; a damaged one is left out. Beside them is what
    came with them, and not what sessions noted."""
    for branch in tree.branches:
        yield from _run(store, None, branch.id, branch.first, branch.last)


def path_entries(
    store: clew.Store, session: clew.Session, tree: clew.Tree, place: clew.Head, first: int, last: int
) -> list[clew.Entry]:
    """The entries between two positions of the path to any place of the tree of a session, be it left behind
    or not, with what the session noted beside them."""
    return [
        entry
        for branch, begin, end in path_to(tree, place)
        if begin <= last and end >= first
        for entry in _run(store, session, branch, max(first, begin), min(last, end))
    ]


def _run(
    store: clew.Store, session: clew.Session | None, branch: str, first: int, last: int
) -> Iterator[clew.Entry]:
    sid = STORE_WIDE if session is None else session._sid
    for page in branch_pages(store._engine.read, branch, first, last, sid):
        yield from page


# -- the store, a session by the beginning of its id, a place in it

PAGE: Final = 2_000
SHOWN: Final = 4
TITLE: Final = 40
"""Letters of a title that an error shows."""


@contextmanager
def opened(settings: Settings, *, create: bool = False) -> Iterator[clew.Store]:
    """The store of this command. Only commands that add to it may create one."""
    if not create:
        must_exist(settings.store)
    with clew.open(settings.store) as store:
        yield store


def must_exist(address: str | None) -> None:
    """A mistyped address is an error, not a new and empty store."""
    if not exists(address):
        raise StoreNotFoundError(parse(address)[1])


def exists(address: str | None) -> bool:
    """Whether there is a store. An empty file or directory is not one yet."""
    scheme, path, _ = parse(address)
    match scheme:
        case "sqlite":
            return Path(path).exists() and Path(path).stat().st_size > 0
        case "jsonl":
            return Path(path).is_dir() and any(Path(path).iterdir())
    return True


class Spot(NamedTuple):
    """A session, and a place in it if one was named: `ID` or `ID@place`."""

    session: clew.Session
    point: clew.Head | str | int | None


def session_of(store: clew.Store, text: str | None) -> clew.Session:
    """The session of this id, alias or short id, or of a beginning of one; without a text the newest one."""
    if text is None:
        newest = store.latest()
        if newest is None:
            raise Refused(f"there is no session in {store.location}; clew import --scan brings some")
        return newest
    return store.find(text) or store.get(_living(store, text))


def spot_of(store: clew.Store, text: str | None) -> Spot:
    """`ID@place`: a position, a checkpoint or the id of an entry. An id may hold an @ itself."""
    if text is None or "@" not in text or store.find(text):
        return Spot(session_of(store, text), None)
    id, _, place = text.rpartition("@")
    if id and store.find(id) is None:
        try:
            return Spot(session_of(store, text), None)
        except SessionNotFoundError:
            pass
    session = session_of(store, id)
    return Spot(session, point_in(session, place))


def point_in(session: clew.Session, text: str) -> clew.Head | str | int:
    """What a text means in a session: a number is a position, then come names of checkpoints, then entries by
    their id or short name. A checkpoint whose name is a number is found by its entry."""
    if text.isascii() and text.isdecimal():
        return int(text)
    if not text:
        raise click.UsageError("nothing follows the @: name a position, a checkpoint or an entry")
    if parse_entry_id(text) is None or any(one.name == text for one in session.checkpoints()):
        return text
    return str(_entry(session, session.tree(), text))


def not_whole(store: clew.Store, text: str) -> Exception:
    """Why a text that is no whole id, nor an alias, is not taken for a session, in the trash or not."""
    ids = [one.id for one in _meant(store, text)]
    if not ids:
        return SessionNotFoundError(text)
    why = f"{text!r} is not a whole id, and --purge with --yes takes whole ids and aliases only"
    if len(ids) == 1:
        return Refused(f"{why}; write {typed(ids[0])}, or leave out --yes")
    return Refused(f"{why}: {_candidates(store, ids, whole=True)}")


def deleted_id(store: clew.Store, text: str) -> str:
    """The id of a session in the trash, by its id, its short id or the beginning of one."""
    found = [one.id for one in _meant(store, text, in_trash=True)]
    if not found:
        raise SessionNotFoundError(text)
    return _only(store, text, found)


def _living(store: clew.Store, text: str) -> str:
    """The id of a session in use. A removed session's id never finds another one that begins like it."""
    found = _meant(store, text)
    living = [one.id for one in found if not one.deleted]
    if any(one.id == text for one in found if one.deleted):
        raise SessionDeletedError(text)
    if not living:
        raise SessionDeletedError(found[0].id) if len(found) == 1 else SessionNotFoundError(text)
    before = [one.id for one in found if one.deleted and was_shown_as(text, one.id)]
    return _only(store, text, living + before)


def _meant(store: clew.Store, text: str, *, in_trash: bool = False) -> list[SessionName]:
    with store._engine.read() as reader:
        return meant(reader, text, in_trash=in_trash)


def _only(store: clew.Store, text: str, ids: Sequence[str]) -> str:
    if len(ids) > 1:
        many = f"more than {len(ids) - 1}" if len(ids) >= MOST else f"{len(ids)}"
        raise Refused(
            f"{many} sessions begin with {text!r}: {_candidates(store, ids)}; type more letters of the id"
        )
    if not stands_for(text, ids[0]):
        raise Refused(f"there is no session {text!r}, only {_candidates(store, ids)}")
    return ids[0]


def _candidates(store: clew.Store, ids: Sequence[str], *, whole: bool = False) -> str:
    """The first of them, as they can be typed, with their titles."""
    shown = {id: id for id in ids[:SHOWN]} if whole else short_ids(store, ids[:SHOWN])
    return _some([_titled(store, id, text) for id, text in shown.items()], more=len(ids) > SHOWN)


def _titled(store: clew.Store, id: str, text: str) -> str:
    with store._engine.read() as reader:
        row = reader.find_session(id) or reader.find_session(id, deleted=True)
    title = one_line(row.title or "") if row else ""
    return f"{text} ({title[:TITLE]}{'…' if len(title) > TITLE else ''})" if title else text


def _some(texts: Iterable[str], *, more: bool = False) -> str:
    shown = list(texts)
    return ", ".join([*shown[:SHOWN], *(["…"] if more or len(shown) > SHOWN else [])])


def all_sessions(
    store: clew.Store, *, deleted: bool = False, parent: str | None = None
) -> Iterator[clew.SessionInfo]:
    """Newest first, page by page."""
    cursor = None
    while True:
        page = store.list(limit=PAGE, cursor=cursor, deleted=deleted, parent=parent)
        yield from page
        cursor = page.cursor
        if cursor is None:
            return
