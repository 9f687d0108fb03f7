"""F-20: the interpreter ends while appends are on their way, and nobody closed the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.faults.crash.common import chain_of, texts
from tests.faults.crash.exits import leave, leave_a_loop, leave_from_a_thread
from tests.support.forks import call_in_fork

COUNT = 500


def check_complete(path: Path) -> None:
    with clew.open(path) as store:
        session = store.get("s")
        assert texts(session) == [f"{number}" for number in range(COUNT)]
        assert chain_of(session) == []


@pytest.mark.parametrize(("how", "status"), [("return", 0), ("exit", 0), ("raise", 1), ("forget", 0)])
def test_f20_what_append_nowait_took_is_written_before_the_interpreter_ends(
    tmp_path: Path, how: str, status: int
) -> None:
    call_in_fork(leave, str(tmp_path / "a.db"), COUNT, how, expect=status)

    check_complete(tmp_path / "a.db")


@pytest.mark.parametrize("program", [leave_from_a_thread, leave_a_loop])
def test_f20_it_is_written_whoever_handed_it_over(tmp_path: Path, program: Callable[..., Any]) -> None:
    call_in_fork(program, str(tmp_path / "a.db"), COUNT)

    check_complete(tmp_path / "a.db")
