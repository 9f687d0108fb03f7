"""F-43: a restore that is cut off anywhere is finished or rolled back, exactly (P13)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.backends.contract import STORE_WIDE, Transaction
from clew.core.engine.engine import Engine
from clew.core.log.lease import Holder
from clew.errors import ConflictError, CorruptError, NotFoundError, RestoreFailedError
from clew.files import journal
from clew.files.journal import Restore
from clew.files.restore.apply import Applier
from clew.files.upkeep.needs import SAFETY_AGE, drop_unneeded
from clew.files.upkeep.verify import verify
from tests.files.restore.nested_trees import Tree, Workshop
from tests.files.trees import Link, Program, build
from tests.support.effort import usually

BEFORE: Tree = {
    b"same": b"same",
    b"changed": b"new",
    b"program": b"#!",
    b"secret": b"mine",
    b"d": {b"added": b"y", b"e": {b"added": b"z"}},
    b"to-file": {b"inside": b"1", b"e": {}},
    b"to-folder": b"2",
    b"link": Link(b"elsewhere"),
    b"large": b"n" * 2500,
    b"spared": {b"mine": b"m"},
    b"came-since": {b"file": b"c", b"e": {}},
    b"worked-on": b"by the agent",
}
SINCE = (b"spared", b"came-since")
LAST: Tree = {name: what for name, what in BEFORE.items() if name not in SINCE} | {b"worked-on": b"l"}
TARGET: Tree = {
    b"same": b"same",
    b"changed": b"old",
    b"program": Program(b"#!"),
    b"empty": {},
    b"deep": {b"deeper": {b"a": b"\0"}},
    b"to-file": b"file",
    b"to-folder": {b"inside": Link(b"../same")},
    b"link": Link(b"same"),
    b"large": b"o" * 1500,
    b"worked-on": b"t",
}
AFTER: Tree = {**TARGET, b"spared": {b"mine": b"m"}}
CLEARING: dict[str, Any] = {"clears": True, "spares": [b"spared"]}
"""All that came since goes, but for this."""
CHANGING = (
    "open",
    "link",
    "unlink",
    "rename",
    "symlink",
    "mkdir",
    "rmdir",
    "fsync",
    "write",
    "fchmod",
    "close",
)


class Killed(BaseException):
    """What a process would not survive."""


class Reaper:
    """Kills the restore before the call of a number. The dead touch nothing: all later calls fail too."""

    def __init__(self) -> None:
        self.count = 0
        self.at = 0
        self.is_dead = False

    def check(self) -> None:
        self.count += 1
        if self.count >= self.at:
            self.is_dead = True
        if self.is_dead:
            raise Killed


@contextmanager
def killing(shop: Workshop, at: int) -> Iterator[Reaper]:
    """Kill what is done here before its call number `at`, of those that change the disk or the store."""
    reaper = Reaper()
    reaper.at = at
    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGING:
            patch.setattr(os, name, _checked(reaper, getattr(os, name), is_close=name == "close"))
        patch.setattr(shop.engine, "run", _checked(reaper, shop.engine.run))
        try:
            yield reaper
        except Killed:
            pass


def _checked(reaper: Reaper, real: Any, *, is_close: bool = False) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_close:  # the system does it for the dead, too
            real(*args, **kwargs)
            return None
        reaper.check()
        return real(*args, **kwargs)

    return call


def make_shop(root: Path) -> Workshop:
    shop = Workshop(root)
    build(shop.root, BEFORE)
    (shop.root / "secret").chmod(0o600)
    (shop.root / "d").chmod(0o700)
    return shop


def kill_restore(shop: Workshop, at: int) -> Reaper:
    with killing(shop, at) as reaper:
        shop.restore(TARGET, LAST, finishing=move_head, **CLEARING)
    return reaper


def move_head(tx: Transaction) -> None:
    tx.put_record(STORE_WIDE, "var", "head", b"moved")


def head(shop: Workshop) -> bytes | None:
    with shop.engine.read() as reader:
        return reader.get_record(STORE_WIDE, "var", "head")


def check_before(shop: Workshop) -> None:
    assert shop.state() == BEFORE
    assert stat.S_IMODE((shop.root / "secret").stat().st_mode) == 0o600
    assert stat.S_IMODE((shop.root / "d").stat().st_mode) == 0o700
    assert head(shop) is None


def check_after(shop: Workshop) -> None:
    assert shop.state() == AFTER
    assert head(shop) == b"moved"


@pytest.mark.parametrize("how", ["finish", "roll back"])
def test_f43_a_restore_killed_before_any_call_is_finished_or_rolled_back_exactly(
    tmp_path: Path, how: str
) -> None:
    at, cut_off = 0, 0
    while True:
        at += 1
        shop = make_shop(tmp_path / f"root-{at}")
        reaper = kill_restore(shop, at)
        left = shop.pending()
        cut_off += len(left)
        if not reaper.is_dead:
            break
        if not left:
            check_after(shop) if head(shop) else check_before(shop)
        elif how == "finish":
            assert shop.finish(left[0].id, finishing=move_head).failed == ()
            check_after(shop)
        else:
            assert shop.roll_back(left[0].id).failed == ()
            check_before(shop)
        assert shop.pending() == []
    check_after(shop)
    assert cut_off > 60


@pytest.mark.parametrize("first", usually([60], thorough=[40, 60, 80]))
def test_f43_a_recovery_that_is_killed_itself_can_be_repeated_either_way(tmp_path: Path, first: int) -> None:
    at = 0
    while True:
        at += 1
        shop = make_shop(tmp_path / f"root-{at}")
        kill_restore(shop, first)
        [left] = shop.pending()
        with killing(shop, at) as reaper:
            shop.finish(left.id, finishing=move_head)
        if not reaper.is_dead:
            break
        if shop.pending():
            with killing(shop, max(1, 60 - at)):
                shop.roll_back(left.id)
        if shop.pending():
            shop.roll_back(left.id)
        check_before(shop) if head(shop) is None else check_after(shop)
        assert shop.pending() == []
    check_after(shop)
    assert at > 20


def test_a_user_who_works_on_a_path_before_the_recovery_keeps_the_work(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "root")
    kill_restore(shop, _call_of_first_rename(tmp_path))
    [left] = shop.pending()
    (shop.root / "large").write_bytes(b"fresh work")

    report = shop.finish(left.id)

    assert (shop.root / "large").read_bytes() == b"fresh work"
    assert [(failure.path, failure.reason) for failure in report.failed] == [
        ("large", "changed while restoring")
    ]


def _call_of_first_rename(tmp_path: Path) -> int:
    """The number of a call when the journal is written and nothing is done."""
    at = 0
    while True:
        at += 1
        shop = make_shop(tmp_path / f"probe-{at}")
        kill_restore(shop, at)
        if shop.pending():
            return at


def test_a_restore_is_refused_while_another_one_of_the_same_place_is_not_over(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "root")
    kill_restore(shop, 60)
    [left] = shop.pending()

    for root in (tmp_path / "root", tmp_path / "root" / "d2", tmp_path):
        with pytest.raises(ConflictError, match=left.id):
            Workshop(root, shop.engine).restore(TARGET)
    beside = Workshop(tmp_path / "root-2", shop.engine)
    beside.restore(TARGET)

    assert beside.state() == TARGET


def test_a_restore_that_another_process_carries_out_can_not_be_taken_over(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "root")
    kill_restore(shop, 60)
    [left] = shop.pending()
    parent = Engine(shop.engine.backend).host.me
    alive = Holder(parent.boot, parent.namespace, 1, _start_of(1))
    set_holder(shop, left, alive)

    with pytest.raises(ConflictError, match="being carried out"):
        shop.finish(left.id)
    set_holder(shop, left, Holder(alive.boot, alive.namespace, 1, "not when that one began"))
    shop.roll_back(left.id)

    check_before(shop)


def _start_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def set_holder(shop: Workshop, record: Restore, holder: Holder) -> None:
    changed = msgspec.structs.replace(record, holder=holder)
    shop.engine.run(
        lambda tx: tx.put_record(STORE_WIDE, "restore", record.id, msgspec.msgpack.encode(changed))
    )


def test_a_restore_that_a_thread_of_this_process_carries_out_can_not_be_taken_over(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "root")
    refused: list[str] = []

    def on_progress(_: object) -> None:
        [left] = shop.pending()
        with pytest.raises(ConflictError, match="being carried out"):
            shop.roll_back(left.id)
        refused.append(left.id)

    shop.restore(TARGET, LAST, on_progress=on_progress, **CLEARING)

    assert len(refused) == 1
    assert shop.state() == AFTER


def test_a_restore_that_is_over_is_not_pending_and_can_not_be_finished_again(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "root")
    report = shop.restore(TARGET, LAST, **CLEARING)
    id = report.id or ""

    with pytest.raises(ConflictError, match=f"{id} is done"):
        shop.finish(id)
    with pytest.raises(NotFoundError, match="'none'"):
        shop.roll_back("none")
    assert shop.pending() == []


def test_old_journals_are_forgotten_and_pending_ones_are_not(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "root")
    report = shop.restore(TARGET, LAST, **CLEARING)
    beside = make_shop(tmp_path / "beside")
    beside = Workshop(beside.root, shop.engine)
    kill_restore(beside, 60)
    now = shop.engine.host.now()

    shop.engine.run(lambda tx: drop_unneeded(tx, [], now))
    with shop.engine.read() as reader:
        assert journal.get(reader, report.id or "").state == "done"
    shop.engine.run(lambda tx: drop_unneeded(tx, [], now + SAFETY_AGE + 1))

    with shop.engine.read() as reader, pytest.raises(NotFoundError, match=report.id or ""):
        journal.get(reader, report.id or "")
    assert len(shop.pending()) == 1


def test_a_damaged_journal_is_named(tmp_path: Path) -> None:
    shop = Workshop(tmp_path / "root")
    shop.engine.run(lambda tx: tx.put_record(STORE_WIDE, "restore", "broken", b"\xc1"))

    with pytest.raises(CorruptError, match="'broken'"), shop.engine.read() as reader:
        journal.get(reader, "broken")
    assert any("'broken'" in problem for problem in verify(shop.engine).problems)


def test_p6_a_damaged_journal_hides_no_other_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Workshop(tmp_path / "root")
    shop.engine.run(lambda tx: tx.put_record(STORE_WIDE, "restore", "0", b"\xc1"))
    build(shop.root, {b"a": b"1"})
    monkeypatch.setattr(Applier, "run", _fail)
    with pytest.raises(RestoreFailedError):
        shop.restore({b"a": b"2"}, {b"a": b"1"})
    assert len(shop.pending()) == 1


def _fail(applier: Applier) -> None:
    raise OSError(28, "No space left on device")
