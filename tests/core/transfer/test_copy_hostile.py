"""S-53: copying from a store that may be anybody's. Nothing of it is believed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.backends.contract import STORE_WIDE, Transaction
from clew.core.log.rows import SessionRow
from tests.importers.hostile.forged_files import check_removable, check_whole, fill, said
from tests.support.rows import each_row

Harm = Callable[[Transaction, SessionRow], Any]


def in_row(**values: Any) -> Harm:
    def harm(tx: Transaction, row: SessionRow) -> None:
        tx.set_session(msgspec.structs.replace(row, **values))

    return harm


def in_head(**values: Any) -> Harm:
    def harm(tx: Transaction, row: SessionRow) -> None:
        head = msgspec.structs.replace(row.head, **values)
        tx.set_session(msgspec.structs.replace(row, head=head))

    return harm


def in_details(**values: Any) -> Harm:
    def harm(tx: Transaction, row: SessionRow) -> None:
        tx.set_details(row.sid, msgspec.structs.replace(tx.get_details(row.sid), **values))

    return harm


def record(kind: Any, name: str, value: bytes) -> Harm:
    return lambda tx, row: tx.put_record(row.sid, kind, name, value)


def next_entry(**values: Any) -> Harm:
    """One more entry behind the last, that is not as it should be."""

    def harm(tx: Transaction, row: SessionRow) -> None:
        last = tx.get_entry(row.head.branch, row.head.position)
        assert last is not None
        entry = msgspec.structs.replace(last, position=last.position + 1, **values)
        tx.add_entries(row.head.branch, [entry])
        tx.set_session(msgspec.structs.replace(row, grows=False))

    return harm


HARMS: dict[str, Harm] = {
    "status 99": in_row(status=99),
    "a year out of range": in_row(updated=2**60),
    "an epoch at the end of numbers": in_row(epoch=2**63 - 1),
    "moves at the end of numbers": in_row(moves=2**62),
    "a giant title": in_row(title="t" * 10_000),
    "a head with other counters": in_head(messages=1),
    "a head with another hash": in_head(digest=bytes(32)),
    "metadata that is no object": in_details(metadata=msgspec.Raw(b"[]")),
    "a tag that is none": in_details(tags=("",)),
    "a checkpoint that leads nowhere": record("checkpoint", "c", b'{"uid":"u","position":7,"time":1}'),
    "a checkpoint that is text": record("checkpoint", "c", b'"text"'),
    "a run that is none": record("run", "", b"[]"),
    "a status that is none": record("status", "000000000009", b"[0,99,1,\"me\",0]"),
    "a variable that is no JSON": record("var", "v", b"{"),
    "an entry of an unknown type": next_entry(kind=9),
    "an entry under an old hash": next_entry(body=b'{"role":"user","content":"forged"}'),
    "an entry that is no object": next_entry(body=b"[]"),
    "an entry out of time": next_entry(time=2**62),
}  # fmt: skip


@each_row("name", HARMS)
def test_s53_what_a_hostile_store_says_stays_behind_and_the_rest_is_copied(name: str) -> None:
    with clew.open("memory:") as src, clew.open("memory:") as dst:
        src.session("bad").append(said("one"), said("two"))
        fill(src, "good")
        dst.session("mine").append(said("was here before"))
        row = src.get("bad")._sid

        def harm(tx: Transaction) -> None:
            found = tx.get_session(row)
            assert found is not None
            HARMS[name](tx, found)

        src._engine.run(harm)
        with pytest.raises(clew.CorruptError, match=r"bad|branch"):
            clew.copy(src, dst)
        assert {info.id for info in dst.list()} == {"mine", "good", "good-base"}
        assert list(dst.list(deleted=True)) == []
        check_whole(dst)
        check_removable(dst)


def test_s53_a_large_tree_of_a_hostile_store_leaves_nothing_staged() -> None:
    """More than one transaction takes, and the last entry is forged."""
    with clew.open("memory:") as src, clew.open("memory:") as dst:
        session = src.session("bad")
        session.append(*(said(f"{number}") for number in range(5000)))
        src._engine.run(
            lambda tx: next_entry(body=b'{"role":"user","content":"forged"}')(
                tx,
                tx.find_session("bad"),  # type: ignore[arg-type]
            )
        )
        with pytest.raises(clew.CorruptError, match="its hash"):
            clew.copy(src, dst)
        assert list(dst.list()) == []
        assert list(dst.list(deleted=True)) == []
        assert dst.verify().ok


def test_s53_a_copy_does_not_replace_a_snapshot_of_the_target(tmp_path: Path) -> None:
    """A store that knows the id of one has other files under it."""
    mine, his = tmp_path / "mine", tmp_path / "his"
    mine.mkdir()
    his.mkdir()
    (mine / "file").write_text("mine")
    (his / "file").write_text("his")
    with clew.open("memory:") as src, clew.open("memory:") as dst:
        kept = dst.snapshot(mine)
        forged = src.snapshot(his)

        def rename(tx: Transaction) -> None:
            value = tx.get_record(STORE_WIDE, "snapshot", forged.id)
            assert value is not None
            tx.put_record(STORE_WIDE, "snapshot", kept.id, value)

        src._engine.run(rename)
        clew.copy(src, dst)
        assert dst.read_file(kept.id, "file") == b"mine"
        assert dst.get_snapshot(kept.id).root == str(mine)
        assert dst.verify().ok


def test_s53_rules_of_retention_that_nobody_could_set_are_not_copied() -> None:
    """A lifetime of less than nothing would expire whatever the target holds."""
    with clew.open("memory:") as src, clew.open("memory:") as dst:
        dst.session("mine").append(said("mine"))
        rules = clew.Retention(lifetime=timedelta(days=-1), trash_expired=True)
        value = msgspec.json.encode(rules)
        src._engine.run(lambda tx: tx.put_record(STORE_WIDE, "retention", "rules", value))
        with pytest.raises(clew.CorruptError):
            clew.copy(src, dst)
        dst.sweep()
        assert [info.id for info in dst.list()] == ["mine"]
        assert dst.retention == clew.Retention()
