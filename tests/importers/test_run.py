"""Importing files and directories: what is known, what is damaged, what is cut off; and the report."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.load import load
from clew.importers import READERS, detect
from tests.importers.cutting import GoneError, each_write, gone_at
from tests.support.rows import each_row


def write_claude(path: Path, count: int, *, damaged: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [line_of_claude(path, number, None if number else "") for number in range(count)]
    if damaged:
        lines.insert(1, '{"type": "user", "uu\n')
    path.write_text("".join(lines))
    return path


def line_of_claude(path: Path, number: int, parent: str | None = None, words: str = "") -> str:
    """What the agent writes into a file; `parent`: empty at the beginning, or else the line before."""
    record = {
        "type": "user",
        "uuid": f"{path.stem}-{number}",
        "parentUuid": (f"{path.stem}-{number - 1}" if parent is None else parent) or None,
        "sessionId": path.stem,
        "timestamp": f"2025-01-01T00:{number // 60:02d}:{number % 60:02d}Z",
        "message": {"role": "user", "content": words or f"word {number}"},
    }
    return json.dumps(record) + "\n"


def test_two_that_load_the_same_at_once_load_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "AT_ONCE", 1)
    path = write_claude(tmp_path / "0b1c2d3e-0000-4000-8000-000000000000.jsonl", 30)
    start = threading.Barrier(3)

    def bring() -> bool:
        start.wait()
        with clew.open(tmp_path / "s.db") as own:
            return own.import_path(path).ok

    clew.open(tmp_path / "s.db").close()
    with ThreadPoolExecutor(3) as pool:
        assert all(future.result() for future in [pool.submit(bring) for _ in range(3)])
    with clew.open(tmp_path / "s.db") as store:
        (info,) = store.list()
        assert info.messages == 30
        assert store.stats().entries == 30
        assert store.verify().ok
        assert store.export(info.id, "claude-code").encode() == path.read_bytes()


def test_a_directory_brings_every_file_that_is_known(store: clew.Store, tmp_path: Path) -> None:
    write_claude(tmp_path / "d" / "one.jsonl", 2)
    write_claude(tmp_path / "d" / "deep" / "two.jsonl", 3)
    (tmp_path / "d" / "notes.txt").write_text("not a session")
    report = store.import_path(tmp_path / "d")
    assert sorted(session.id for session in report.sessions) == ["claude-code:one", "claude-code:two"]
    assert (report.files, report.new, report.entries, report.ok) == (2, 2, 5, True)
    assert report.bytes == sum(Path(session.source).stat().st_size for session in report.sessions)
    again = store.import_path(tmp_path / "d")
    assert (again.new, again.grown, again.unchanged, again.entries) == (0, 0, 2, 0)


def test_progress_goes_up_to_the_end(store: clew.Store, tmp_path: Path) -> None:
    write_claude(tmp_path / "d" / "one.jsonl", 2)
    write_claude(tmp_path / "d" / "two.jsonl", 3)
    told: list[clew.model.transfer.ImportProgress] = []
    store.import_path(tmp_path / "d", on_progress=told.append)
    done = [progress.bytes for progress in told]
    assert done == sorted(done)
    assert (told[-1].bytes, told[-1].files) == (told[-1].all_bytes, told[-1].all_files)


def test_what_is_no_session_is_refused_with_the_formats_there_are(store: clew.Store, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("nothing")
    with pytest.raises(clew.InvalidError, match="claude-code"):
        store.import_path(path)
    with pytest.raises(clew.InvalidError, match="no format 'x'; known formats: jsonl, claude-code"):
        store.import_path(path, "x")
    with pytest.raises(clew.InvalidError, match="there is no file"):
        store.import_path(tmp_path / "absent")


def test_a_reader_that_fails_costs_one_file(
    store: clew.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.importers.programs.claude_code import reader

    write_claude(tmp_path / "d" / "one.jsonl", 2)
    write_claude(tmp_path / "d" / "two.jsonl", 2)
    follow: Callable[..., Any] = reader.follow

    def failing(path: Path, *rest: Any) -> Any:
        if path.stem == "one":
            raise TypeError("odd file")
        return follow(path, *rest)

    monkeypatch.setattr(reader, "follow", failing)
    report = store.import_path(tmp_path / "d")
    assert [problem.path for problem in report.problems] == [str(tmp_path / "d" / "one.jsonl")]
    assert [session.id for session in report.sessions] == ["claude-code:two"]


def test_a_scan_finds_what_is_in_the_known_places(tmp_path: Path) -> None:
    path = write_claude(tmp_path / ".claude" / "projects" / "-w" / "one.jsonl", 2)
    (found,) = [place for place in detect.scan_places(tmp_path) if place.format == "claude-code"]
    assert (found.path, found.files) == (str(tmp_path / ".claude" / "projects"), 1)
    assert found.bytes == path.stat().st_size


@each_row("format", READERS)
def test_every_reader_of_the_registry_is_one(format: str, tmp_path: Path) -> None:
    reader = detect.reader_of(format)
    assert reader.NAME == format
    assert reader.known_places(tmp_path) == [*map(Path, reader.known_places(tmp_path))]
    assert not reader.recognises(tmp_path / "absent", b"")


def test_a_long_session_comes_in_parts_and_what_is_there_is_not_brought_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "AT_ONCE", 3)
    path = write_claude(tmp_path / "one.jsonl", 11)
    for parts in (1, 3):
        with clew.open("memory:") as store, clew.open("memory:") as whole:
            with pytest.raises(GoneError), each_write(gone_at(parts, "after")):
                store.import_path(path)
            assert store.get("claude-code:one").info.messages == 3 * parts
            assert store.import_path(path).entries == 11 - 3 * parts
            whole.import_path(path)
            assert store.get("claude-code:one").info.hash == whole.get("claude-code:one").info.hash
            assert store.verify().problems == ()


def test_tasks_can_import_and_sync_too(tmp_path: Path) -> None:
    path = write_claude(tmp_path / "one.jsonl", 2)

    async def bring() -> list[int]:
        async with clew.open_async("memory:") as store:
            reports = [await store.import_path(path), await store.sync(path), await store.import_path(path)]
            return [report.entries for report in reports]

    assert asyncio.run(bring()) == [2, 0, 0]


def test_a_copy_comes_after_the_session_that_it_was_copied_from(tmp_path: Path) -> None:
    base = write_claude(tmp_path / "z-base.jsonl", 2)
    copy = write_claude(tmp_path / "a-copy.jsonl", 2)
    copy.write_text(copy.read_text().replace('"type": "user"', '"type": "user", "forkedFrom": {}'))
    os.utime(copy, (1, 1))
    assert [job.path for job in detect.look(tmp_path, None).jobs] == [base, copy]
