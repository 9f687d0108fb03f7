"""Files of other programs that somebody made to do harm: a bad record costs that record, and nothing waits,
grows or falls over for it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.importers import READERS, unpacking
from clew.importers.reading import files, jsonlines
from clew.importers.reading.jsonlines import read_lines
from tests.importers import test_contexts
from tests.importers.hostile import forged_files
from tests.importers.readers import write_json, write_lines
from tests.support.effort import spread
from tests.support.rows import each_row, named

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TIME = "2026-01-01T00:00:00Z"
LATE = "9999-12-31T23:59:59.999999-23:59"
SAID = {"role": "user", "content": "hi"}


def codex(folder: Path, *records: Any) -> Path:
    meta = {"timestamp": TIME, "type": "session_meta", "payload": {"id": "s"}}
    return write_lines(folder / "rollout-s.jsonl", meta, *records)


def item(text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    payload = {"type": "message", "role": "user", "content": content, **more}
    return {"timestamp": TIME, "type": "response_item", "payload": payload}


# -- found by changing files at random

FOUND: dict[str, Callable[[Path], Path]] = {
    "a type that is an object": lambda folder: write_lines(folder / "a.jsonl", {"type": {"a": 1}}, SAID),
    "a role that is a list": lambda folder: write_lines(
        folder / "a.jsonl", {"role": ["user"], "content": "hi"}
    ),
    "a role that is a list, in a message": lambda folder: write_lines(
        folder / "a.jsonl", {"message": {"role": [], "content": ""}}
    ),
    "a time that is none in UTC": lambda folder: write_lines(
        folder / "s.jsonl",
        {"working_dir": "/w", "description": "d", "message_count": 1},
        {"role": "user", "created": LATE, "content": [{"type": "text", "text": "hi"}]},
    ),
    "a role of a document that is a list": lambda folder: write_json(
        folder / "s.json",
        {"sessionId": "s", "title": "t", "history": [{"message": {"role": ["user"], "content": "hi"}}]},
    ),
    "a fork at the end of time": lambda folder: codex(
        folder, {"timestamp": LATE, "type": "session_meta", "payload": {"id": "t", "forked_from_id": "s"}}
    ),
}


@each_row("what", FOUND)
@each_row("format", [None, "picoclaw", "ggcode", "continue", "goose", "codex"])
def test_a_value_of_another_type_costs_no_more_than_itself(
    tmp_path: Path, what: str, format: str | None
) -> None:
    """Beside it lies a file with nothing wrong: it comes in."""
    with clew.open("memory:") as store:
        FOUND[what](tmp_path)
        test_contexts.of_claude_code(tmp_path / "good" if _made(tmp_path / "good") else tmp_path)
        try:
            report = store.import_path(tmp_path, format)
        except clew.ClewError:
            report = store.import_path(tmp_path)
        assert not any("TypeError" in one.reason or "OverflowError" in one.reason for one in report.problems)
        if format is None:
            assert "claude-code" in {one.format for one in report.sessions}
        forged_files.check_whole(store)


def _made(folder: Path) -> bool:
    folder.mkdir()
    return True


def test_a_day_that_no_calendar_has_costs_only_the_time(store: clew.Store, tmp_path: Path) -> None:
    path = tmp_path / ".aider.chat.history.md"
    path.write_text("\n# aider chat started at 2026-13-45 10:11:12\n\n#### hi\n\nyes\n")
    (one,) = store.import_path(path).sessions
    assert [message["content"] for message in store.get(one.id).messages()] == ["hi", "yes"]


# -- S-28: bounded memory and time


def test_s28_a_bomb_of_a_log_is_read_only_so_far(
    store: clew.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some kilobytes that unpack to 3 GB: what stands before is imported."""
    monkeypatch.setattr(unpacking, "MOST", 1024 * 1024)
    start = b"".join(json.dumps(one).encode() + b"\n" for one in _log())
    packer = zstd.ZstdCompressor()
    zeros = b" " * (16 * 1024 * 1024 - 1) + b"\n"
    bomb = packer.compress(start) + b"".join(packer.compress(zeros) for _ in range(20)) + packer.flush()
    path = tmp_path / "rollout-s.jsonl.zst"
    path.write_bytes(bomb)
    given = [0]
    problems: list[Any] = []
    for _ in read_lines(path, problems.append, lambda count: given.__setitem__(0, given[0] + count)):
        pass
    assert given[0] < 80 * 1024 * 1024
    assert "unpacks to more than 200 times its size" in problems[-1].reason
    report = store.import_path(path)
    assert [one.id for one in report.sessions] == ["codex:s"]
    assert "200 times" in report.problems[-1].reason
    forged_files.check_whole(store)


def _log() -> list[dict[str, Any]]:
    return [{"timestamp": TIME, "type": "session_meta", "payload": {"id": "s"}}, item("one")]


def test_s28_a_document_that_fills_the_memory_is_not_read(
    store: clew.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_AT_ONCE", 1024 * 1024)
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"sessionId": "s", "title": "t", "history": [{"message": SAID}]}))
    with path.open("r+b") as file:
        file.truncate(50 * 1024**3)  # a hole: it takes no room on the disk
    report = store.import_path(tmp_path)
    assert report.sessions == ()
    assert report.left_out == (str(path),)
    assert "more than 1 MiB" in report.problems[0].reason


def test_s28_a_line_that_is_longer_than_any_message_costs_itself(
    store: clew.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hole between two lines."""
    assert jsonlines.LONGEST == 128 * 1024**2
    monkeypatch.setattr(jsonlines, "LONGEST", 1024**2)
    path = codex(tmp_path, item("one"))
    with path.open("r+b") as file:
        file.seek(5 * 1024**2)
        file.write(b"\n" + json.dumps(item("two")).encode() + b"\n")
    report = store.import_path(path)
    said = [message["content"][0]["text"] for message in store.get("codex:s").messages()]
    assert said == ["one", "two"]
    assert any("bytes" in one.reason for one in report.problems)


def test_a_file_that_grows_while_it_is_read_comes_to_an_end(tmp_path: Path) -> None:
    path = codex(tmp_path, item("one"))
    with path.open("ab") as growing:
        for line in read_lines(path, lambda _: None, lambda _: None):
            growing.write(json.dumps(item("more" * 100_000)).encode() + b"\n")
            growing.flush()
            assert line.number < 10


def test_directories_a_thousand_deep_are_named_and_left_out(tmp_path: Path) -> None:
    codex(tmp_path, item("one"))
    depth = 1300
    here = os.open(tmp_path, os.O_RDONLY)
    handles = [here]
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = handles[0] = below
    os.close(here)
    try:
        for format in spread([None, *READERS], 20, quick=5):
            with named(str(format)), clew.open("memory:") as store:
                report = store.import_path(tmp_path, format)
                assert any("deep" in one.reason for one in report.problems)
                found = ["codex:s"] if format in (None, "codex") else []
                assert [one.id for one in report.sessions] == found
    finally:
        top, rest = tmp_path / "d", tmp_path / "rest"
        for _ in range(depth - 1):  # a recursive removal would go too deep
            (top / "d").rename(rest)
            top.rmdir()
            rest.rename(top)


def test_links_that_lead_round_and_pipes_are_passed_over(store: clew.Store, tmp_path: Path) -> None:
    codex(tmp_path, item("one"))
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to("self")
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert [one.id for one in store.import_path(tmp_path).sessions] == ["codex:s"]
