"""Leases: take, renew and lose the right to work on a session, and claims on the whole store."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec
from uuid_utils import uuid7

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.engine.host import Here
from clew.core.log.lease import Lease, decode_lease, encode_lease, expiry, judge, renewed
from clew.core.log.rows import INTERRUPTED, RUNNING, SessionRow
from clew.core.runs.access import Access, end_lease, is_held, lease_of, live, refuse_if_held
from clew.core.runs.status import begin, change
from clew.errors import LeaseHeldError, LeaseLostError
from clew.model import LeaseInfo, utc

# ── Rights that one process and one thread at a time may have in a whole store: to sweep, to collect ───
# A claim is a lease that belongs to no session. Its holder renews it in every transaction that it
# protects, so a process that was frozen cannot go on after another one took over.

Claim: TypeAlias = Literal["sweep", "objects"]

VERBS: Final[dict[Claim, str]] = {"sweep": "sweep it", "objects": "collect garbage"}


def take_claim(tx: Transaction, what: Claim, here: Here, ttl: int) -> Lease:
    """LeaseHeldError: another process has it, and may still be alive."""
    refuse_if_claimed(tx, what, here)
    now, known = here.moment(), _known(tx, what)
    fence = uuid7().int >> 1 & (2**62 - 1)
    epoch = known.epoch + 1 if known else 1
    lease = renewed(Lease(epoch, fence, here.name, ttl, now.wall, now.domain, 0, 0, here.me), now)
    tx.put_record(STORE_WIDE, "lease", what, encode_lease(lease))
    return lease


def refuse_if_claimed(reader: Reader, what: Claim, here: Here) -> None:
    now, known = here.moment(), _known(reader, what)
    if known is not None and judge(known, now, is_gone=here.is_gone(known.holder)) == "held":
        held = f"{known.owner} holds the lease of this store to {VERBS[what]}"
        raise LeaseHeldError(None, known.owner, utc(expiry(known, now)), held)


def renew_claim(tx: Transaction, what: Claim, lease: Lease, here: Here) -> None:
    """LeaseLostError: another process has it by now."""
    known = _known(tx, what)
    if known is None or not _is_same(known, lease):
        now, owner = (known.epoch, known.owner) if known else (0, None)
        lost = f"the lease of this store to {VERBS[what]}"
        raise LeaseLostError(None, lease.epoch, now, owner, lost)
    tx.put_record(STORE_WIDE, "lease", what, encode_lease(renewed(known, here.moment())))


def end_claim(tx: Transaction, what: Claim, lease: Lease) -> bool:
    """Give it back; False: another process had taken it over."""
    known = _known(tx, what)
    return known is not None and _is_same(known, lease) and tx.drop_record(STORE_WIDE, "lease", what)


def _known(reader: Reader, what: Claim) -> Lease | None:
    value = reader.get_record(STORE_WIDE, "lease", what)
    return None if value is None else decode_lease(value)


def _is_same(one: Lease, other: Lease) -> bool:
    return (one.epoch, one.fence) == (other.epoch, other.fence)


# ── Taking, renewing and losing the right to work on a session ────────────────────────────────────

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
