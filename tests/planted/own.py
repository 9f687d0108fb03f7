"""Tests that plant a bug themselves and see that it is found: which tier runs each, and whether it passes.

Such a test says so by its name (`…_find_a_planted_bug`) or its docstring ("A planted bug"). Others are named
here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.support.tiers import tier_of

if TYPE_CHECKING:
    from tests.planted.hunt import Hunt

ALSO: Final = (
    "tests/backends/test_contract_suite.py::test_a_bug_in_any_method_is_found",
    "tests/adapters/test_conformance.py::test_half_a_batch_is_noticed",
    "tests/adapters/test_conformance.py::test_a_lost_batch_is_noticed",
    "tests/faults/history/test_checker.py",
    "tests/faults/short/test_calls.py::test_an_index_that_is_made_in_its_place_is_found",
    "tests/faults/short/test_calls.py::test_errors_of_the_system_that_are_let_out_are_found",
    "tests/faults/short/test_power.py::test_the_power_cuts_find_a_log_that_is_known_by_its_end_alone",
)
"""A test, or a file in which every test plants one."""

_COUNTS: Final = re.compile(r"(\d+) (passed|failed|skipped|error)")


class OwnResult(NamedTuple):
    name: str
    tier: str
    cases: int
    result: str


def own_tests(checkout: Path) -> list[str]:
    """The node ids, without parameters."""
    found = list(ALSO)
    for path in sorted((checkout / "tests").rglob("test_*.py")):
        file = path.relative_to(checkout).as_posix()
        text = path.read_text(encoding="utf-8")
        if file in found or file.startswith("tests/planted/") or "planted" not in text.lower():
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                says = (ast.get_docstring(node) or "").startswith("A planted bug")
                if (says or "planted_bug" in node.name) and f"{file}::{node.name}" not in found:
                    found.append(f"{file}::{node.name}")
    return sorted(found)


def run_own(hunt: Hunt, known: dict[str, Any], save: Callable[[], None], say: Callable[[str], None]) -> None:
    """Run each of them by itself; what is known already is not run again."""
    from tests.conftest import TABLE

    for name in own_tests(hunt.copy.checkout):
        if name in known:
            continue
        code, output = hunt.pytest(name)
        counts = {what: int(count) for count, what in _COUNTS.findall(output[-500:])}
        result = "found" if not code and counts.get("passed") else "skipped"
        if code:
            result = f"**failed** ({code})"
        row = OwnResult(name, tier_of(name, TABLE), sum(counts.values()), result)
        known[name] = row._asdict()
        save()
        say(f"{row.tier}: {name}: {row.result}, {row.cases} cases")
