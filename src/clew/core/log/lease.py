"""Who may write to a session, and when another worker may take over.

A lease is a record that its holder renews, and two numbers in the session's row: the epoch, which only
grows, and the fence, a secret that only the holder knows. Every write under the lease compares both
inside its transaction; so it does not matter what its holder believes about the time, or whether it
noticed that another worker took over.

Time decides only when another worker may take over. It is measured by a clock that all who use the
store share (`domain`); the wall clock comes in only when there is no such clock.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

import msgspec

from clew.core.log.records import Count, Integer, Time, decoder

GRACE: Final = 1_000_000
"""How much longer a lease holds for processes that do not share the clock of its holder."""

Verdict: TypeAlias = Literal["held", "expired", "deserted"]


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    """The process that took a lease: enough to tell whether it is still there."""

    boot: str = ""
    namespace: str = ""
    """Process numbers mean something only within it."""
    pid: Count = 0
    started: str = ""
    """When the process began, as the kernel says it: a number may be given out again."""


class Lease(msgspec.Struct, frozen=True):
    """A lease as it is kept. Times are microseconds: `until` by the clock of `domain`, `until_wall`
    and `taken` since 1970 UTC."""

    epoch: Count
    fence: Count
    owner: str
    ttl: Count
    taken: Time
    domain: str
    until: Integer
    until_wall: Time
    holder: Holder = Holder()


SECRET: Final = re.compile(r"([0-9]{1,19})\.([0-9a-f]{1,16})")


def secret_of(epoch: int, fence: int) -> str:
    """A lease in the hands of a worker elsewhere, as one text: what it shows to write under it."""
    return f"{epoch}.{fence:x}"


def parse_secret(secret: str) -> tuple[int, int] | None:
    """Epoch and fence; None: no lease has such a secret."""
    found = SECRET.fullmatch(secret)
    epoch, fence = (int(found[1]), int(found[2], 16)) if found else (0, 0)
    return (epoch, fence) if 0 < epoch < 2**63 and 0 < fence < 2**63 else None


encode_lease = msgspec.json.Encoder().encode
decode_lease = decoder(Lease, "the record of a lease")


class Now(msgspec.Struct, frozen=True):
    """The present, by both clocks."""

    wall: int
    steady: int
    domain: str


def renewed(lease: Lease, now: Now) -> Lease:
    return msgspec.structs.replace(
        lease, domain=now.domain, until=now.steady + lease.ttl, until_wall=now.wall + lease.ttl
    )


def judge(lease: Lease, now: Now, *, is_gone: bool) -> Verdict:
    """`is_gone`: the process that holds it is surely not there any more."""
    if is_gone:
        return "deserted"
    if _comparable(lease, now):
        over = now.steady > lease.until
    else:
        over = now.wall > lease.until_wall + GRACE
    return "expired" if over else "held"


def expiry(lease: Lease, now: Now) -> int:
    """When it ends unless it is renewed, by the wall clock of the caller: the same moment for all
    whose clocks agree with the holder's."""
    if not _comparable(lease, now):
        return lease.until_wall
    ends = now.wall + (lease.until - now.steady)
    return lease.until_wall if abs(ends - lease.until_wall) < GRACE else ends


def _comparable(lease: Lease, now: Now) -> bool:
    return bool(lease.domain) and lease.domain == now.domain
