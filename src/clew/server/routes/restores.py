"""Restores: files of the server's own machine are changed. Off, unless the server was started so."""

from __future__ import annotations

from clew.model.files import RestoreReport
from clew.server.call import Call
from clew.server.routes.moves import check_files
from clew.server.routing import Routes
from clew.server.wire.files import PendingRestores, RestoreRequest, RestoreStep

routes = Routes()


@routes.post("/restores", answer=RestoreReport, scope="files", slow=True)
def restore(call: Call, body: RestoreRequest) -> RestoreReport:
    """Make a directory what it was in a snapshot.

    Only on a server that was started with `--allow files`, and asked from the same machine. The present
    state is kept first: `undo` brings it back. `dry_run` has to be given.
    """
    check_files(call)
    return call.store.restore(
        body.snapshot, body.root, paths=body.paths, dry_run=body.dry_run, on_conflict=body.on_conflict
    )


@routes.get("/restores", answer=PendingRestores, scope="files")
def list_restores(call: Call) -> PendingRestores:
    """Restores that were cut off half-way, to be finished or undone."""
    return PendingRestores(call.store.pending_restores())


@routes.post("/restores/{id}/undo", answer=RestoreReport, scope="files", slow=True)
def undo_restore(call: Call, id: str, body: RestoreStep) -> RestoreReport:
    """Bring back every byte that a restore replaced or removed, be it finished or cut off.

    As for `restore`: `--allow files`, the same machine, and `dry_run` has to be given.
    """
    check_files(call)
    return call.store.undo_restore(id, body.root, dry_run=body.dry_run)


@routes.post("/restores/{id}/finish", answer=RestoreReport, scope="files", slow=True)
def finish_restore(call: Call, id: str, body: RestoreStep) -> RestoreReport:
    """Go on with a restore that was cut off.

    A head that was to move with it moves too. As for `restore`: `--allow files`, the same machine, and
    `dry_run` has to be given.
    """
    check_files(call)
    return call.store.finish_restore(id, body.root, dry_run=body.dry_run)
