"""F-20: Ctrl-C in the middle of a group commit, in the thread that leads or in one that waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.crash.interrupts import fire, interrupt_everywhere, interrupt_handing_over
from tests.support.effort import usually
from tests.support.forks import call_in_fork

SIGNALS = usually(30, thorough=300)


@pytest.mark.parametrize("others", [0, 1, 5])
def test_f20_ctrl_c_during_appends_never_locks_the_store_nor_harms_other_threads(
    tmp_path: Path, others: int
) -> None:
    """Every interrupted batch is whole or absent; the others' go through, or say that nobody knows."""
    result, integrity = call_in_fork(fire, str(tmp_path / "a.db"), SIGNALS, others)

    assert result["unexpected"] == []
    assert (result["violations"], result["wrong"]) == ("", [])
    assert integrity == "ok"
    assert result["appended"] > 0


@pytest.mark.parametrize("role", ["alone", "leader", "waiter"])
def test_f20_ctrl_c_at_any_point_of_an_append_leaves_nothing_locked_and_nobody_waiting(
    tmp_path: Path, role: str
) -> None:
    """At each of the points at which the interpreter looks for signals, one after the other: some hundreds,
    so it takes a second or two."""
    result = call_in_fork(interrupt_everywhere, str(tmp_path / "a.db"), role)

    assert result["wrong"] == {}
    assert result["points"] > 20


def test_f20_ctrl_c_at_any_point_of_append_nowait_leaves_the_courier_at_work(tmp_path: Path) -> None:
    result = call_in_fork(interrupt_handing_over, str(tmp_path / "a.db"))

    assert result["wrong"] == {}
    assert result["points"] > 20
