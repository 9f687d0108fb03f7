"""Whatever happened to a file: its reader tells it, and gives what the contract asks for."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.importers.detect import reader_of
from clew.importers.programs import ductwork, ggcode, openrouter, picoclaw, tingly_box
from tests.importers import test_contexts
from tests.importers.programs import test_gemini_cli
from tests.importers.readers import read_file, write_json
from tests.support.effort import usually
from tests.support.rows import each_row

ASK, SAY = (
    {"role": "user", "content": 'a"b\\ <ä>'},
    {"role": "assistant", "content": "", "n": [1.5, None, True]},
)
SESSION = {
    "ID": "a",
    "CreatedAt": "2026-04-10T08:00:00.123456789Z",
    "Messages": [ASK, SAY],
    "UserTurns": 1,
    "Checkpoints": {"a-u1": [ASK]},
    "FileCheckpoints": {"a-u1": {"f": "v1", "g": None}},
}
TOLD = {"Role": "user", "Content": "hi"}
ITEM = {"ID": "a", "ChatID": "c", "LastActivity": "", "Messages": [TOLD]}
RECORDS: list[dict[str, Any]] = [
    {"type": "meta", "session_id": "a", "title": "t"},
    {"type": "message", "message": {"id": "m1", **ASK}},
    {"type": "message", "message": {"id": "m2", **SAY}},
    {"type": "checkpoint", "checkpoint_summary_msg_id": "m2", "checkpoint_last_msg_id": "m1"},
    {"type": "usage", "usage_entry": {"usage": {"input_tokens": 1}}},
]


def as_lines(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


FILES: dict[str, tuple[ModuleType, str, bytes]] = {
    "openrouter": (openrouter, "s.json", json.dumps({"sessions": {"a": SESSION, "b": SESSION}}).encode()),
    "picoclaw": (picoclaw, "s.jsonl", as_lines(ASK, SAY, ASK)),
    "picoclaw-old": (picoclaw, "s.json", json.dumps({"key": "a", "messages": [ASK, SAY]}).encode()),
    "ggcode": (ggcode, "s.jsonl", as_lines(*RECORDS)),
    "tingly-document": (tingly_box, "s.json", json.dumps({"version": 1, "items": {"a": ITEM}}).encode()),
    "tingly-log": (tingly_box, "s.jsonl", as_lines(TOLD)),
    "ductwork": (ductwork, "s.json", json.dumps({"run_id": "r", "messages": [ASK, SAY]}).encode()),
}


def words(reader: ModuleType, path: Path) -> tuple[list[Any], int]:
    reads, problems = read_file(reader, path)
    return [entry.message for read in reads for entry in read.entries if entry.kind == "message"], len(
        problems
    )


@each_row("format", ["cline", "continue", "opencode", "gemini-cli"])
def test_a_document_cut_anywhere_is_a_problem_and_no_session(format: str, tmp_path: Path) -> None:
    if format == "gemini-cli":
        path = write_json(tmp_path / "s.json", {**test_gemini_cli.HEADER, "messages": [test_gemini_cli.ONE]})
    else:
        path = test_contexts.STOPPED[format](tmp_path)
    whole = path.read_bytes()
    for end in range(1, len(whole)):
        path.write_bytes(whole[:end])
        sessions, problems = read_file(cast(ModuleType, reader_of(format)), path)
        assert (sessions, len(problems) > 0) == ([], True), end


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_anywhere_gives_whole_messages_of_the_file_and_nothing_else(
    name: str, tmp_path: Path
) -> None:
    reader, file, whole = FILES[name]
    path = tmp_path / file
    path.write_bytes(whole)
    known, problems = words(reader, path)
    assert (len(known) > 0, problems) == (True, 0)
    found = set()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        some, _ = words(reader, path)
        assert some == known[: len(some)]
        found.add(len(some))
    assert {0, len(known) - 1} <= found


@settings(max_examples=usually(60, quick=20, thorough=1000))
@given(data=st.data())
@pytest.mark.parametrize("name", FILES)
def test_a_file_with_any_bytes_changed_is_read_without_an_error(name: str, data: st.DataObject) -> None:
    reader, file, whole = FILES[name]
    raw = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with TemporaryDirectory() as folder, clew.open("memory:") as store:
        path = Path(folder, file)
        path.write_bytes(raw)
        read_file(reader, path)
        for source in reader.read(path, lambda _: None, lambda _: None):
            loaded = store.load(source, on_refused=lambda uid, error: None)
            assert store.get(loaded.id).info.messages == loaded.messages
