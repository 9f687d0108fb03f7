"""Taking, renewing and losing the right to work on a session."""

from __future__ import annotations

from typing import Final

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.engine.host import Here
from clew.core.log.lease import Lease, decode_lease, encode_lease, expiry, judge, renewed
from clew.core.log.rows import INTERRUPTED, RUNNING, SessionRow
from clew.core.runs.access import Access, end_lease, is_held, lease_of, live, refuse_if_held
from clew.core.runs.status import begin, change
from clew.model import LeaseInfo, utc

ERA_BITS: Final = 32
"""So many leases of a session may be taken in one era of its storage."""


class Bid(msgspec.Struct, frozen=True):
    """What a worker asks for."""

    owner: str
    ttl: int
    fence: int
    request: bytes
    task: str | None
    steal: bool


def refuse_early(reader: Reader, access: Access) -> None:
    """Raise what `take` would raise of a lease that is held, without a transaction."""
    refuse_if_held(reader, live(reader, access.sid, access.id), access.here)


def take(tx: Transaction, access: Access, bid: Bid) -> Lease:
    """Take the lease and start the run, or raise LeaseHeldError."""
    row, here = live(tx, access.sid, access.id), access.here
    if row.fence:
        if not bid.steal:
            refuse_if_held(tx, row, here)
        row = end_lease(tx, row, here, by=bid.owner)
    elif row.status == RUNNING:  # without a lease: no worker has the right to go on
        row = change(tx, row, INTERRUPTED, here.now(), by=bid.owner)
    epoch, now = max(row.epoch, tx.era << ERA_BITS) + 1, here.moment()
    row = begin(tx, row, now.wall, owner=bid.owner, epoch=epoch, request=bid.request, task=bid.task)
    lease = Lease(epoch, bid.fence, bid.owner, bid.ttl, now.wall, now.domain, 0, 0, here.me)
    lease = renewed(lease, now)
    tx.put_record(row.sid, "lease", "", encode_lease(lease))
    tx.set_session(msgspec.structs.replace(row, epoch=epoch, fence=bid.fence))
    return lease


def renew(tx: Transaction, access: Access) -> bool:
    """Make the lease last for another while: one small write. False: it is not in force any more."""
    value = tx.get_record(access.sid, "lease", "")
    lease = None if value is None else decode_lease(value)
    if lease is None or (lease.epoch, lease.fence) != (access.epoch, access.fence):
        return False
    tx.put_record(access.sid, "lease", "", encode_lease(renewed(lease, access.here.moment())))
    return True


def lease_info(reader: Reader, row: SessionRow, here: Here) -> LeaseInfo | None:
    """The lease, unless its holder is gone."""
    lease = lease_of(reader, row)
    now = here.moment()
    if lease is None or judge(lease, now, is_gone=here.is_gone(lease.holder)) != "held":
        return None
    return LeaseInfo(
        owner=lease.owner,
        epoch=lease.epoch,
        taken_at=utc(lease.taken),
        expires_at=utc(expiry(lease, now)),
    )


def interrupt_deserted(tx: Transaction, sid: int, here: Here) -> bool:
    """Mark a run whose holder is gone as interrupted; False if it is not so."""
    row = tx.get_session(sid)
    if row is None or row.deleted is not None or not row.fence or is_held(tx, row, here):
        return False
    end_lease(tx, row, here)
    return True
