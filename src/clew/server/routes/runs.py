"""Runs: a worker takes the lease of a session, and writes under it.

The lease is the client's. The server keeps nothing of it in memory, renews nothing and frees nothing: it may
be restarted, or be several processes, and the lease goes on until its worker ends it or its time is over.
"""

from __future__ import annotations

import asyncio
from functools import partial

from clew.core.runs.lease import Pauses
from clew.errors import LeaseHeldError, LeaseLostError
from clew.model import Checkpoint, LeaseInfo, Resumption
from clew.run import Run
from clew.server.call import ANY_LEASE, LEASE, Answer, Call
from clew.server.problems import Problem
from clew.server.routing import Routes, not_found, part_of
from clew.server.wire.runs import (
    CompletedRun,
    FailedRun,
    LeaseAnswer,
    NewRun,
    ResumeQuery,
    RunCheckpoint,
    StartedRun,
)
from clew.session import Session

routes = Routes()


@routes.post("/sessions/{id}/runs", answer=StartedRun, status=201)
async def start_run(call: Call, id: str, body: NewRun) -> Answer:
    """Take the lease of a session and start a run.

    While the lease holds, only writes that carry its secret in `Clew-Lease` are accepted; others get 423.
    A worker that lost its lease gets 409 `lease_lost` for every write. `Clew-Lease: *` writes whoever holds
    the lease, as for a remark from outside. Renew it before `expires_at`: it outlives connections and
    restarts of the server, and ends by itself when its worker is gone. If the answer to this request is
    lost, the lease runs out; `steal` takes it at once.
    """
    session = await call.server.in_thread(partial(call.session, id))
    pauses = Pauses(body.wait)
    while True:
        try:
            started = await call.server.in_thread(partial(_start, call, session, body))
        except LeaseHeldError:
            pause = pauses.next()
            if pause is None:
                raise
            await asyncio.sleep(pause)
        else:
            place = call.url(f"/api/v1/sessions/{part_of(session.id)}/runs/{started.epoch}")
            return Answer(value=started, headers={"location": place})


def _start(call: Call, session: Session, body: NewRun) -> StartedRun:
    run = session.run(
        body.request,
        task=body.task,
        lease=body.lease,
        owner=body.owner or call.principal.name,
        steal=body.steal,
        detached=True,
    )
    lease = run.lease
    if lease is None or lease.epoch != run.epoch:
        raise LeaseLostError(session.id, run.epoch, lease.epoch if lease else run.epoch)
    return StartedRun(
        epoch=run.epoch, secret=run.secret, owner=run.owner, task=run.task, expires_at=lease.expires_at
    )


@routes.get("/sessions/{id}/lease", answer=LeaseAnswer)
def get_lease(call: Call, id: str) -> LeaseAnswer:
    """Who works on a session now, and until when unless the lease is renewed."""
    return LeaseAnswer(call.session(id).lease)


@routes.put("/sessions/{id}/runs/{epoch}", answer=LeaseInfo)
def renew_run(call: Call, id: str, epoch: str) -> LeaseInfo:
    """Renew the lease of a run, for as long as it was taken.

    Needs `Clew-Lease`. A third of the time that the lease lasts is a good pause between two renewals.
    """
    return _run(call, id, epoch).renew()


@routes.post("/sessions/{id}/runs/{epoch}/complete", status=204)
def complete_run(call: Call, id: str, epoch: str, body: CompletedRun) -> None:
    """End a run well, and give its lease back.

    Needs `Clew-Lease`. If the answer was lost and a repeat says `lease_lost`, the `run` of the session tells
    whether it had ended.
    """
    _run(call, id, epoch).complete(body.response)


@routes.post("/sessions/{id}/runs/{epoch}/fail", status=204)
def fail_run(call: Call, id: str, epoch: str, body: FailedRun) -> None:
    """End a run with an error, and give its lease back.

    Needs `Clew-Lease`.
    """
    _run(call, id, epoch).fail(body.error)


@routes.post("/sessions/{id}/runs/{epoch}/close", status=204)
def close_run(call: Call, id: str, epoch: str) -> None:
    """End a run without an outcome, give its lease back, and close the session.

    Needs `Clew-Lease`.
    """
    _run(call, id, epoch).close()


@routes.post("/sessions/{id}/runs/{epoch}/checkpoints", answer=Checkpoint, status=201)
def checkpoint_run(call: Call, id: str, epoch: str, body: RunCheckpoint) -> Checkpoint:
    """Name the head as the point to resume from.

    Needs `Clew-Lease`. Kept with it: position, iteration, tokens used so far, task and `state`.
    409 `open_calls` while tool calls wait for their results, unless `force` is set.
    """
    return _run(call, id, epoch).checkpoint(
        body.name,
        state=body.state,
        iteration=body.iteration,
        system_prompt=body.system_prompt,
        tools_hash=body.tools_hash,
        model=body.model,
        force=body.force,
    )


@routes.get("/sessions/{id}/resume", answer=Resumption)
def resume(call: Call, id: str, query: ResumeQuery) -> Resumption:
    """Where to go on: the newest checkpoint that a run set, with the messages up to it.

    `changed` names what is not as it was then, of what the parameters say.
    """
    return call.session(id).resume(
        system_prompt=query.system_prompt, tools_hash=query.tools_hash, model=query.model
    )


def _run(call: Call, id: str, epoch: str) -> Run:
    """The run of the lease that the request shows."""
    session = call.session(id)
    given = call.header(LEASE)
    if given is None or given == ANY_LEASE:
        raise Problem(
            428,
            "lease_required",
            "The lease of the run is needed",
            "only the worker that holds the lease of a run may renew or end it",
            next="send the `secret` of the answer to POST …/runs as Clew-Lease",
        )
    if not (epoch.isascii() and epoch.isdigit()):
        raise not_found()
    run = session.attach(given)
    if run.epoch != int(epoch[:20]):
        raise LeaseLostError(session.id, int(epoch[:20]), run.epoch)
    return run
