"""Logs that lost lines which were read already, and grew otherwise: all that is new comes, nothing twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import clew
from tests.importers.programs import test_opencode as opencode
from tests.importers.programs import test_tingly_box as tingly
from tests.importers.programs.test_codex import ID
from tests.importers.programs.test_codex_following import plain
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


@each_row("format", ["codex", "gemini-cli", "goose", "ggcode", "picoclaw"])
def test_a_log_whose_beginning_was_rewritten_is_shown_as_it_is_and_its_calls_count_once(
    tmp_path: Path, format: str
) -> None:
    path = STOPPED[format](tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    changed = otherwise([], [lines[1]])
    with clew.open("memory:") as store:
        check(store, path, b"".join(lines), b"".join([lines[0], *changed, *lines[2:]]))


def test_calls_of_a_rollout_count_once_though_its_beginning_was_rewritten(tmp_path: Path) -> None:
    made = plain(tmp_path)
    with clew.open("memory:") as store:
        store.import_path(made.path)
        before = store.get(ID).usage()
        lines = made.path.read_bytes().splitlines(keepends=True)
        made.path.write_bytes(b"".join([lines[0], *otherwise([], lines[1:4]), *lines[4:]]))
        store.import_path(made.path)
        assert store.get(ID).usage() == before
        assert store.verify().ok


def test_a_large_rollout_that_changed_before_its_place_is_read_whole(tmp_path: Path) -> None:
    """The place is behind more than what the ledger compares; the end before it is other than it was."""
    made = plain(tmp_path)
    for number in range(300):
        made.user(f"turn {number} " + "x" * 500).model(f"answer {number}")
    content = made.path.read_bytes()
    lines = content.splitlines(keepends=True)
    for cut in (3, len(lines) // 2, len(lines) - 4):
        with clew.open("memory:") as store:
            after = [
                *lines[:cut],
                *otherwise(lines[:cut], lines[cut:]),
                lines[-2].replace(b"2025-", b"2033-"),
            ]
            check(store, made.path, content, b"".join(after))


def opencode_of(folder: Path, *said: str) -> bytes:
    made = opencode.Database(folder / "made.db")
    done = {"time": {"created": opencode.T0, "completed": opencode.T0}}
    turns = (
        (opencode.user(opencode.text(one)), opencode.assistant(opencode.text(f"to {one}"), **done))
        for one in said
    )
    made.add("s1", *(message for turn in turns for message in turn))
    content = made.close().read_bytes()
    (folder / "made.db").unlink()
    return content


def tingly_of(folder: Path, *said: str) -> bytes:
    rows = [tingly.words(number, one) for number, one in enumerate(said, start=1)]
    path = tingly.database(folder / "made.db", tingly.SESSIONS, tingly.MESSAGES, tingly.row(), *rows)
    content = path.read_bytes()
    path.unlink()
    return content


@each_row("format", ["opencode", "tingly-box"])
def test_a_database_that_was_restored_from_a_backup_and_grew_otherwise(tmp_path: Path, format: str) -> None:
    """The new rows have the numbers of those that were lost."""
    made = {"opencode": opencode_of, "tingly-box": tingly_of}[format]
    path = tmp_path / "store.db"
    path.touch()
    words = ["one", "two", "three", "four"]
    for kept in range(1, 4):
        for new in (["other"], ["other", "ways"], ["other", "ways", "than", "before"]):
            with clew.open("memory:") as store:
                check(store, path, made(tmp_path, *words), made(tmp_path, *words[:kept], *new))
