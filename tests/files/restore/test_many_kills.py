"""F-43, P13: what `test_kill.py` does, at more moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.files.restore.kills import (
    kill_a_snapshot_at_every_change,
    kill_at_every_call,
    kill_at_every_change,
    kill_the_recovery_at_every_change,
)
from tests.support.forks import call_in_fork
from tests.support.needs import need

OF_THE_TREE = ["linkat", "renameat", "unlinkat", "mkdirat", "symlinkat", "fchmod"]
OF_THE_STORE = ["fsync", "fdatasync", "pwrite64"]


@pytest.mark.parametrize(
    ("kill", "args"),
    [
        (kill_at_every_change, ["rewind", 1]),
        (kill_at_every_change, ["rewind", 6, "", True]),
        (kill_at_every_change, ["undo", 2]),
        (kill_the_recovery_at_every_change, ["finish", 50, 2]),
        (kill_the_recovery_at_every_change, ["roll back", 50, 2]),
        (kill_at_every_call, [OF_THE_TREE, 2]),
        (kill_at_every_call, [OF_THE_STORE, 2]),
        (kill_a_snapshot_at_every_change, []),
    ],
    ids=["rewind", "threads", "undo", "finish", "roll back", "tree", "store", "snapshot"],
)
def test_f43_whoever_is_killed_at_any_moment_leaves_what_can_be_finished_or_undone(
    kill: Callable[..., dict[str, Any]], args: list[Any]
) -> None:
    if kill is kill_at_every_call:
        need("strace")

    result = call_in_fork(kill, *args)

    assert result["wrong"] == {}
