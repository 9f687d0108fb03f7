"""`checkpoint` and `remember`: the only tools that write. Neither touches what was said."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final

from msgspec import Meta

from clew.backends.contract import Transaction
from clew.core.conversation.checkpoints import find_checkpoint, set_checkpoint
from clew.core.conversation.points import Point
from clew.core.log.ids import check_id, parse_entry_id
from clew.core.messages.text import visible_line
from clew.core.runs.access import Access, require_write
from clew.errors import InvalidError
from clew.model import Checkpoint, Entry, Json
from clew.server.mcp.current import named_session, own_sessions
from clew.server.mcp.places import place_in
from clew.server.mcp.schema import Answer, Arguments, Tool
from clew.server.mcp.view import CURRENT, Place, View
from clew.session import Session
from clew.store import Store

NOTE: Final = 4000
"""Letters of a note."""
CLIENT: Final = 80
MOST_NOTED: Final = 64_000
"""Letters of all notes at one entry together."""


class CheckpointArguments(Arguments, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=200)]
    note: Annotated[str, Meta(max_length=NOTE)] | None = None
    files: Annotated[bool, Meta(description="keep the workspace's files too")] = False
    session: Annotated[str, Meta(max_length=4096)] = CURRENT


class RememberArguments(Arguments, frozen=True, kw_only=True):
    note: Annotated[str, Meta(min_length=1, max_length=NOTE)]
    place: Annotated[str, Meta(max_length=4096)] = CURRENT
    label: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class MarkAnswer(Answer, kw_only=True):
    place: str


def checkpoint(view: View, args: CheckpointArguments) -> MarkAnswer:
    session = _session(view, args.session)
    if parse_entry_id(args.name) is not None or args.name.isdecimal():
        raise InvalidError(f"{args.name!r} could be an entry or a position; choose another name")
    _refuse_twice(session.id, args.name, session.checkpoints())
    files = _directory(view, session) if args.files else None
    state: Json = {"by": _client(view)} | ({"note": args.note} if args.note else {})
    outside = session.outside_lease()
    setting = partial(
        _set_new, name=check_id(args.name, "checkpoint name"), state=outside._encoded(state, "state")
    )
    made = outside._set_checkpoint(setting, files, (), ())
    text = view.text()
    return MarkAnswer(place=text.checkpoint(session.id, made.name), redacted=text.redacted)


def _set_new(tx: Transaction, access: Access, name: str, state: bytes, **snapshot: Any) -> Checkpoint:
    """Set a checkpoint, but not if another caller was faster with its name."""
    row = require_write(tx, access)
    _refuse_twice(row.id, name, filter(None, [find_checkpoint(tx, row, name)]))
    return set_checkpoint(tx, access, name, state, access.host.now(), **snapshot)


def _refuse_twice(session: str, name: str, there: Iterable[Checkpoint]) -> None:
    if any(one.name == name for one in there):
        raise InvalidError(f"{session!r} has a checkpoint {name!r} already; choose another name")


def remember(view: View, args: RememberArguments) -> MarkAnswer:
    place = Place(_session(view, CURRENT), None) if args.place == CURRENT else view.place(args.place)
    point: Point = place.session.head if place.point is None else place.point

    def write(store: Store) -> Entry:
        session = store.get(place.session.id).outside_lease()
        entry = next(session.entries(at=point, last=1), None)
        if entry is None:
            raise InvalidError(f"{session.id!r} has no entry there to put a note at")
        if entry.kind == "removed":
            raise InvalidError(
                "a retention rule removed this entry, so a search would not find a note at it; take another"
            )
        return session.annotate(entry, **_fields(view, entry, args))

    entry = view.store.transact(write)
    return MarkAnswer(place=place_in(place.session.id, entry.id))


def _fields(view: View, entry: Entry, args: RememberArguments) -> dict[str, Json]:
    """The annotation with this note. What is there already stays: another note comes behind it, and so does
    the name of who wrote it."""
    there = entry.annotations
    note = _behind(there.get("note"), args.note, "\n\n")
    if len(note) > MOST_NOTED:
        raise InvalidError(f"there are {len(note)} letters of notes at this entry; put it at another one")
    if args.label is not None and there.get("label", args.label) != args.label:
        raise InvalidError(
            "this entry has another label already; leave out `label`, or put it at another one"
        )
    client, before = _client(view), there.get("noted_by")
    is_known = isinstance(before, str) and client in before.split(", ")
    by = {
        "noted_by": before if is_known else _behind(before, client, ", "),
        "noted_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return {"note": note, **by} | ({} if args.label is None else {"label": args.label})


def _behind(before: Json, text: str, between: str) -> str:
    return f"{before}{between}{text}" if isinstance(before, str) and before else text


def _client(view: View) -> str:
    return f"mcp:{visible_line(view.client).replace(',', ' ')[:CLIENT] or 'unknown'}"


def _session(view: View, id: str) -> Session:
    if id != CURRENT:
        return view.find(id)
    found = own_sessions(view)
    if view.session is not None and named_session(view) is None:
        raise InvalidError(f"your session {view.session!r} is not in the store yet; name one by its id")
    if len(found) != 1:
        names = ", ".join(repr(info.id) for info in found[:5]) or "none was active in the last 10 minutes"
        raise InvalidError(f"it is not known which session is yours: {names}; name one by its id")
    return view.find(found[0].id)


def _directory(view: View, session: Session) -> str:
    if not view.takes_files:
        raise InvalidError("this server takes no snapshots of files; set files=false")
    workspace = session.info.workspace
    if workspace is None or workspace != view.workspace:
        raise InvalidError(f"{session.id!r} does not work in the directory of this server; set files=false")
    return workspace


CHECKPOINT: Final = Tool(
    name="checkpoint",
    description="Name where a session stands now. A name is never moved.",
    arguments=CheckpointArguments,
    answer=MarkAnswer,
    run=checkpoint,
    needs="write",
)
REMEMBER: Final = Tool(
    name="remember",
    description="Put a note beside an entry; search_sessions finds it later.",
    arguments=RememberArguments,
    answer=MarkAnswer,
    run=remember,
    needs="write",
)
