"""Status: what a session is doing, set without a lease."""

from __future__ import annotations

from collections.abc import Callable

from clew.model import SessionInfo
from clew.server.call import Answer, Call
from clew.server.routes.sessions import described
from clew.server.routing import Routes
from clew.server.wire.runs import CompletedRun, FailedRun
from clew.server.wire.sessions import StartedWork, StatusChanges
from clew.session import Session

routes = Routes()


@routes.post("/sessions/{id}/start", answer=SessionInfo)
def start_work(call: Call, id: str, body: StartedWork) -> Answer:
    """Set the status to running, without a lease.

    For a single writer. Several workers take a lease: `POST …/runs`. 409 `invalid_transition` if the session
    is closed.
    """
    return _set(call, id, lambda session: session.start(body.request, task=body.task))


@routes.post("/sessions/{id}/complete", answer=SessionInfo)
def complete_work(call: Call, id: str, body: CompletedRun) -> Answer:
    """End the work well. The last word counts: it takes the place of an outcome that is there already."""
    return _set(call, id, lambda session: session.complete(body.response))


@routes.post("/sessions/{id}/fail", answer=SessionInfo)
def fail_work(call: Call, id: str, body: FailedRun) -> Answer:
    """End the work with an error, whose text is kept."""
    return _set(call, id, lambda session: session.fail(body.error))


@routes.post("/sessions/{id}/close", answer=SessionInfo)
def close_session(call: Call, id: str) -> Answer:
    """Close a session: no run starts until it is reopened. Everything is kept."""
    return _set(call, id, Session.close)


@routes.post("/sessions/{id}/reopen", answer=SessionInfo)
def reopen_session(call: Call, id: str) -> Answer:
    """Make a closed or expired session pending again. One that is open stays as it is."""
    return _set(call, id, Session.reopen)


@routes.get("/sessions/{id}/status-changes", answer=StatusChanges)
def list_status_changes(call: Call, id: str) -> StatusChanges:
    """Every change of status, oldest first, with who made it and when."""
    return StatusChanges(call.session(id).status_changes())


def _set(call: Call, id: str, work: Callable[[Session], None]) -> Answer:
    def both(session: Session) -> SessionInfo:
        work(session)
        return session.info

    return described(call, call.change(call.session(id), both))
