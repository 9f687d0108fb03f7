"""Logs that lost lines which were read already, and grew otherwise: all that is new comes, nothing twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import clew
from tests.importers.regrowing import check, otherwise
from tests.importers.test_contexts import STOPPED
from tests.support.effort import spread
from tests.support.rows import each_row

HOME = Path(__file__).parents[1] / "home" / "files"
RECORDED = sorted(
    file
    for agent in (".codex", ".claude/projects", ".pi", ".gemini")
    for file in (HOME / agent).rglob("*.jsonl")
    if "subagents" not in file.parts
)
BY_LINES = ["claude-code", "codex", "gemini-cli", "pi", "goose", "ggcode", "picoclaw"]


def check_cuts(path: Path, content: bytes, *, most: int, quick: int) -> None:
    """The first line tells what the file is."""
    lines = content.splitlines(keepends=True)
    for cut in spread(range(1, len(lines)), most, quick=quick):
        grown = otherwise(lines[:cut], lines[cut:])
        longer = [*grown, *otherwise([*lines[:cut], *grown], grown, "2032-")]
        for after in (grown, grown[:1], longer):
            with clew.open("memory:") as store:
                check(store, path, content, b"".join([*lines[:cut], *after]))


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem[-12:])
def test_a_recorded_log_that_lost_lines_and_grew_otherwise_is_in_the_store_as_it_is_now(
    tmp_path: Path, file: Path
) -> None:
    place = next(part for part in file.relative_to(HOME).parts)
    shutil.copytree(HOME / place, tmp_path / place)
    path = tmp_path / file.relative_to(HOME)
    check_cuts(path, file.read_bytes(), most=6, quick=2)


@each_row("format", BY_LINES)
def test_a_log_of_any_program_that_lost_lines_and_grew_otherwise(tmp_path: Path, format: str) -> None:
    path = STOPPED[format](tmp_path)
    check_cuts(path, path.read_bytes(), most=8, quick=2)
