"""Sessions: list, make, look at, change, delete, name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.conversation import sessions
from clew.core.conversation.points import find, subagents_of
from clew.core.conversation.sessions import info_of
from clew.core.log.rows import Listed, SessionName, SessionRow
from clew.core.maintenance import purge_and_scrub
from clew.core.retention.purge import purge
from clew.core.runs.access import refuse_if_held
from clew.errors import (
    AliasExistsError,
    CorruptError,
    InvalidError,
    InvalidQueryError,
    SessionDeletedError,
    SessionExistsError,
    SessionNotFoundError,
)
from clew.importers.short_ids import meant, short_ids, stands_for, was_shown_as
from clew.model import Json, SessionInfo
from clew.server.call import SETTINGS as IN_SESSION_TAG
from clew.server.call import Answer, Call, check_head, session_tag
from clew.server.problems import Problem
from clew.server.routing import Routes, part_of
from clew.server.wire.listed import forks_of_all, page_for, seen_info, used_by
from clew.server.wire.sessions import (
    Aliases,
    AliasQuery,
    DeleteQuery,
    ListedSession,
    NamedSession,
    NewSession,
    SessionPage,
    SessionPatch,
    SessionsQuery,
    SessionUsageQuery,
    Settings,
    listed,
)
from clew.server.wire.times import moment_of
from clew.session import Session
from clew.store import Store

routes = Routes()

T = TypeVar("T")

SHOWN: Final = 4
"""Sessions that a problem names."""
DEEPEST: Final = 200
"""Objects inside each other in metadata."""
MOST_PURGED: Final = 1000
"""Sessions of one id that one purge removes."""


# -- many


@routes.get("/sessions", answer=SessionPage)
def list_sessions(call: Call, query: SessionsQuery) -> Answer:
    """List sessions, newest activity first.

    Sessions that are not touched meanwhile come exactly once, on whatever page; one that becomes active
    moves to the front. A session that is damaged says so in `damaged`. There are no totals: counting would
    cost more than the page.
    """
    reach = call.principal.within(query.workspace, query.tag)
    if reach is None:
        return Answer(value=SessionPage((), None))
    workspace, tags = reach
    page = page_for(
        call.store,
        call.principal,
        status=query.status,
        workspace=workspace,
        project=query.project,
        tag=tags,
        where=_where(query),
        agent=query.agent,
        model=query.model,
        parent=query.parent,
        subagents=query.subagents,
        min_cost=query.min_cost,
        since=moment_of(query.since, "since"),
        until=moment_of(query.until, "until"),
        deleted=query.deleted,
        limit=query.limit,
        cursor=query.cursor,
        usage=query.usage,
    )
    seen = [as_seen(call, info) for info in page.sessions]
    if query.usage:
        forks = forks_of_all(call.store, call.principal, page.sessions)
        found = tuple(map(listed, seen, page.usage, forks))
    else:
        found = tuple(map(listed, seen))
    return Answer(value=SessionPage(found, page.cursor), headers=call.next_page(page.cursor))


def _where(query: SessionsQuery) -> dict[str, Json]:
    found: Json = {}
    if query.where is not None:
        try:
            found = msgspec.json.decode(query.where)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
            raise InvalidQueryError(f"where is a JSON object, not {query.where[:80]!r}") from exc
        if not isinstance(found, dict):
            raise InvalidQueryError(f"where is a JSON object, not {query.where[:80]!r}")
    return {**found, **query.where_values}


@routes.post("/sessions", answer=SessionInfo, status=201)
def create_session(call: Call, body: NewSession) -> Answer:
    """Make a session.

    409 `session_exists` if the id is taken, also by an alias. Without an id it gets one that sorts by time.
    """
    settings = call.new_settings(body.given())
    made = discreet(call, lambda: call.store.create(body.id, created_at=body.created_at, **settings))
    return described(call, made.info, status=201)


# -- one


@routes.put("/sessions/{id}", answer=SessionInfo)
def open_session(call: Call, id: str, body: Settings) -> Answer:
    """Open a session, or make it if there is none.

    The settings are those of a new one: a session that exists stays as it is. 201 says that it was made. With
    `If-None-Match: *` one that exists is refused with 412.
    """
    only_new = (call.header("if-none-match") or "").strip() == "*"
    settings = call.new_settings(body.given())
    call.check_lease(id)

    def work(store: Store) -> tuple[SessionInfo, bool]:
        found = store.find(id)
        if found is None:
            return store.create(id, created_at=body.created_at, **settings).info, True
        info = found.info
        if not call.principal.sees(info):
            raise SessionExistsError(id)
        if only_new:
            raise Problem(412, "session_exists", "The session exists", f"there is a session {id!r} already")
        return info, False

    info, is_new = discreet(call, lambda: call.store.transact(work))
    return described(call, info, status=201 if is_new else 200)


@routes.get("/sessions/{id}", answer=ListedSession)
def get_session(call: Call, id: str, query: SessionUsageQuery) -> Answer:
    """A session: counts, times, title, head, without its messages.

    The ETag changes with everything that is said here, so `If-None-Match` is answered with 304 until then.
    With `usage=true`, as lists with it give a session; subagents go on by themselves, so there is no ETag.
    """
    session = call.session(id)
    if not query.usage or call.principal.kind == "share":
        info = session.info
        return Answer(value=listed(as_seen(call, info)), etag=session_tag(info))
    info = session.info
    [forks] = forks_of_all(call.store, call.principal, [info])
    return Answer(value=listed(as_seen(call, info), used_by(session, call.principal), forks))


@routes.patch("/sessions/{id}", answer=SessionInfo)
def update_session(call: Call, id: str, body: SessionPatch) -> Answer:
    """Change the settings of a session, by a merge patch (RFC 7396).

    What is not named stays, null takes away; `metadata` are merged at every depth, in one transaction. With
    `If-Match` it is refused with 412 if the session, or its head, is not the one that was read.
    """
    given = body.given()

    def work(session: Session) -> SessionInfo:
        before = session.info
        _check_tag(call, before)
        changes = dict(given)
        if isinstance(changes.get("metadata"), dict):
            changes["metadata"] = merged(before.metadata, changes["metadata"])
        if changes:
            session.update(**call.changed_settings(before, changes))
        return session.info

    return described(call, call.change(call.session(id), work))


def _check_tag(call: Call, info: SessionInfo) -> None:
    """If-Match names the settings too, if it is the ETag of a session."""
    given = (call.header("if-match") or "").strip()
    if IN_SESSION_TAG in given and given.removeprefix("W/") != session_tag(info).removeprefix("W/"):
        raise Problem(
            412,
            "session_changed",
            "The session was changed",
            "its settings are not those that If-Match names",
            next="read the session again, then send the patch with its new ETag",
            headers={"etag": session_tag(info)},
        )


def merged(target: Json, patch: Json, depth: int = 0) -> Json:
    """A JSON value with a merge patch applied, by RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    if depth > DEEPEST:
        raise InvalidError(f"the patch is nested deeper than {DEEPEST} objects")
    found = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value, depth + 1)
    return found


@routes.delete("/sessions/{id}", status=204, slow=True)
def delete_session(call: Call, id: str, query: DeleteQuery) -> Answer:
    """Put a session in the trash, with its subagents; with `purge`, remove them for good.

    423 while a worker holds its lease, unless `force` is set. A purge needs the scope admin, rewrites the
    store, and takes as long as copying it. Forks keep what they share with the session.
    """
    if query.purge:
        if not call.principal.may("admin"):
            raise Problem(
                403, "forbidden", "The token does not allow this", "a purge needs the scope `admin`"
            )
        call.check_lease(id)
        if call.principal.is_bound:
            is_done = _purge_own(call, id, query)
        else:
            is_done = call.store.delete(id, purge=True, force=query.force, deleted=query.deleted)
    elif query.deleted:
        raise InvalidQueryError("deleted=true is for what is in the trash already: pass purge=true too")
    else:
        expected, session = call.expect, call.session(id)

        def work(store: Store) -> bool:
            check_head(store.get(session.id), expected)
            return trash_session(call, store, session.id, force=query.force)

        is_done = call.store.transact(work)
    if not is_done:
        raise SessionNotFoundError(id)
    return Answer(status=204)


def trash_session(call: Call, store: Store, id: str, *, force: bool = False) -> bool:
    """Put a session in the trash with those of its subagents that the caller sees; False if there is none."""
    scope = store._scope
    now = scope.now()
    return scope.run(
        lambda tx: sessions.delete(tx, id, now, scope.host, force=force, along=partial(_is_seen, call))
    )


def _is_seen(call: Call, reader: Reader, one: Listed) -> bool:
    return call.principal.sees(sessions.listed_info(reader, one))


def _purge_own(call: Call, id: str, query: DeleteQuery) -> bool:
    """Purge what is the caller's of all that has this id, or had it and is in the trash: one of these may be
    another's, whatever the present one is."""
    engine = call.store._engine

    def is_own(tx: Transaction, row: SessionRow) -> bool:
        info = info_of(tx, row, tx.get_details(row.sid), None)
        return call.principal.sees(info) and (row.deleted is not None or not query.deleted)

    def work(tx: Transaction) -> bool:
        known = [name.sid for name in tx.scan_ids(id, MOST_PURGED) if name.id == id]
        found = [tx.get_session(sid) for sid in known] or [find(tx, id)]
        own = [row for row in found if row is not None and is_own(tx, row)]
        own += [
            one.row
            for main in {row.id for row in own}
            if not query.deleted or tx.find_session(main) is None
            for one in subagents_of(tx, main, deleted=(True,) if query.deleted else (False, True))
            if _is_seen(call, tx, one)
        ]
        for row in own:
            if row.deleted is None and not query.force:
                refuse_if_held(tx, row, engine.host)
            purge(tx, row)
        return bool(own)

    return purge_and_scrub(engine, work, force=query.force)


@routes.post("/sessions/{id}/restore", answer=SessionInfo)
def restore_session(call: Call, id: str) -> Answer:
    """Bring a session back from the trash, with its subagents that are there too.

    The one deleted last if there are several of this id. 409 `session_exists` if its id is in use again.
    """
    call.check_lease(id)

    def work(store: Store) -> SessionInfo:
        scope = store._scope
        now = scope.now()
        row = scope.run(lambda tx: sessions.restore(tx, id, now, along=partial(_is_seen, call)))
        info = store.get(row.id).info
        if not call.principal.sees(info):
            raise SessionNotFoundError(id)
        return info

    return described(call, discreet(call, lambda: call.store.transact(work)))


@routes.post("/sessions/{id}/touch", answer=SessionInfo)
def touch_session(call: Call, id: str) -> Answer:
    """Let a session count as active now: first in lists, and not idle.

    For work on it that adds no messages.
    """
    session = call.session(id)
    session.touch()
    return described(call, session.info)


# -- its other ids


@routes.get("/sessions/{id}/aliases", answer=Aliases)
def list_aliases(call: Call, id: str) -> Aliases:
    """The other ids by which a session is found."""
    return Aliases(call.session(id).info.aliases)


@routes.put("/sessions/{id}/aliases/{alias}", answer=Aliases)
def add_alias(call: Call, id: str, alias: str, query: AliasQuery) -> Aliases:
    """Give a session one more id to be found by.

    409 `alias_exists` if the alias leads to another session, unless `move` is set.
    """

    def work(session: Session) -> Aliases:
        if query.move and call.principal.is_bound:
            _check_holder(call, session, alias)
        session.add_alias(alias, move=query.move)
        return Aliases(session.info.aliases)

    return discreet(call, lambda: call.change(call.session(id), work))


def _check_holder(call: Call, session: Session, alias: str) -> None:
    """An alias of a session that is not the caller's stays where it is."""
    with session._scope.read() as reader:
        row = find(reader, alias)
        holder = None if row is None else info_of(reader, row, reader.get_details(row.sid), None)
    if holder is not None and not call.principal.sees(holder):
        raise AliasExistsError(alias, holder.id)


@routes.delete("/sessions/{id}/aliases/{alias}", status=204)
def remove_alias(call: Call, id: str, alias: str) -> Answer:
    """Take an alias away. The session and its other ids stay."""
    if not call.session(id).remove_alias(alias):
        raise Problem(404, "alias_not_found", "There is no such alias", f"{alias!r} does not lead to {id!r}")
    return Answer(status=204)


# -- the session that a text means: a short id, as people see and type it, or any other name


@routes.get("/names/{text}", answer=NamedSession)
def find_named(call: Call, text: str) -> NamedSession:
    """Find the session that a text means: its id, an alias, its short id, or another beginning of its id.

    409 `ambiguous_id` if it fits several sessions; `sessions` has the first of them. A token that is bound to
    some sessions looks among these only, and gets whole ids.
    """
    found = _seen(call, text)
    living = [one for one in found if not one.deleted]
    if not living or any(one.id == text and one.deleted for one in found):
        raise SessionDeletedError(found[0].id) if found else SessionNotFoundError(text)
    living += [one for one in found if one.deleted and was_shown_as(text, one.id)]
    shown = _described(call, living[:SHOWN])
    if len(living) > 1 or not stands_for(text, living[0].id):
        many = f"{len(living)} sessions begin" if len(living) > 1 else "only a subagent or a fork begins"
        raise Problem(
            409,
            "ambiguous_id",
            "The id fits no single session",
            f"{many} with {text!r}: {', '.join(one.short_id for one in shown)}",
            next="send more letters of the id",
            fields={"sessions": shown},
        )
    return shown[0]


def _seen(call: Call, text: str) -> list[SessionName]:
    with call.store._engine.read() as reader:
        found = meant(reader, text)
        if not call.principal.is_bound:
            return found
        seen = []
        for one in found:
            try:
                row = reader.get_session(one.sid)
                info = None if row is None else info_of(reader, row, reader.get_details(one.sid), None)
            except CorruptError:
                continue
            if info is not None and call.principal.sees(info):
                seen.append(one)
        return seen


def _described(call: Call, found: list[SessionName]) -> list[NamedSession]:
    """With whole ids for a bound caller: how short one can be tells of sessions that are another's."""
    is_bound = call.principal.is_bound
    shown = {} if is_bound else short_ids(call.store, [one.id for one in found])
    return [NamedSession(one.id, shown.get(one.id, one.id), _title(call, one)) for one in found]


def _title(call: Call, one: SessionName) -> str | None:
    with call.store._engine.read() as reader, suppress(CorruptError):
        row = reader.get_session(one.sid)
        return None if row is None else row.title
    return None  # it cannot be read


# -- answers


def described(call: Call, info: SessionInfo, *, status: int = 200) -> Answer:
    """A session as an answer, with its ETag."""
    headers: dict[str, str] = {}
    if status == 201:
        headers["location"] = place_of(call, info.id)
    return Answer(value=as_seen(call, info), status=status, etag=session_tag(info), headers=headers)


def as_seen(call: Call, info: SessionInfo) -> SessionInfo:
    """A session without the name of a base that is not the caller's to see."""
    if info.forked_from is None or not call.principal.is_bound:
        return info
    with call.server.store._engine.read() as reader:
        return seen_info(call.principal, reader, info)


def place_of(call: Call, id: str) -> str:
    """The path of a session."""
    return call.url(f"/api/v1/sessions/{part_of(id)}")


def discreet(call: Call, work: Callable[[], T]) -> T:
    """Do something that may find an id taken; who may not see by which session is not told."""
    try:
        return work()
    except SessionExistsError as error:
        if call.principal.is_bound:
            raise SessionExistsError(error.session) from None
        raise
    except AliasExistsError as error:
        if call.principal.is_bound:
            raise Problem(
                409,
                error.code,
                "The alias is taken",
                f"{error.alias!r} leads to another session",
                fields={"alias": error.alias},
            ) from None
        raise
