"""What belongs to a store as a whole, on its way to another one: rules of retention, the log of removals."""

from __future__ import annotations

from collections.abc import Callable

from clew.backends.contract import STORE_WIDE, Transaction
from clew.core.transfer.salvage.records import RecordSalvage, refuse
from clew.core.transfer.write import Target
from clew.model.transfer import LostRecord


def copy_store_wide(
    source: Target, target: Target, lost: Callable[[LostRecord], object] | None = None
) -> None:
    """Rules that the target has stay as they are. Clocks and sweeps are of one store only.

    `lost`: takes what can not be read; else that raises.
    """
    reading = RecordSalvage(source.read, lost or refuse)
    rules = [one for one in reading.scan(STORE_WIDE, "retention", None) if one[0] == "rules"]
    removals = reading.scan(STORE_WIDE, "removal", None)
    for name, value in rules:
        if reading.may_go("retention", name, value):
            target.run(lambda tx, value=value: _put_rules(tx, value))  # type: ignore[misc]
    fit = [(name, value) for name, value in removals if reading.may_go("removal", name, value)]
    if fit:
        target.run(lambda tx: _log(tx, fit))


def _put_rules(tx: Transaction, value: bytes) -> None:
    if tx.get_record(STORE_WIDE, "retention", "rules") is None:
        tx.put_record(STORE_WIDE, "retention", "rules", value)
        tx.reexamine()


def _log(tx: Transaction, removals: list[tuple[str, bytes]]) -> None:
    for name, value in removals:
        if tx.get_record(STORE_WIDE, "removal", name) != value:
            tx.put_record(STORE_WIDE, "removal", name, value)
