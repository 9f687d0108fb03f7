"""The report of the long fault tests, and the plan of what they run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.faults.plan import PLAN
from tests.faults.report import BEGIN, END, PAGE, Row, put_into, read, table, write

ROW = Row("sqlite", "F-01", "kill -9", 300, 12_345, 7, [], 0, {"harmless": 3}, 60, 1, 1.0)


def test_rows_of_other_runs_are_kept(tmp_path: Path) -> None:
    write({"kills sqlite": ROW}, tmp_path / "build" / "faults.json")

    rows = read(tmp_path / "build" / "faults.json")

    assert rows == {"kills sqlite": ROW}
    assert read(tmp_path / "nothing.json") == {}


def test_the_tables_replace_what_was_between_the_marks() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"

    found = put_into(page, {"flips sqlite": ROW})

    assert "old" not in found
    assert found.startswith(f"before\n{BEGIN}\n| fault")
    assert "| kill -9 (F-01) | sqlite | 300 | 12,345 | 7 | 0 |" in found
    assert "| harmless | 3 |" in found
    assert found.endswith(f"{END}\nafter\n")
    assert put_into(found, {"flips sqlite": ROW}) == found


def test_a_loss_is_shown() -> None:
    row = msgspec.structs.replace(ROW, losses=2, wrong=["a", "b"])

    assert table({"k": row}).endswith("| 2 |")


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="begin"):
        put_into("no marks", {"k": ROW})


def test_the_page_in_the_documentation_has_the_marks() -> None:
    assert put_into(PAGE.read_text("utf-8"), {"k": ROW}).count(BEGIN) == 1


def test_the_plan_runs_what_was_promised() -> None:
    """300 kills, 200 power cuts, 2,000 flipped bits a backend."""
    options = {each.key: each.scaled(1) for each in PLAN}

    assert options["kills"]["cycles"] >= 300
    assert options["power-ext4"]["cuts"] >= 200
    assert options["flips"]["samples"] >= 2000
    assert options["kill-calls"]["every"] == options["tails"]["every"] == 1


def test_a_scaled_plan_takes_less_of_everything() -> None:
    options = {each.key: each.scaled(0.1) for each in PLAN}

    assert options["kills"]["cycles"] == 30
    assert options["kill-calls"]["every"] == 10
