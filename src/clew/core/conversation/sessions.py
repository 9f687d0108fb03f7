"""Create, change, name, delete and describe sessions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.conversation.append import PREVIEW_KEPT, PREVIEW_LENGTH
from clew.core.conversation.leftovers import without_leftovers
from clew.core.conversation.moves import title_at
from clew.core.conversation.points import find, find_deleted, head_of, subagents_of
from clew.core.engine.host import Host
from clew.core.engine.notices import RECENT, notice
from clew.core.log import checks
from clew.core.log.ids import check_id
from clew.core.log.records import (
    LOAD_STATE,
    MADE_BY,
    MAX_TITLE,
    agent_of,
    is_anothers,
    is_time,
    own_title,
    parent_of,
)
from clew.core.log.rows import (
    EMPTY,
    NEVER,
    NO_TIME,
    NOWHERE,
    RUNNING,
    AgentTip,
    Details,
    Listed,
    SessionQuery,
    SessionRow,
)
from clew.core.messages.codec import decode_json, encode_json
from clew.core.messages.text import snippet
from clew.core.runs.access import Access, end_lease, refuse_if_held, require_write, require_write_beside
from clew.core.runs.status import run_info
from clew.errors import (
    AliasExistsError,
    CorruptError,
    CorruptSessionError,
    InvalidError,
    SessionExistsError,
    SessionNotFoundError,
)
from clew.model import STATUSES, AgentBranch, ForkPoint, Head, Json, SessionInfo, Stats, microseconds, utc

if TYPE_CHECKING:
    from clew.core.redact.incoming import Incoming

# ── The settings of a session: what a caller may give, checked ────────────────────────────────────

MAX_DURATION: Final = timedelta(days=36500)


class SessionSettings(TypedDict, total=False):
    """What `session`, `create` and `update` set. `update` empties a setting that is None."""

    title: str | None
    """Shown in lists. Without one, the title that the agent gave is shown, or the first words of the user."""
    workspace: str | os.PathLike[str] | None
    """The directory that the session works in."""
    tags: Sequence[str]
    vendor: str | None
    endpoint: str | None
    model: str | None
    metadata: Mapping[str, Json] | None
    """A JSON object of your own; `list(where=…)` filters by its top level."""
    expires_at: datetime | Literal["never"] | None
    """When the session ends; "never": no rule of the store ends it."""
    idle_timeout: timedelta | float | None
    """How long it may be without activity before it ends: seconds, or a timedelta."""


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What `create` and `update` may set. UNSET: leave as it is."""

    title: str | msgspec.UnsetType | None = msgspec.UNSET
    workspace: str | msgspec.UnsetType | None = msgspec.UNSET
    workspace_given: str | msgspec.UnsetType | None = msgspec.UNSET
    tags: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    vendor: str | msgspec.UnsetType | None = msgspec.UNSET
    endpoint: str | msgspec.UnsetType | None = msgspec.UNSET
    model: str | msgspec.UnsetType | None = msgspec.UNSET
    metadata: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    expires: int | msgspec.UnsetType | None = msgspec.UNSET
    idle: int | msgspec.UnsetType | None = msgspec.UNSET


def changes_of(given: Mapping[str, Any]) -> Changes:
    """Check the settings that are given, and normalise the workspace. UNSET: it is not given."""
    checked = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    if checked.get("workspace") is not None:
        checked["workspace_given"] = str(checked["workspace"])
        checked["workspace"] = normalised(checked["workspace"])
    elif "workspace" in checked:
        checked["workspace_given"] = None
    for name in ("title", "vendor", "endpoint", "model", "workspace", "workspace_given"):
        if checked.get(name) is not None:
            _check_text(checked[name], name)
    if "title" in checked and checked["title"] is not None and len(checked["title"]) > MAX_TITLE:
        raise InvalidError(f"title has {len(checked['title'])} characters; at most {MAX_TITLE} are allowed")
    if "tags" in checked:
        if isinstance(checked["tags"], str):
            raise InvalidError(f"tags must be a list of texts, not the text {checked['tags']!r}")
        checked["tags"] = tuple(dict.fromkeys(check_id(tag, "tag") for tag in checked["tags"] or ()))
    if "metadata" in checked:
        metadata = {} if checked["metadata"] is None else checked["metadata"]
        if not isinstance(metadata, Mapping):
            raise InvalidError(f"metadata must be a JSON object, not {type(metadata).__name__}")
        checked["metadata"] = msgspec.Raw(encode_json(metadata, what="metadata"))
    if "expires_at" in checked:
        checked["expires"] = _moment(checked.pop("expires_at"))
    if "idle_timeout" in checked:
        idle = checked.pop("idle_timeout")
        checked["idle"] = None if idle is None else _length(idle, "idle_timeout")
    return Changes(**checked)


def without_secrets(changes: Changes, redactor: Incoming | None) -> Changes:
    """The same settings, definite secrets taken out of title, tags, endpoint and metadata."""
    if redactor is None:
        return changes
    clean: dict[str, Any] = {}
    for name in ("title", "endpoint"):
        value = getattr(changes, name)
        if isinstance(value, str):
            clean[name] = redactor.text(value)
    if changes.tags is not msgspec.UNSET:
        clean["tags"] = tuple(redactor.text(tag) for tag in changes.tags)
    if changes.metadata is not msgspec.UNSET:
        clean["metadata"] = msgspec.Raw(redactor.body(bytes(changes.metadata)))
    return msgspec.structs.replace(changes, **clean)


def _moment(expires_at: datetime | str | None) -> int | None:
    if expires_at is None:
        return None
    if expires_at == "never":
        return NEVER
    if not isinstance(expires_at, datetime) or expires_at.tzinfo is None:
        raise InvalidError(f"expires_at is a datetime with a time zone, or 'never', not {expires_at!r}")
    return microseconds(expires_at)


def _length(duration: timedelta | float, what: str) -> int:
    """A duration, given as such or in seconds: more than nothing, at most a hundred years."""
    if isinstance(duration, (int, float)) and not isinstance(duration, bool) and abs(duration) < 1e10:
        duration = timedelta(seconds=duration)
    if not isinstance(duration, timedelta) or not timedelta(0) < duration <= MAX_DURATION:
        raise InvalidError(f"{what} is a duration of more than 0 and at most 36500 days, not {duration!r}")
    return duration // timedelta(microseconds=1)


def _check_text(text: str, what: str) -> None:
    if not isinstance(text, str):
        raise InvalidError(f"{what} must be text, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidError(f"{what} {text!r} is not valid Unicode (lone surrogate)") from exc


def initial(method: str, given: Mapping[str, Any]) -> Changes:
    """The settings of a new session. None, and a list without tags, set nothing."""
    check_names(method, given)
    present = {name: value for name, value in given.items() if value is not None}
    if not present.get("tags", True):
        del present["tags"]
    return changes_of(present)


def updated(method: str, given: Mapping[str, Any]) -> Changes:
    """The settings that a session gets instead of those that it has."""
    check_names(method, given)
    return changes_of(given)


def check_names(method: str, given: Mapping[str, Any]) -> None:
    """TypeError for a name that is no setting, as Python raises it for an argument that a function lacks."""
    known = SessionSettings.__annotations__
    for name in given:
        if name not in known:
            from difflib import get_close_matches  # slow to import, and only mistakes need it

            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise TypeError(f"{method}() has no setting {name!r}: {hint}The settings are {', '.join(known)}")


def normalised(path: str | os.PathLike[str]) -> str:
    """The one name of a directory: absolute, symlinks resolved, whether it exists or not."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise InvalidError(f"workspace must be text, not {type(text).__name__}")
    if not text:
        raise InvalidError("a workspace cannot be empty: name a directory ('.' is the present one), or None")
    try:
        resolved = os.path.realpath(text)
        resolved.encode()
    except ValueError as exc:  # a NUL, or bytes that are no text
        raise InvalidError(f"{text!r} cannot be a workspace: {exc}") from exc
    return resolved


# ── Creating, changing, naming and deleting sessions ──────────────────────────────────────────────

DAY: Final = 86_400_000_000
_IN_ROW: Final = ("title", "workspace")


def _given(changes: Changes) -> dict[str, Json]:
    values = {name: getattr(changes, name) for name in changes.__struct_fields__}
    return {name: value for name, value in values.items() if value is not msgspec.UNSET}


def check_free(reader: Reader, id: str) -> None:
    """SessionExistsError: a session, or an alias, has this id."""
    found = find(reader, id)
    if found is not None:
        raise SessionExistsError(id, None if found.id == id else found.id)


def create(tx: Transaction, id: str, changes: Changes, now: int, created: int | None = None) -> SessionRow:
    """`created`: when it began elsewhere; that is its last activity too, unless it lies in the future."""
    check_free(tx, id)
    created = now if created is None else created
    row = SessionRow(0, id, 0, created, min(created, now), None, EMPTY, False, None, False, "", None)
    row, details = _changed(row, Details(), changes)
    sid = tx.add_session(row, details)
    return msgspec.structs.replace(row, sid=sid, tree=sid)


def open_or_create(
    tx: Transaction, id: str, changes: Changes, now: int, created: int | None = None
) -> SessionRow:
    return find(tx, id) or create(tx, id, changes, now, created)


def upsert(
    tx: Transaction, id: str, changes: Changes, host: Host, created: int | None, active: int | None
) -> SessionRow:
    """Create a session, or change one. `active`: when it was last active elsewhere; that only counts if it is
    newer than what is known here, and never as later than now."""
    now = host.now()
    seen = None if active is None else min(active, now)
    row = find(tx, id)
    if row is None:
        row = create(tx, id, changes, now, seen if created is None else created)
    else:
        update(tx, Access(row.sid, row.id, host), changes)
    if seen is not None:
        touch(tx, Access(row.sid, row.id, host), seen)
    return row


def update(tx: Transaction, access: Access, changes: Changes) -> None:
    row = require_write_beside(tx, access)
    details = tx.get_details(row.sid)
    new_row, new_details = _changed(row, details, changes)
    if changes.title is None:
        told = tx.get_record(row.sid, "key", LOAD_STATE)
        own = None if told is None else own_title(told)
        new_row = msgspec.structs.replace(
            new_row, title=own or title_at(tx, row.head), has_title=own is not None
        )
    if (new_details.expires, new_details.idle, new_details.tags) != (
        details.expires, details.idle, details.tags
    ):  # fmt: skip
        new_row = msgspec.structs.replace(new_row, due=0)
    if new_row != row:
        tx.set_session(new_row)
    if new_details != details:
        tx.set_details(row.sid, new_details)
    if new_row != row or new_details != details:
        _tell(tx, row, access)


def metadata_of(values: Mapping[str, Json], redactor: Incoming | None) -> dict[str, Json]:
    """Check values of single keys."""
    encoded = encode_json(dict(values), what="metadata")
    if redactor is not None:
        encoded = redactor.body(encoded)
    clean: dict[str, Json] = decode_json(encoded)
    return clean


def set_metadata(tx: Transaction, access: Access, values: Mapping[str, Json]) -> None:
    """Set single keys; None takes one away."""
    row = require_write_beside(tx, access)
    before = checks.metadata(row.id, tx.get_details(row.sid))
    taken = {name for name, value in values.items() if value is None}
    after = {name: value for name, value in {**before, **values}.items() if name not in taken}
    update(tx, access, changes_of({"metadata": after}))


def _tell(tx: Transaction, row: SessionRow, access: Access) -> None:
    """Settings do not count as activity: watchers, who look at what is active, are told."""
    now = access.host.now()
    if row.updated < now - RECENT:
        notice(tx, row.sid, now)


def _changed(row: SessionRow, details: Details, changes: Changes) -> tuple[SessionRow, Details]:
    given = _given(changes)
    in_row: dict[str, Json] = {name: given.pop(name) for name in _IN_ROW if name in given}
    if "title" in in_row:
        in_row["has_title"] = in_row["title"] is not None
    return msgspec.structs.replace(row, **in_row), msgspec.structs.replace(details, **given)


def touch(tx: Transaction, access: Access, now: int) -> None:
    row = require_write_beside(tx, access)
    if now > row.updated:
        tx.set_session(msgspec.structs.replace(row, updated=now))


def add_alias(tx: Transaction, access: Access, alias: str, *, move: bool) -> None:
    row = require_write_beside(tx, access)
    sid = row.sid
    holder = find(tx, alias)
    if holder is not None and holder.sid == sid:
        return
    if holder is not None:
        if not move or holder.id == alias:
            raise AliasExistsError(alias, holder.id)
        _forget_alias(tx, holder.sid, alias)
    tx.put_record(STORE_WIDE, "alias", alias, str(sid).encode())
    details = tx.get_details(sid)
    tx.set_details(sid, msgspec.structs.replace(details, aliases=(*details.aliases, alias)))
    _tell(tx, row, access)


def remove_alias(tx: Transaction, access: Access, alias: str) -> bool:
    row = require_write_beside(tx, access)
    if tx.get_record(STORE_WIDE, "alias", alias) != str(row.sid).encode():
        return False
    tx.drop_record(STORE_WIDE, "alias", alias)
    _forget_alias(tx, row.sid, alias)
    _tell(tx, row, access)
    return True


def _forget_alias(tx: Transaction, sid: int, alias: str) -> None:
    details = tx.get_details(sid)
    kept = tuple(name for name in details.aliases if name != alias)
    tx.set_details(sid, msgspec.structs.replace(details, aliases=kept))


Chooses: TypeAlias = Callable[[Reader, Listed], bool]
"""Whether a subagent goes along with the session that it works for."""


def every_one(_: Reader, one: Listed) -> bool:
    return True


def delete(
    tx: Transaction, id: str, now: int, host: Host, *, force: bool, along: Chooses = every_one
) -> bool:
    """Put the session in the trash, with its subagents. Its forks are not touched, nor is any entry."""
    row = find(tx, id)
    if row is None:
        return False
    family = [row, *(one.row for one in subagents_of(tx, row.id) if along(tx, one))]
    for member in family if not force else ():
        refuse_if_held(tx, member, host)
    for member in family:
        trash(tx, member, now, host)
    return True


def trash(tx: Transaction, row: SessionRow, now: int, host: Host) -> None:
    if row.fence:
        row = end_lease(tx, row, host)
    tx.set_session(msgspec.structs.replace(row, deleted=max(now, row.updated), due=0))


def delete_all(tx: Transaction, now: int, host: Host, *, force: bool) -> int:
    """Put every session in the trash; how many."""
    if not force:
        refuse_if_any_held(tx, host)
    count = 0
    while found := tx.list_sessions(SessionQuery(limit=1000)):
        for one in found:
            trash(tx, one.row, now, host)
        count += len(found)
    return count


def refuse_if_any_held(reader: Reader, host: Host) -> None:
    for one in reader.list_sessions(SessionQuery(limit=2**31, status=RUNNING)):
        refuse_if_held(reader, one.row, host)


def restore(tx: Transaction, id: str, now: int, *, along: Chooses = every_one) -> SessionRow:
    """Bring a session back from the trash, with its subagents that are there too. A subagent whose id is in
    use again stays in the trash."""
    row = find_deleted(tx, id)
    if row is None:
        raise SessionNotFoundError(id)
    check_free(tx, row.id)
    restored = _restored(tx, row, now)
    for one in subagents_of(tx, row.id, deleted=(False, True)):
        if one.row.deleted is not None and along(tx, one) and find(tx, one.row.id) is None:
            _restored(tx, one.row, now)
    return restored


def _restored(tx: Transaction, row: SessionRow, now: int) -> SessionRow:
    restored = msgspec.structs.replace(row, deleted=None, due=0)
    tx.set_session(restored)
    notice(tx, row.sid, now)
    for alias in tx.get_details(row.sid).aliases:
        # What was an alias of this session may lead elsewhere by now: it stays there.
        if tx.get_record(STORE_WIDE, "alias", alias) != str(row.sid).encode():
            _forget_alias(tx, row.sid, alias)
        elif tx.find_session(alias) is not None:
            tx.drop_record(STORE_WIDE, "alias", alias)
            _forget_alias(tx, row.sid, alias)
    return restored


def set_var(tx: Transaction, access: Access, name: str, value: bytes) -> None:
    sid = require_write(tx, access).sid
    tx.put_record(sid, "var", name, value)


def delete_var(tx: Transaction, access: Access, name: str) -> bool:
    sid = require_write(tx, access).sid
    return tx.drop_record(sid, "var", name)


def listed_info(reader: Reader, one: Listed) -> SessionInfo:
    """The session as it is listed; one that cannot be read says what is wrong with it."""
    damage = one.damage
    if not damage:
        try:
            return info_of(reader, one.row, one.details, one.run)
        except CorruptSessionError as error:
            damage = error.reason
        except CorruptError as error:
            damage = str(error)
    row = one.row
    return SessionInfo(
        id=row.id,
        title=row.title,
        title_is_auto=row.title is not None and not row.has_title,
        preview=snippet(row.preview[:PREVIEW_KEPT], PREVIEW_LENGTH),
        workspace=row.workspace,
        workspace_given=None,
        tags=(),
        vendor=None,
        endpoint=None,
        model=None,
        metadata={},
        aliases=(),
        created_at=_shown_time(row.created),
        updated_at=_shown_time(row.updated),
        deleted_at=None if row.deleted is None else _shown_time(row.deleted),
        messages=row.head.messages,
        user_turns=row.head.turns,
        entries=row.head.position + 1,
        bytes=row.head.size,
        head=Head("", NOWHERE),
        hash=row.head.digest.hex(),
        forked_from=None,
        status=STATUSES[row.status],
        run=None,
        epoch=row.epoch,
        damaged=damage,
    )


def _shown_time(moment: int) -> datetime:
    return utc(moment if is_time(moment) else 0)


def info_of(reader: Reader, row: SessionRow, details: Details, run: bytes | None) -> SessionInfo:
    origin = details.origin
    bounded = details.expires is not None and details.expires != NEVER
    metadata = checks.metadata(row.id, details)
    head = head_of(reader, row.head)
    return SessionInfo(
        id=row.id,
        title=row.title,
        title_is_auto=row.title is not None and not row.has_title,
        preview=snippet(row.preview, PREVIEW_LENGTH),
        workspace=row.workspace,
        workspace_given=details.workspace_given,
        tags=details.tags,
        vendor=details.vendor,
        endpoint=details.endpoint,
        model=details.model,
        agent=agent_of(metadata),
        parent=parent_of(metadata),
        metadata=metadata,
        aliases=details.aliases,
        created_at=utc(row.created),
        updated_at=utc(row.updated),
        deleted_at=None if row.deleted is None else utc(row.deleted),
        messages=row.head.messages,
        user_turns=row.head.turns,
        entries=row.head.position + 1,
        bytes=row.head.size,
        head=head,
        hash=row.head.digest.hex(),
        forked_from=ForkPoint(origin.session, Head(origin.uid, origin.position)) if origin else None,
        status=STATUSES[row.status],
        run=run_info(run),
        epoch=row.epoch,
        expires_at=utc(details.expires) if bounded and details.expires is not None else None,
        never_expires=details.expires == NEVER,
        idle_timeout=None if details.idle is None else timedelta(microseconds=details.idle),
        agent_branch=None if details.agent is None else agent_branch(details.agent, head),
    )


def agent_branch(tip: AgentTip, head: Head) -> AgentBranch:
    """Where the agent of a session stands, whose own head is this one."""
    there = Head(tip.uid, tip.position)
    return AgentBranch(
        head=there,
        new=0 if there == head else max(0, tip.messages - tip.left),
        written_at=None if tip.time == NO_TIME else utc(tip.time),
        turn=tip.turn or None,
    )


def filters(
    workspace: str | os.PathLike[str] | None, tag: str | Sequence[str] | None
) -> tuple[str | None, tuple[str, ...]]:
    """What `workspace=` and `tag=` stand for, checked: sessions that work there, and have all these tags."""
    tags = () if tag is None else (tag,) if isinstance(tag, str) else tag
    place = None if workspace is None else normalised(workspace)
    return place, tuple(check_id(name, "tag") for name in tags)


MOST_LATEST: Final = 50
"""Sessions that are looked at once, to find the latest one."""


def latest(
    reader: Reader,
    workspace: str | os.PathLike[str] | None,
    tags: tuple[str, ...] = (),
    *,
    caller: str | None = None,
) -> SessionRow | None:
    """The session with the newest activity that has messages, and was made by no bound token but that of the
    caller: whoever goes on with it takes it for its own past."""
    place = None if workspace is None else normalised(workspace)
    query = SessionQuery(limit=1, workspace=place, tags=tags, nonempty=True)
    while found := reader.list_sessions(query):
        for one in found:
            is_marked = MADE_BY.encode() in bytes(one.details.metadata)  # most are not, and need no decoding
            if not is_marked or not is_anothers(checks.metadata(one.row.id, one.details), caller):
                return one.row
        after = (found[-1].row.updated, found[-1].row.id)
        query = msgspec.structs.replace(query, limit=MOST_LATEST, after=after)
    return None


def stats(reader: Reader, now: int, bytes_on_disk: int) -> Stats:
    """Totals of a store."""
    totals = without_leftovers(reader, reader.totals(now - DAY))
    usage = reader.sum_usage(None)
    return Stats(
        sessions=totals.sessions,
        deleted=totals.deleted,
        messages=totals.messages,
        entries=totals.entries,
        bytes=totals.size,
        bytes_on_disk=bytes_on_disk,
        by_status={name: totals.by_status.get(number, 0) for number, name in enumerate(STATUSES)},
        active_24h={name: totals.active.get(number, 0) for number, name in enumerate(STATUSES)},
        created_24h=totals.created,
        calls=sum(group.calls for group in usage),
        input_tokens=sum(group.input for group in usage),
        output_tokens=sum(group.output for group in usage),
    )
