"""`checkpoint` and `remember`: the only tools that write. Neither touches what was said."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

from msgspec import Meta

from clew.core.conversation.points import Point
from clew.errors import InvalidError
from clew.model import Entry, Json
from clew.server.mcp.current import own_sessions
from clew.server.mcp.schema import Answer, Arguments, Tool
from clew.server.mcp.view import CURRENT, Place, View, place_in
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
    session: Annotated[str, Meta(max_length=2000)] = CURRENT


class RememberArguments(Arguments, frozen=True, kw_only=True):
    note: Annotated[str, Meta(min_length=1, max_length=NOTE)]
    place: Annotated[str, Meta(max_length=2000)] = CURRENT
    label: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class MarkAnswer(Answer, kw_only=True):
    place: str


def checkpoint(view: View, args: CheckpointArguments) -> MarkAnswer:
    session = _session(view, args.session)
    if any(one.name == args.name for one in session.checkpoints()):
        raise InvalidError(f"{session.id!r} has a checkpoint {args.name!r} already; choose another name")
    files = None
    if args.files:
        files = _directory(view, session)
    state: Json = {"by": _client(view)} | ({"note": args.note} if args.note else {})
    made = session.outside_lease().checkpoint(args.name, state=state, files=files)
    return MarkAnswer(place=f"{session.id}@{made.name}")


def remember(view: View, args: RememberArguments) -> MarkAnswer:
    place = Place(_session(view, CURRENT), None) if args.place == CURRENT else view.place(args.place)
    point: Point = place.session.head if place.point is None else place.point

    def write(store: Store) -> Entry:
        session = store.get(place.session.id).outside_lease()
        entry = next(session.entries(at=point, last=1), None)
        if entry is None:
            raise InvalidError(f"{session.id!r} has no entry yet to put a note at")
        return session.annotate(entry, **_fields(view, entry, args))

    entry = view.store.transact(write)
    return MarkAnswer(place=place_in(place.session.id, entry.id))


def _fields(view: View, entry: Entry, args: RememberArguments) -> dict[str, Json]:
    """The annotation with this note. One that is there already stays: this one comes behind it."""
    before = entry.annotations.get("note")
    note = f"{before}\n\n{args.note}" if isinstance(before, str) and before else args.note
    if len(note) > MOST_NOTED:
        raise InvalidError(f"there are {len(note)} letters of notes at this entry; put it at another one")
    by = {"noted_by": _client(view), "noted_at": datetime.now(UTC).isoformat(timespec="seconds")}
    return {"note": note, **by} | ({} if args.label is None else {"label": args.label})


def _client(view: View) -> str:
    return f"mcp:{view.client[:CLIENT] or 'unknown'}"


def _session(view: View, id: str) -> Session:
    if id != CURRENT:
        return view.find(id)
    found = own_sessions(view)
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
