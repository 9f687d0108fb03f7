"""goose: the database and the older files give the same entries; hidden messages stay in the history."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clew.importers.programs import goose
from tests.importers.readers import in_tokyo, read_file, read_one, who_and_what, write_lines

SCHEMA = """
CREATE TABLE schema_version (version INTEGER PRIMARY KEY);
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, description TEXT, working_dir TEXT,
  created_at TIMESTAMP,
  updated_at TIMESTAMP, session_type TEXT, accumulated_input_tokens INTEGER,
  accumulated_output_tokens INTEGER,
  input_tokens INTEGER, provider_name TEXT, model_config_json TEXT, recipe_json TEXT, parent_session_id TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT, role TEXT,
  content_json TEXT, created_timestamp INTEGER, tokens INTEGER, metadata_json TEXT);
"""
T0 = 1_754_049_605
Message = tuple[str, list[Any], dict[str, bool]]
SEEN = {"userVisible": True, "agentVisible": True}
PEOPLE = {"userVisible": True, "agentVisible": False}
MODEL = {"userVisible": False, "agentVisible": True}


def say(role: str, *content: Any, flags: dict[str, bool] = SEEN) -> Message:
    return (
        role,
        [{"type": "text", "text": part} if isinstance(part, str) else part for part in content],
        flags,
    )


def database(path: Path, messages: list[Message], key: str = "20260403_1", **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    row = {"id": key, "name": "Fix", "working_dir": "/w", "created_at": "2026-04-03 10:00:00", **columns}
    with closing(sqlite3.connect(path)) as db, db:
        if not db.execute("SELECT 1 FROM sqlite_schema").fetchone():
            db.executescript(SCHEMA)
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        db.execute(f"INSERT INTO sessions ({names}) VALUES ({marks})", tuple(row.values()))
        for number, (role, content, flags) in enumerate(messages):
            values = (f"m{number}", key, role, json.dumps(content), T0 + number, json.dumps(flags))
            columns_of = "message_id, session_id, role, content_json, created_timestamp, metadata_json"
            db.execute(f"INSERT INTO messages ({columns_of}) VALUES (?, ?, ?, ?, ?, ?)", values)
    return path


def test_the_prompts_of_a_subagent_are_no_persons_words(tmp_path: Path) -> None:
    messages = [say("user", "do this"), say("assistant", "ok")]
    read = read_one(goose, database(tmp_path / "sessions.db", messages, session_type="sub_agent"))
    assert [who_and_what(entry)[0] for entry in read.entries] == ["program", "assistant"]


def test_a_session_keeps_what_its_row_says(tmp_path: Path) -> None:
    file = database(
        tmp_path / "sessions.db",
        [say("user", "hi"), say("assistant", "hello")],
        provider_name="p",
        model_config_json='{"model_name": "m", "context_limit": 9}',
        recipe_json='{"title": "r"}',
        session_type="user",
        parent_session_id="20260403_0",
    )
    read = read_one(goose, file)
    session = read.session
    assert (session.id, session.title, session.workspace) == ("goose:20260403_1", "Fix", "/w")
    assert (session.model, session.vendor, session.parent) == ("m", "p", "goose:20260403_0")
    assert session.created_at == datetime(2026, 4, 3, 10, tzinfo=UTC)
    assert session.metadata["recipe"] == {"title": "r"}
    assert session.metadata["session_type"] == "user"
    assert read.said() == [("user", "hi"), ("assistant", "hello")]
    assert read.entries[0].at == datetime.fromtimestamp(T0, UTC)
    assert read.entries[0].notes["source"]["id"] == "m0"


def test_times_without_a_zone_are_not_local_times(tmp_path: Path) -> None:
    with in_tokyo():
        read = read_one(goose, database(tmp_path / "sessions.db", [say("user", "hi")]))
    assert read.session.created_at == datetime(2026, 4, 3, 10, tzinfo=UTC)


def test_tool_requests_and_responses_are_pairs(tmp_path: Path) -> None:
    call = {"status": "success", "value": {"name": "developer__shell", "arguments": {"command": "ls"}}}
    done = {"status": "success", "value": [{"type": "text", "text": "a"}]}
    newer = {"status": "success", "value": {"content": [{"type": "text", "text": "b"}], "isError": True}}
    failed = {"status": "error", "error": "refused"}
    messages = [
        say("assistant", {"type": "toolRequest", "id": "c1", "toolCall": call, "metadata": {"x": 1}}),
        say("user", {"type": "toolResponse", "id": "c1", "toolResult": done}),
        say("user", {"type": "toolResponse", "id": "c2", "toolResult": newer}),
        say("user", {"type": "toolResponse", "id": "c3", "toolResult": failed}),
    ]
    read = read_one(goose, database(tmp_path / "sessions.db", messages))
    (request,) = read.entries[0].message["content"]
    assert request == {
        "type": "tool_use",
        "id": "c1",
        "name": "developer__shell",
        "input": {"command": "ls"},
        "metadata": {"x": 1},
    }
    results = [entry.message["content"][0] for entry in read.entries[1:]]
    assert [(result["tool_use_id"], result.get("is_error")) for result in results] == [
        ("c1", None),
        ("c2", True),
        ("c3", True),
    ]
    assert [role for role, _ in read.said()] == ["assistant", "tool", "tool", "tool"]


COMPACTED = [
    say("user", "one", flags=PEOPLE),
    say("assistant", "first", flags=PEOPLE),
    say("user", "summary of it", flags=MODEL),
    say("user", "continue without mentioning it", flags=MODEL),
    say("user", "two"),
]


def test_a_compaction_keeps_the_originals_and_its_summary_is_no_prompt(tmp_path: Path) -> None:
    read = read_one(goose, database(tmp_path / "sessions.db", COMPACTED))
    assert [who_and_what(entry) for entry in read.entries] == [
        ("user", "one"),
        ("assistant", "first"),
        ("compaction", "summary of it"),
        ("program", "continue without mentioning it"),
        ("user", "two"),
    ]


def test_a_compaction_turns_flags_over_and_changes_no_name(tmp_path: Path) -> None:
    before = read_one(goose, database(tmp_path / "a.db", [say("user", "one"), say("assistant", "first")]))
    after = read_one(goose, database(tmp_path / "b.db", COMPACTED))
    assert [entry.uid for entry in after.entries[:2]] == [entry.uid for entry in before.entries]


def test_the_older_files_give_the_same_entries_as_the_database(tmp_path: Path) -> None:
    messages = [say("user", "hi"), say("assistant", "hello")]
    lines = [
        {"role": role, "created": T0 + number, "content": content}
        for number, (role, content, _) in enumerate(messages)
    ]
    header = {"working_dir": "/w", "description": "Fix", "message_count": 2}
    old = read_one(goose, write_lines(tmp_path / "20260403_1.jsonl", header, *lines))
    new = read_one(goose, database(tmp_path / "sessions.db", messages))
    assert old.session.id == new.session.id
    assert (old.session.title, old.session.workspace) == ("Fix", "/w")
    assert [(entry.uid, entry.message) for entry in old.entries] == [
        (entry.uid, entry.message) for entry in new.entries
    ]


def test_damage_is_told_and_costs_itself_only(tmp_path: Path) -> None:
    message = {"role": "user", "created": T0, "content": [{"type": "text", "text": "hi"}]}
    file = write_lines(tmp_path / "x.jsonl", {"working_dir": "/w", "description": ""}, '{"role":', message)
    (read,), problems = read_file(goose, file)
    assert read.said() == [("user", "hi")]
    assert [problem.line for problem in problems] == [2]
    stored = database(tmp_path / "sessions.db", [say("user", "one"), say("user", "two")])
    with closing(sqlite3.connect(stored)) as db, db:
        db.execute("UPDATE messages SET content_json = '[' WHERE message_id = 'm0'")
    (read,), problems = read_file(goose, stored)
    assert read.said() == [("user", "two")]
    assert "message 1" in problems[0].reason


def test_a_file_without_its_first_line_still_gives_its_messages(tmp_path: Path) -> None:
    message = {"role": "user", "created": T0, "content": [{"type": "text", "text": "hi"}]}
    (read,), problems = read_file(goose, write_lines(tmp_path / "x.jsonl", message))
    assert read.said() == [("user", "hi")]
    assert problems[0].line == 1


def test_files_and_databases_are_found(tmp_path: Path) -> None:
    old = write_lines(tmp_path / "a.jsonl", {"working_dir": "/w", "description": ""})
    new = database(tmp_path / "sessions.db", [say("user", "hi")])
    assert goose.files(tmp_path) == [old, new]
    assert all(goose.recognises(file, file.read_bytes()[:4096]) for file in (old, new))
