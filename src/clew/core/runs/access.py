"""May this handle write? Every operation on a session asks here first, inside its transaction."""

from __future__ import annotations

from typing import Final

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.engine.host import Host
from clew.core.engine.notices import notice
from clew.core.log.lease import Lease, decode_lease, expiry, judge
from clew.core.log.rows import INTERRUPTED, RUNNING, SessionRow
from clew.errors import LeaseHeldError, LeaseLostError, SessionDeletedError
from clew.model import utc

NO_FENCE: Final = -1
"""The fence of no lease that there ever was."""


class Access(msgspec.Struct, frozen=True):
    """A handle on a session: which one, and under which lease, if any."""

    sid: int
    id: str
    host: Host
    epoch: int = 0
    fence: int = 0
    """The secret of the lease under which this handle writes; 0: none."""
    ignores_lease: bool = False
    """Write even if another handle holds a lease."""

    def __repr__(self) -> str:  # the fence is a secret
        return f"<Access to {self.id!r}, epoch {self.epoch}>"


def live(reader: Reader, sid: int, id: str) -> SessionRow:
    """The session behind a handle, unless it was deleted."""
    row = reader.get_session(sid)
    if row is None or row.deleted is not None:
        raise SessionDeletedError(id)
    return row


def require_write(tx: Transaction, access: Access) -> SessionRow:
    """The session, for a write that changes the conversation, its status or its variables.

    LeaseLostError: the lease of this handle is not in force any more. LeaseHeldError: another handle's
    is. A lease whose holder is gone is ended here, so that its holder cannot come back to it.
    """
    row = live(tx, access.sid, access.id)
    if row.fence == access.fence and (not row.fence or row.epoch == access.epoch):
        return row
    if access.fence:
        raise _lost(tx, row, access)
    if access.ignores_lease:
        return row
    refuse_if_held(tx, row, access.host)
    return end_lease(tx, row, access.host)


def require_write_beside(tx: Transaction, access: Access) -> SessionRow:
    """The session, for a write beside the conversation: another handle's lease does not stop it."""
    row = live(tx, access.sid, access.id)
    if access.fence and (row.fence != access.fence or row.epoch != access.epoch):
        raise _lost(tx, row, access)
    return row


def held_lease(reader: Reader, access: Access) -> Lease:
    """The lease under which a handle writes. LeaseLostError: it is not in force any more."""
    row = live(reader, access.sid, access.id)
    lease = lease_of(reader, row)
    if lease is None or (row.epoch, row.fence) != (access.epoch, access.fence):
        raise _lost(reader, row, access)
    return lease


def _lost(tx: Reader, row: SessionRow, access: Access) -> LeaseLostError:
    lease = lease_of(tx, row)
    taken_over = lease is not None and lease.epoch != access.epoch
    return LeaseLostError(row.id, access.epoch, row.epoch, lease.owner if lease and taken_over else None)


def lease_of(reader: Reader, row: SessionRow) -> Lease | None:
    """The lease in force, whether or not its holder is still there."""
    value = reader.get_record(row.sid, "lease", "") if row.fence else None
    return None if value is None else decode_lease(value)


def is_held(reader: Reader, row: SessionRow, host: Host) -> bool:
    """Whether a lease is held by a process that may still be alive."""
    lease = lease_of(reader, row)
    return (
        lease is not None
        and judge(lease, host.moment(), is_gone=host.is_gone(lease.holder, lease.domain)) == "held"
    )


def refuse_if_held(reader: Reader, row: SessionRow, host: Host) -> None:
    lease = lease_of(reader, row)
    if lease is not None:
        now = host.moment()
        if judge(lease, now, is_gone=host.is_gone(lease.holder, lease.domain)) == "held":
            raise LeaseHeldError(row.id, lease.owner, utc(expiry(lease, now)))


def end_lease(tx: Transaction, row: SessionRow, host: Host, by: str | None = None) -> SessionRow:
    """End a lease that its holder does not give back; what it was running is interrupted."""
    from clew.core.runs.status import change  # the two need each other

    freed = msgspec.structs.replace(row, fence=0)
    if row.status == RUNNING:
        freed = change(tx, freed, INTERRUPTED, host.now(), by=by or host.name, epoch=row.epoch)
        notice(tx, row.sid, host.now())
    tx.drop_record(row.sid, "lease", "")
    tx.set_session(freed)
    return freed
