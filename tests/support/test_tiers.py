from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import SHARES, TABLE
from tests.support import needs, tiers
from tests.support.rows import each_row

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "src/clew/testing/adapter.py"
"""Whose tests the tests of adapters inherit."""
EXAMPLE = {
    "tests": "test",
    "tests/core": "check",
    "tests/core/test_a.py": "full",
    "tests/core/test_a.py::test_b": "test",
}


def test_the_longest_row_counts() -> None:
    assert tiers.tier_of("tests/cli/test_x.py::test_y", EXAMPLE) == "test"
    assert tiers.tier_of("tests/core/test_z.py::test_y[1]", EXAMPLE) == "check"
    assert tiers.tier_of("tests/core/test_a.py::test_c", EXAMPLE) == "full"
    assert tiers.tier_of("tests/core/test_a.py::test_b[sqlite]", EXAMPLE) == "test"
    assert tiers.tier_of("tests/core/test_a.py::test_bc", EXAMPLE) == "full"
    assert tiers.tier_of("tests/core_more/test_a.py", EXAMPLE) == "test"


def test_a_file_is_imported_only_if_the_tier_runs_something_in_it() -> None:
    assert tiers.may_hold("tests/core", EXAMPLE, "check")
    assert not tiers.may_hold("tests/cli", EXAMPLE, "check")
    assert not tiers.may_hold("tests/core/test_a.py", EXAMPLE, "check")
    assert tiers.may_hold("tests/core/test_a.py", EXAMPLE, "test"), "one of its tests is there"


def test_a_larger_tier_runs_what_a_smaller_one_runs() -> None:
    assert [[tiers.runs_in(tier, wanted) for tier in tiers.TIERS] for wanted in tiers.TIERS] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def opened(how: str) -> None:
    with socket.socket() as mine:
        getattr(mine, how)(("127.0.0.1", 9))


@each_row(
    "leave",
    [
        os.fork,
        lambda: subprocess.run(["true"], check=True),
        lambda: opened("bind"),
        lambda: opened("connect"),
    ],
    ids=["fork", "program", "server", "client"],
)
def test_in_the_smallest_tier_what_needs_a_process_or_a_socket_fails(leave: Callable[[], object]) -> None:
    with tiers.stays_inside("check"), pytest.raises(pytest.fail.Exception, match=r"give it a row in TABLE"):
        leave()


def test_tasks_run_in_the_smallest_tier_though_their_loop_has_a_pair_of_sockets() -> None:
    with tiers.stays_inside("check"):
        asyncio.run(asyncio.sleep(0))


def test_a_share_is_the_same_on_every_run_and_is_never_empty() -> None:
    tests = [f"tests/test_{number}.py" for number in range(20)]
    chosen = tiers.share_of(tests, 8)
    assert len(chosen) == 3
    assert chosen == tiers.share_of(tests[::-1], 8)
    assert len(tiers.share_of(tests[:1], 8)) == 1
    assert sorted(tiers.share_of(tests, 1)) == sorted(tests)


def test_every_row_names_something_that_is_there() -> None:
    """A row of a file that was renamed would silently move its tests to another tier."""
    for row in [*TABLE, *SHARES]:
        path, _, test = row.partition("::")
        assert (ROOT / path).exists(), f"{row}: there is no {path}"
        name = test.rpartition("::")[2].partition("[")[0]
        text = (ROOT / path).read_text() + SUITE.read_text() if name else ""
        assert not name or f"{name}(" in text, f"{row}: there is no test {name}"
    assert set(TABLE.values()) <= set(tiers.TIERS)


def test_what_is_missing_is_skipped_here_and_fails_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(needs.NEEDS, "strace", needs.Need(lambda: False, "apt-get install strace"))
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"needs strace \(apt-get install strace\)"):
        needs.need("strace")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="needs strace"):
        needs.need("strace")


def test_the_last_line_names_what_was_missing_and_how_to_install_it() -> None:
    def skipped(reason: str) -> Any:
        return SimpleNamespace(longrepr=("file", 1, f"Skipped: {reason}"))

    line = needs.summary(
        [skipped("needs strace (apt-get install strace)")] * 2
        + [skipped("only Linux tells"), skipped("needs chromium (apt-get install chromium)")]
    )
    assert line == "1 without chromium (apt-get install chromium), 2 without strace (apt-get install strace)"
