"""Rights that one process and one thread at a time may have in a whole store: to sweep, to collect.

A claim is a lease that belongs to no session. Its holder renews it in every transaction that it
protects, so a process that was frozen cannot go on after another one took over.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from uuid_utils import uuid7

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.engine.host import Here
from clew.core.log.lease import Lease, decode_lease, encode_lease, expiry, judge, renewed
from clew.errors import LeaseHeldError, LeaseLostError
from clew.model import utc

Claim: TypeAlias = Literal["sweep", "objects"]

VERBS: Final[dict[Claim, str]] = {"sweep": "sweep it", "objects": "collect garbage"}


def take(tx: Transaction, what: Claim, here: Here, ttl: int) -> Lease:
    """LeaseHeldError: another process has it, and may still be alive."""
    refuse_if_taken(tx, what, here)
    now, known = here.moment(), _known(tx, what)
    fence = uuid7().int >> 1 & (2**62 - 1)
    epoch = known.epoch + 1 if known else 1
    lease = renewed(Lease(epoch, fence, here.name, ttl, now.wall, now.domain, 0, 0, here.me), now)
    tx.put_record(STORE_WIDE, "lease", what, encode_lease(lease))
    return lease


def refuse_if_taken(reader: Reader, what: Claim, here: Here) -> None:
    now, known = here.moment(), _known(reader, what)
    if known is not None and judge(known, now, is_gone=here.is_gone(known.holder)) == "held":
        held = f"{known.owner} holds the lease of this store to {VERBS[what]}"
        raise LeaseHeldError(None, known.owner, utc(expiry(known, now)), held)


def renew(tx: Transaction, what: Claim, lease: Lease, here: Here) -> None:
    """LeaseLostError: another process has it by now."""
    known = _known(tx, what)
    if known is None or not _is_same(known, lease):
        now, owner = (known.epoch, known.owner) if known else (0, None)
        lost = f"the lease of this store to {VERBS[what]}"
        raise LeaseLostError(None, lease.epoch, now, owner, lost)
    tx.put_record(STORE_WIDE, "lease", what, encode_lease(renewed(known, here.moment())))


def end(tx: Transaction, what: Claim, lease: Lease) -> bool:
    """Give it back; False: another process had taken it over."""
    known = _known(tx, what)
    return known is not None and _is_same(known, lease) and tx.drop_record(STORE_WIDE, "lease", what)


def _known(reader: Reader, what: Claim) -> Lease | None:
    value = reader.get_record(STORE_WIDE, "lease", what)
    return None if value is None else decode_lease(value)


def _is_same(one: Lease, other: Lease) -> bool:
    return (one.epoch, one.fence) == (other.epoch, other.fence)
