"""Which tests run when: `check` after each edit, `test` before each commit, `full` before each landing.

The table itself is in `tests/conftest.py`. A test runs in its own tier and in the larger ones.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

TIERS = ("check", "test", "full")

OUTSIDE = {
    **dict.fromkeys(
        ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"), "a process"
    ),
    **dict.fromkeys(("socket.bind", "socket.connect"), "a socket"),
}
"""What Python tells of to audit hooks, and what it is that a test of `check` must not need."""


def tier_of(test: str, table: Mapping[str, str]) -> str:
    """Return the tier of a node id: that of the longest row that is the test, its file or a folder above."""
    rows = [row for row in table if _is_inside(test, row)]
    return table[max(rows, key=len)]


def may_hold(path: str, table: Mapping[str, str], wanted: str) -> bool:
    """Report whether a file or folder can hold tests that run in a tier, without importing it."""
    below = [table[row] for row in table if _is_inside(row, path)]
    return any(runs_in(tier, wanted) for tier in [tier_of(path, table), *below])


def runs_in(tier: str, wanted: str) -> bool:
    return TIERS.index(tier) <= TIERS.index(wanted)


def share_of(tests: Sequence[str], one_of: int) -> list[str]:
    """Choose one of so many tests, and one at least: the same ones on every run and machine."""
    return sorted(tests, key=lambda test: zlib.crc32(test.encode()))[: -(-len(tests) // one_of)]


@contextmanager
def stays_inside(wanted: str) -> Iterator[None]:
    """In tier `check`, let whatever starts a process or opens a socket fail, for there it has no place."""
    before, _guard.is_on = _guard.is_on, wanted == "check"
    try:
        yield
    finally:
        _guard.is_on = before


class _Guard:
    """A hook that stays as long as Python runs, and is asked only inside `stays_inside`."""

    def __init__(self) -> None:
        self.is_on = False
        sys.addaudithook(self.hear)

    def hear(self, event: str, _: tuple[object, ...]) -> None:
        if self.is_on and event in OUTSIDE:
            pytest.fail(f"this needs {OUTSIDE[event]} ({event}): give it a row in TABLE of tests/conftest.py")


_guard = _Guard()


def _is_inside(test: str, row: str) -> bool:
    return test.startswith(row) and (len(test) == len(row) or test[len(row)] in "/:[")
