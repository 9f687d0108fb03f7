"""What retention keeps in the store: its rules, the time it trusts, who sweeps, what was removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from uuid_utils import uuid7

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.engine.host import Host
from clew.core.log.lease import Lease, Now
from clew.core.log.records import decoder, number_in
from clew.core.retention.rules import Anchor, trusted_time
from clew.core.runs import lease as store_lease
from clew.model import Removal, Retention, SweepAction, utc

SWEEP_TTL: Final = 60_000_000

_encode = msgspec.json.Encoder().encode
_decode_rules = decoder(Retention, "the record of the retention rules")
_decode_anchor = decoder(Anchor, "the record of the trusted time")
_decode_removal = decoder(Removal, "the record of a removal")


def rules_of(reader: Reader) -> Retention:
    value = reader.get_record(STORE_WIDE, "retention", "rules")
    return Retention() if value is None else _decode_rules(value)


def set_rules(tx: Transaction, rules: Retention, moment: Now) -> None:
    """Set the rules of the store. Every session is looked at again, unless nothing changed.

    Without any rule the trusted time is forgotten: the way to make the store believe a clock that was
    put right is to switch everything off, and on again.
    """
    if rules != rules_of(tx):
        tx.put_record(STORE_WIDE, "retention", "rules", _encode(rules))
        tx.drop_record(STORE_WIDE, "retention", "swept")
        tx.set_due(None, 0)
    if rules == Retention():
        tx.drop_record(STORE_WIDE, "retention", "clock")
    else:
        anchor(tx, moment)


# -- time


def time_of(reader: Reader, moment: Now) -> int:
    """The time that retention goes by."""
    value = reader.get_record(STORE_WIDE, "retention", "clock")
    return trusted_time(moment, None if value is None else _decode_anchor(value))


def anchor(tx: Transaction, moment: Now) -> int:
    """Note the trusted time, so that a jump of the clock from here on is noticed."""
    now = time_of(tx, moment)
    tx.put_record(STORE_WIDE, "retention", "clock", _encode(Anchor(now, moment.steady, moment.domain)))
    return now


def last_swept(reader: Reader) -> int:
    """When the last sweep that was finished began; 0: none was, by these rules."""
    return number_in(
        reader.get_record(STORE_WIDE, "retention", "swept") or b"0", "the time of the last sweep"
    )


# -- who sweeps


def take_sweep(tx: Transaction, host: Host) -> Lease:
    return store_lease.take_claim(tx, "sweep", host, SWEEP_TTL)


def renew_sweep(tx: Transaction, lease: Lease, host: Host) -> None:
    """Every transaction of a sweep begins with this: one that was frozen must not go on."""
    store_lease.renew_claim(tx, "sweep", lease, host)


def end_sweep(tx: Transaction, lease: Lease, swept: int | None) -> None:
    """`swept`: the time the sweep went by, if it came to its end."""
    if store_lease.end_claim(tx, "sweep", lease) and swept is not None:
        tx.put_record(STORE_WIDE, "retention", "swept", str(swept).encode())


# -- what was removed


def note_removals(tx: Transaction, actions: Sequence[SweepAction], now: int) -> None:
    """Log a removal, in the same transaction."""
    for action in actions:
        if action.verb in ("trash", "purge", "remove_messages"):
            removal = Removal(
                at=utc(now),
                verb=action.verb,
                session=action.session,
                reason=action.reason,
                messages=action.messages,
            )
            # By the trusted time first: the one inside a uuid7 is that of this process.
            tx.put_record(STORE_WIDE, "removal", f"{now:016x}{uuid7().hex}", _encode(removal))


def removals(reader: Reader, limit: int) -> list[Removal]:
    """Newest first."""
    found = reader.scan_records(STORE_WIDE, "removal", reverse=True, limit=limit)
    return [_decode_removal(value) for _, value in found]
