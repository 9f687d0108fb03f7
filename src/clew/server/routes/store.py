"""The store as a whole, and the server itself."""

from __future__ import annotations

from itertools import islice

import msgspec

from clew.core.conversation import sessions
from clew.core.log.grants import Scope
from clew.model import Facets, Json, Retention, SessionInfo, Stats, SweepReport
from clew.model.files import GcReport
from clew.server.call import Call
from clew.server.problems import Problem
from clew.server.routes.moves import check_files
from clew.server.routes.sessions import as_seen
from clew.server.routing import Routes
from clew.server.wire.store import (
    Diagnosis,
    DoctorQuery,
    FacetsQuery,
    GcRequest,
    Health,
    InterruptedQuery,
    LatestQuery,
    Me,
    NewRetention,
    Redaction,
    RemovalList,
    RemovalsQuery,
    SessionList,
    SweepRequest,
)
from clew.store import Store

routes = Routes()
outside = Routes(prefix="")


@outside.get("/health", answer=Health, scope=None)
def health(call: Call) -> Health:
    """Whether the server answers. Needs no token, and says nothing else."""
    return Health("ok")


@routes.get("/me", answer=Me)
def me(call: Call) -> Me:
    """Who the caller is, and what it may do."""
    one = call.principal
    scopes: tuple[Scope, ...] = ("read", "write", "files", "admin", "store")
    return Me(
        one.name,
        one.kind,
        tuple(filter(one.may, scopes)),
        one.workspace,
        one.tags,
        one.session,
        restores=_restores(call),
        read_only=call.server.settings.read_only,
    )


def _restores(call: Call) -> bool:
    try:
        check_files(call)
    except Problem:
        return False
    return not call.server.settings.read_only


@routes.get("/stats", answer=Stats)
def stats(call: Call) -> Stats:
    """Totals of the store: sessions, messages, bytes, tokens."""
    return call.store.stats()


@routes.get("/facets", answer=Facets)
def count_facets(call: Call, query: FacetsQuery) -> Facets:
    """What sessions can be listed by: projects, agents, models, tags, statuses, most frequent first.

    Each with how many sessions there are of it; sessions in the trash do not count. A token that is bound to
    some sessions gets what these have.
    """
    reach = call.principal.within(None)
    assert reach is not None  # nothing was asked for that it could not fit
    return call.store.facets(workspace=reach[0], tag=reach[1], limit=query.limit)


@routes.get("/latest", answer=SessionInfo)
def latest_session(call: Call, query: LatestQuery) -> SessionInfo:
    """The session with the newest activity that has messages.

    Sessions that another caller made with a token that is bound to a workspace or to tags are left out: an
    agent that goes on with the latest one takes it for its own past.
    """
    filters = call.principal.within(query.workspace)
    if filters is not None:
        with call.store._engine.read() as reader:
            row = sessions.latest(reader, *filters, caller=call.principal.id)
            if row is not None:
                run = reader.get_record(row.sid, "run", "")
                return as_seen(call, sessions.info_of(reader, row, reader.get_details(row.sid), run))
    raise Problem(
        404,
        "session_not_found",
        "No such session",
        "no session has messages" + (" there" if query.workspace else ""),
        next="GET /api/v1/sessions lists all",
    )


@routes.get("/interrupted", answer=SessionList)
def list_interrupted(call: Call, query: InterruptedQuery) -> SessionList:
    """List sessions whose run was cut off, last active first.

    The worker was killed, or froze until its lease ran out. GET …/resume tells where to go on.
    """

    def look(store: Store) -> list[SessionInfo]:
        found = (one.info for one in store.interrupted())
        visible = (as_seen(call, info) for info in found if call.principal.sees(info))
        return list(islice(visible, query.limit))

    # Looking gives a run whose worker is gone its status, unless nothing may be written.
    return SessionList(call.store.read(look) if call.server.settings.read_only else look(call.store))


@routes.get("/removals", answer=RemovalList)
def list_removals(call: Call, query: RemovalsQuery) -> RemovalList:
    """What sweeps have put in the trash, purged and removed, newest first."""
    return RemovalList(call.store.removals(limit=query.limit))


# -- rules


@routes.get("/retention", answer=Retention)
def get_retention(call: Call) -> Retention:
    """The rules by which sessions expire and are removed. Every rule is off (null) unless it is set."""
    return call.store.retention


@routes.put("/retention", answer=Retention, scope="admin")
def set_retention(call: Call, body: NewRetention) -> Retention:
    """Let these rules hold from the next sweep on, instead of those before.

    Rules that are left out are off: an empty object switches all of them off.
    """
    call.store.set_retention(Retention(**msgspec.structs.asdict(body)))
    return call.store.retention


@routes.get("/redaction", answer=Redaction)
def get_redaction(call: Call) -> Redaction:
    """Where definite secrets are replaced by markers before anything is stored."""
    return Redaction(policy=call.store.redaction)


@routes.put("/redaction", answer=Redaction, scope="admin")
def set_redaction(call: Call, body: Redaction) -> Redaction:
    """Let this policy hold for all that is stored from now on. What is stored stays as it is."""
    call.store.set_redaction(body.policy)
    return Redaction(policy=call.store.redaction)


# -- upkeep


@routes.post("/sweep", answer=SweepReport, scope="admin", slow=True)
def sweep(call: Call, body: SweepRequest) -> SweepReport:
    """Do what the rules of retention say, now: expire, trash, purge, remove messages.

    423 `lease_held`: another sweep of this store is under way.
    """
    return call.store.sweep(dry_run=body.dry_run, scrub=body.scrub)


@routes.post("/gc", answer=GcReport, scope="admin", slow=True)
def collect_garbage(call: Call, body: GcRequest) -> GcReport:
    """Remove contents of files that no snapshot, checkpoint or trash needs any more.

    423 `lease_held`: another one is under way.
    """
    return call.store.gc(dry_run=body.dry_run, thorough=body.thorough, merge=body.merge)


@routes.get("/doctor", answer=Diagnosis, scope="admin", slow=True)
def examine(call: Call, query: DoctorQuery) -> Diagnosis:
    """Check that conversations and snapshots are whole, for a bounded time.

    Nothing is changed or locked. `complete` says whether there was time for all of it.
    """
    report = call.store.verify(full=query.full, time_limit=query.time_limit)
    return Diagnosis(
        ok=report.ok,
        complete=report.complete,
        sessions=report.sessions,
        entries=report.entries,
        objects=report.objects,
        bytes=report.bytes,
        problems=report.details,
    )


@routes.get("/openapi.json", answer=None, scope=None)
def openapi(call: Call) -> dict[str, Json]:
    """This description of the API, as OpenAPI 3.1."""
    return call.server.router.description


routes.all += outside.all
