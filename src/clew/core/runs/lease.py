"""Leases: take, renew and lose the right to work on a session, and claims on the whole store."""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec
from uuid_utils import uuid7

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.engine.engine import EngineLike
from clew.core.engine.host import Host
from clew.core.log.ids import check_id, check_seconds
from clew.core.log.lease import Holder, Lease, Now, decode_lease, encode_lease, expiry, judge, renewed
from clew.core.log.rows import INTERRUPTED, RUNNING, SessionQuery, SessionRow
from clew.core.messages.codec import encode_json
from clew.core.runs.access import Access, end_lease, held_lease, is_held, lease_of, live, refuse_if_held
from clew.core.runs.status import begin, change, check_task
from clew.errors import LeaseHeldError, LeaseLostError, ReadOnlyError
from clew.model import Json, LeaseInfo, utc

if TYPE_CHECKING:
    from clew.core.redact.incoming import Incoming

# ── Rights that one process and one thread at a time may have in a whole store: to sweep, to collect ───
# A claim is a lease that belongs to no session. Its holder renews it in every transaction that it
# protects, so a process that was frozen cannot go on after another one took over.

Claim: TypeAlias = Literal["sweep", "objects"]

VERBS: Final[dict[Claim, str]] = {"sweep": "sweep it", "objects": "collect garbage"}


def take_claim(tx: Transaction, what: Claim, host: Host, ttl: int) -> Lease:
    """LeaseHeldError: another process has it, and may still be alive."""
    refuse_if_claimed(tx, what, host)
    now, known = host.moment(), _known(tx, what)
    fence = uuid7().int >> 1 & (2**62 - 1)
    epoch = known.epoch + 1 if known else 1
    lease = renewed(Lease(epoch, fence, host.name, ttl, now.wall, now.domain, 0, 0, host.me), now)
    tx.put_record(STORE_WIDE, "lease", what, encode_lease(lease))
    return lease


def refuse_if_claimed(reader: Reader, what: Claim, host: Host) -> None:
    now, known = host.moment(), _known(reader, what)
    if known is not None and judge(known, now, is_gone=host.is_gone(known.holder, known.domain)) == "held":
        held = f"{known.owner} holds the lease of this store to {VERBS[what]}"
        raise LeaseHeldError(None, known.owner, utc(expiry(known, now)), held)


def renew_claim(tx: Transaction, what: Claim, lease: Lease, host: Host) -> None:
    """LeaseLostError: another process has it by now."""
    known = _known(tx, what)
    if known is None or not _is_same(known, lease):
        now, owner = (known.epoch, known.owner) if known else (0, None)
        lost = f"the lease of this store to {VERBS[what]}"
        raise LeaseLostError(None, lease.epoch, now, owner, lost)
    tx.put_record(STORE_WIDE, "lease", what, encode_lease(renewed(known, host.moment())))


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

MOST_LISTED: Final = 2**31
ERA_BITS: Final = 32
"""So many leases of a session may be taken in one era of its storage."""


SHORTEST: Final = 0.1
LONGEST: Final = 86_400.0
"""Seconds that a lease may last."""
FIRST_PAUSE: Final = 0.01
LONGEST_PAUSE: Final = 0.25


class Bid(msgspec.Struct, frozen=True):
    """What a worker asks for."""

    owner: str
    ttl: int
    fence: int
    request: bytes
    task: str | None
    steal: bool
    holder: Holder
    """Empty: the worker is elsewhere, so only time tells that it is gone."""


def bid_of(
    host: Host,
    request: Json,
    *,
    task: str | None,
    lease: float,
    owner: str | None,
    steal: bool,
    detached: bool = False,
    redactor: Incoming | None = None,
) -> Bid:
    """A bid for the lease of a session, checked."""
    check_task(task)
    if owner is not None:
        check_id(owner, "owner")
    fence = int.from_bytes(os.urandom(8), "big") >> 2 or 1
    seconds = check_seconds(lease, "lease", least=SHORTEST, most=LONGEST)
    encoded = encode_json(request, what="request")
    if redactor is not None:
        encoded = redactor.body(encoded)
    holder = Holder() if detached else host.me
    return Bid(owner or host.name, int(seconds * 1e6), fence, encoded, task, bool(steal), holder)


class Pauses:
    """How long to wait between two attempts to take a lease; None when the time is up."""

    def __init__(self, wait: float | None) -> None:
        seconds = -math.inf if wait is None else check_seconds(wait, "wait", least=0)
        self._deadline = time.monotonic() + seconds
        self._pause = FIRST_PAUSE

    def next(self) -> float | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            return None
        pause, self._pause = self._pause, min(self._pause * 1.5, LONGEST_PAUSE)
        return min(pause, left)


def refuse_early(reader: Reader, access: Access) -> None:
    """Raise what `take` would raise of a lease that is held, without a transaction."""
    refuse_if_held(reader, live(reader, access.sid, access.id), access.host)


def take(tx: Transaction, access: Access, bid: Bid) -> Lease:
    """Take the lease and start the run, or raise LeaseHeldError."""
    row, host = live(tx, access.sid, access.id), access.host
    if row.fence:
        if not bid.steal:
            refuse_if_held(tx, row, host)
        row = end_lease(tx, row, host, by=bid.owner)
    elif row.status == RUNNING:  # without a lease: no worker has the right to go on
        row = change(tx, row, INTERRUPTED, host.now(), by=bid.owner)
    epoch, now = max(row.epoch, tx.era << ERA_BITS) + 1, host.moment()
    row = begin(tx, row, now.wall, owner=bid.owner, epoch=epoch, request=bid.request, task=bid.task)
    lease = Lease(epoch, bid.fence, bid.owner, bid.ttl, now.wall, now.domain, 0, 0, bid.holder)
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
    tx.put_record(access.sid, "lease", "", encode_lease(renewed(lease, access.host.moment())))
    return True


def renew_held(tx: Transaction, access: Access) -> LeaseInfo:
    """As `renew`, for a worker who asks: LeaseLostError if it is not in force any more."""
    now = access.host.moment()
    lease = renewed(held_lease(tx, access), now)
    tx.put_record(access.sid, "lease", "", encode_lease(lease))
    return _info(lease, now)


def lease_info(reader: Reader, row: SessionRow, host: Host) -> LeaseInfo | None:
    """The lease, unless its holder is gone."""
    lease = lease_of(reader, row)
    now = host.moment()
    if lease is None or judge(lease, now, is_gone=host.is_gone(lease.holder, lease.domain)) != "held":
        return None
    return _info(lease, now)


def _info(lease: Lease, now: Now) -> LeaseInfo:
    return LeaseInfo(
        owner=lease.owner,
        epoch=lease.epoch,
        taken_at=utc(lease.taken),
        expires_at=utc(expiry(lease, now)),
    )


def interrupt_deserted(tx: Transaction, sid: int, host: Host) -> bool:
    """Mark a run whose holder is gone as interrupted; False if it is not so."""
    row = tx.get_session(sid)
    if row is None or row.deleted is not None or not row.fence or is_held(tx, row, host):
        return False
    end_lease(tx, row, host)
    return True


def find_interrupted(engine: EngineLike) -> list[SessionRow]:
    """The sessions whose run was cut off, last active first. They get the status `interrupted` here, unless
    nothing can be written."""
    host = engine.host
    with engine.read() as reader:
        running = reader.list_sessions(SessionQuery(limit=MOST_LISTED, status=RUNNING))
        gone = [one.row for one in running if one.row.fence and not is_held(reader, one.row, host)]
    if not engine.is_reading:
        with suppress(ReadOnlyError):
            for row in gone:
                engine.run(partial(interrupt_deserted, sid=row.sid, host=host))
            gone = []
    with engine.read() as reader:
        found = reader.list_sessions(SessionQuery(limit=MOST_LISTED, status=INTERRUPTED))
    return [*gone, *(one.row for one in found)]
