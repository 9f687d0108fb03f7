"""Sources, pages, logs and documents that only show a piece of a session are not taken for one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.importers import READERS
from clew.importers.detect import look, reader_of
from clew.importers.reading.files import first_keys, has_keys
from tests.support.rows import each_row


def lines(*records: Any) -> str:
    return "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)


def document(value: Any) -> str:
    return json.dumps(value, indent=2)


SAID = {"role": "user", "content": "hi"}
ITEM = {"type": "message", **SAID}
CLAUDE = {"type": "user", "uuid": "u", "parentUuid": None, "sessionId": "s", "message": SAID}
GEMINI = {"sessionId": "s", "projectHash": "p", "startTime": "2026-01-01T00:00:00Z"}
OPENCODE = {"id": "ses_1", "projectID": "p", "title": "t"}
SAMPLES: dict[str, tuple[str, str]] = {
    "a.jsonl": ("claude-code", lines(CLAUDE)),
    "b.jsonl": ("codex", lines({"timestamp": "t", "type": "session_meta", "payload": {"id": "x"}})),
    "c.jsonl": ("codex", lines({"id": "x", "timestamp": "t", "instructions": None}, ITEM)),
    "d.jsonl": ("gemini-cli", lines(GEMINI, {"id": "1", "type": "user", "content": "hi"})),
    "e.json": ("gemini-cli", document({**GEMINI, "messages": []})),
    "f.json": ("opencode", document(OPENCODE)),
    "g.json": ("opencode", document({"info": OPENCODE, "messages": []})),
    "h.jsonl": ("pi", lines({"type": "session", "version": 3, "id": "x", "timestamp": "t", "cwd": "/w"})),
    "i.jsonl": ("goose", lines({"working_dir": "/w", "description": "d", "message_count": 1}, SAID)),
    "api_conversation_history.json": ("cline", document([SAID])),
    "k.jsonl": ("ggcode", lines({"type": "meta", "session_id": "x", "title": "t"})),
    "l.jsonl": ("picoclaw", lines(SAID)),
    "m.json": ("picoclaw", document({"key": "k", "messages": [SAID]})),
    "n.json": ("tingly-box", document({"version": 1, "items": {"t": {"ID": "t", "ChatID": "c"}}})),
    "o.jsonl": ("tingly-box", lines({"Role": "user", "Content": "hi", "Timestamp": "t"})),
    "p.json": ("ductwork", document({"run_id": "r", "task_name": "t", "iteration": 1, "messages": []})),
    "q.json": ("openrouter", document({"sessions": {"s": {"ID": "s", "Messages": []}}})),
    "r.json": ("continue", document({"sessionId": "s", "title": "t", "history": []})),
    ".aider.chat.history.md": ("aider", "\n# aider chat started at 2026-05-22 10:11:12\n\n#### hi\n"),
}  # fmt: skip


def indented(text: str, with_: str) -> str:
    return "".join(f"{with_}{line}\n" for line in text.splitlines())


def as_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.splitlines()


WRAPPINGS: dict[str, Callable[[str], str]] = {
    "test_it.py": lambda text: f'import json\n\nSAMPLE = r"""\n{text}"""\n',
    "bare.py": lambda text: f'"""A sample:\n{text}"""\nprint(1)\n',
    "comment.sh": lambda text: "#!/bin/sh\n" + indented(text, "# "),
    "quoted.ts": lambda text: "export const sample = [\n" + indented(text, "  ") + "]\n",
    "README.md": lambda text: f"# Format\n\nIt looks so:\n\n```json\n{text}```\n",
    "app.log": lambda text: indented(text, "2026-01-01 12:00:00 INFO "),
    "odd.log": lambda text: indented(text, "[12:00:00] "),
    "page.html": lambda text: f"<!doctype html>\n<pre>\n{text}</pre>\n",
    "change.diff": lambda text: "--- a/x\n+++ b/x\n" + indented(text, "+"),
    "config.yaml": lambda text: "sample: |\n" + indented(text, "  "),
    "fixture.json": lambda text: document({"name": "sample", "value": as_value(text)}),
    "string.json": lambda text: document({"name": "sample", "text": text}),
    "list.json": lambda text: document([as_value(text), {"text": text}]),
    "events.jsonl": lambda text: lines(*[{"level": "info", "record": r} for r in [as_value(text), text]]),
}


@each_row("name", SAMPLES)
def test_the_file_itself_is_known_and_by_no_other_reader(tmp_path: Path, name: str) -> None:
    format, text = SAMPLES[name]
    (tmp_path / name).write_text(text)
    assert [job.format for job in look(tmp_path, None).jobs] == [format]
    assert known_to(tmp_path / name) == [format]


def known_to(path: Path) -> list[str]:
    return [format for format in READERS if reader_of(format).recognises(path, path.read_bytes())]


BESIDE = {
    "history.jsonl": '{"display":"hi","sessionId":"s"}\n',
    "prompts.jsonl": '{"sessionId":"s","type":"user"}\n',
    "index.json": '[{"id":"x","title":"t","msg_count":1}]',
    "sessions.json": "[]",
    "list.json": '{"sessions": [1]}',
    "empty.json": '{"version":1,"items":{}}',
    "notes.md": "# Title\n",
    "half.json.tmp": SAMPLES["p.json"][1],
    "half.jsonl.tmp": SAMPLES["k.jsonl"][1],
    "conversation.json": SAMPLES["api_conversation_history.json"][1],
}


@each_row("name", BESIDE)
def test_what_programs_keep_beside_their_sessions_is_known_to_no_reader(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(BESIDE[name])
    assert known_to(tmp_path / name) == []


def test_every_reader_of_texts_has_a_sample() -> None:
    assert READERS.keys() - {format for format, _ in SAMPLES.values()} == {"llm"}


@each_row("name", SAMPLES)
def test_what_only_shows_it_is_not(tmp_path: Path, name: str) -> None:
    for wrapping, wrap in WRAPPINGS.items():
        (tmp_path / wrapping).write_text(wrap(SAMPLES[name][1]))
    for path in (tmp_path, *tmp_path.iterdir()):
        with pytest.raises(clew.InvalidError, match="that can be imported"):
            look(path, None)


def test_a_database_of_somebody_else_is_not(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as db, db:
        db.execute("CREATE TABLE notes (text)")
        db.executemany("INSERT INTO notes VALUES (?)", [(text,) for _, text in SAMPLES.values()])
    with pytest.raises(clew.InvalidError, match="that can be imported"):
        look(tmp_path, None)


@each_row("name", ["a.jsonl", "b.jsonl", "k.jsonl", "o.jsonl"])
def test_a_log_whose_first_line_is_damaged_is_still_known(tmp_path: Path, name: str) -> None:
    format, text = SAMPLES[name]
    (tmp_path / name).write_text('{"torn": "rec\n' + text)
    assert [job.format for job in look(tmp_path, None).jobs] == [format]


def test_a_log_may_begin_with_what_a_crash_left(tmp_path: Path) -> None:
    (tmp_path / "k.jsonl").write_text('ing", "rest": "of a record"}\n' + SAMPLES["k.jsonl"][1])
    assert [job.format for job in look(tmp_path, None).jobs] == ["ggcode"]


def test_a_record_that_is_printed_over_several_lines_is_no_log(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / f"{name}.json").write_text(document(json.loads(SAMPLES[name][1])))
    with pytest.raises(clew.InvalidError, match="that can be imported"):
        look(tmp_path, None)


@each_row("cut", [0, 3, 40])
def test_a_document_that_is_not_shown_to_its_end_is_known(cut: int) -> None:
    text = document({**GEMINI, "messages": [{"content": "x" * 100}]}).encode()
    shown = text[: len(text) - cut]
    assert has_keys(shown, "sessionId", "projectHash")
    assert first_keys(shown) == {"sessionId", "projectHash", "startTime", "messages"}


def test_keys_are_those_of_the_object_itself() -> None:
    text = rb'{"a": {"b": [{"c": 1}]}, "d\"e": ", \"f\": ", "g": [1, "h", {"i": 2}], "j": null} {"k": 1}'
    assert first_keys(text) == {"a", r"d\"e", "g", "j"}
    assert first_keys(b'[{"a": 1}]') == set()
    assert first_keys(b'{"a": "unending { , \\" ') == {"a"}
