"""A copy that is killed (SIGKILL, a process of its own) at any statement goes on when it is called again."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from tests.faults.crash.common import check_file
from tests.support.stores import dump, wander, with_files

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_copy_goes_on_and_ends_as_if_nothing_had_happened(seed: int, tmp_path: Path) -> None:
    """F-01 for copy: killed again and again, each time somewhere else."""
    src, dst = tmp_path / "src.db", tmp_path / "dst.db"
    with clew.open(src) as store:
        wander(store, seed)
        with_files(store, tmp_path / "work")
        expected = dump(store)
    rng = random.Random(seed)
    killed = 0
    for _ in range(40):
        deadly = rng.randint(1, 400)
        done = subprocess.run(
            [sys.executable, "-m", "tests.core.transfer.killed_copy", str(src), str(dst), str(deadly)],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed += 1
        with clew.open(dst) as store:
            found = {info.id for info in store.list(limit=1000)}
            assert all(len(store.get(id).messages()) == store.get(id).info.messages for id in found)
        assert check_file(dst) == "ok"

    clew.copy(src, dst)

    assert killed
    with clew.open(dst) as store:
        assert dump(store) == expected
        assert store.verify(full=True).problems == ()
