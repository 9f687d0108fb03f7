"""Checkpoints: names of points, to come back to."""

from __future__ import annotations

from clew.errors import CheckpointNotFoundError
from clew.model import Checkpoint
from clew.server.call import Answer, Call
from clew.server.routes.moves import check_files, refuse_expectation
from clew.server.routing import Routes
from clew.server.wire.checkpoints import CheckpointBody, Checkpoints
from clew.session import Session

routes = Routes()


@routes.get("/sessions/{id}/checkpoints", answer=Checkpoints)
def list_checkpoints(call: Call, id: str) -> Checkpoints:
    """All checkpoints of a session, oldest first."""
    return Checkpoints(call.session(id).checkpoints())


@routes.get("/sessions/{id}/checkpoints/{name}", answer=Checkpoint)
def get_checkpoint(call: Call, id: str, name: str) -> Checkpoint:
    """One checkpoint: where it points, and what was kept with it."""
    return call.session(id).get_checkpoint(name)


@routes.put("/sessions/{id}/checkpoints/{name}", answer=Checkpoint, slow=True)
def set_checkpoint(call: Call, id: str, name: str, body: CheckpointBody) -> Checkpoint:
    """Name the head, to come back to; again: move the name.

    With `If-Match`, only if the head is the one that was read.
    """
    session = call.session(id)
    if body.files is not None:
        check_files(call)
        refuse_expectation(call)
        return session.checkpoint(
            name, state=body.state, files=body.files, include=body.include, exclude=body.exclude
        )

    def work(inside: Session) -> Checkpoint:
        return inside.checkpoint(name, state=body.state)

    return call.change(session, work)


@routes.delete("/sessions/{id}/checkpoints/{name}", status=204)
def delete_checkpoint(call: Call, id: str, name: str) -> Answer:
    """Forget a checkpoint. The entries stay."""
    session = call.session(id)
    if not session.delete_checkpoint(name):
        raise CheckpointNotFoundError(session.id, name, f"session {session.id!r} has no checkpoint {name!r}")
    return Answer(status=204)
