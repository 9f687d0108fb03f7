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


def test_the_parts_of_a_campaign_are_summed_up() -> None:
    part = msgspec.structs.replace(ROW, share=0.2, cycles=60, acknowledged=100, unknown=1)
    rows = {f"kills sqlite {number}/5": part for number in range(1, 4)}
    rows["kills jsonl 1/5"] = msgspec.structs.replace(part, backend="jsonl")

    found = put_into(f"{BEGIN}\n{END}", rows)

    assert "| kill -9 (F-01), 60% of the plan | sqlite | 180 | 300 | 3 | 0 |" in found
    assert "| kill -9 (F-01), 20% of the plan | jsonl | 60 | 100 | 1 | 0 |" in found
    whole = {f"kills sqlite {number}/5": part for number in range(1, 6)}
    assert "| kill -9 (F-01) | sqlite | 300 | 500 | 5 | 0 |" in put_into(f"{BEGIN}\n{END}", whole)


def test_the_parts_of_a_campaign_are_the_whole() -> None:
    for planned in PLAN:
        whole = planned.scaled(1)
        parts = [planned.part(number, 1) for number in range(planned.parts)]
        if planned.counted and planned.parts > 1:
            assert sum(part[planned.counted] for part in parts) == whole[planned.counted]
        elif planned.thinned:
            numbers = [
                number
                for part in parts
                for number in range(part.get("first", 0), 1000, part[planned.thinned])
            ]
            assert sorted(numbers) == list(range(0, 1000, whole[planned.thinned]))
        else:
            assert parts == [whole]


def test_a_part_that_is_done_is_not_run_again_while_the_code_is_the_same() -> None:
    from tests.faults.__main__ import Part

    part = Part(PLAN[0], "sqlite", 1)
    row = msgspec.structs.replace(ROW, code="now")
    others = {"kills sqlite 1/5": msgspec.structs.replace(ROW, code="before"), "kills jsonl 1/5": ROW}

    assert part.is_done({part.key: row}, "now", 1.0)
    assert not part.is_done({part.key: row}, "later", 1.0)
    assert not part.is_done({part.key: row}, "now", 0.1)
    assert not part.is_done({part.key: msgspec.structs.replace(row, losses=1)}, "now", 1.0)
    assert part.without_others({**others, part.key: row}, "now") == {"kills jsonl 1/5": ROW, part.key: row}


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    found = {each.key: each.missing() for each in PLAN}

    assert found["kill-calls"] == "strace (Debian: strace)"
    assert found["power-xfs"] == "mkfs.xfs (Debian: xfsprogs)"
    assert found["kills"] == ""


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
