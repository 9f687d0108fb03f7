"""simonw/llm: both generations of tables; a thread is a tree of messages named by their content."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.importers.programs import llm
from tests.importers.readers import Read, land, read_file, read_one

OLD = """
CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
CREATE TABLE responses (id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, options_json TEXT,
  response TEXT, conversation_id TEXT, duration_ms INTEGER, datetime_utc TEXT, input_tokens INTEGER,
  output_tokens INTEGER,
  token_details TEXT);
"""
EXTRAS = """
CREATE TABLE fragments (id INTEGER PRIMARY KEY, hash TEXT, content TEXT);
CREATE TABLE prompt_fragments (response_id TEXT, fragment_id INTEGER, "order" INTEGER);
CREATE TABLE attachments (id TEXT PRIMARY KEY, type TEXT, path TEXT, url TEXT, content BLOB);
CREATE TABLE prompt_attachments (response_id TEXT, attachment_id TEXT, "order" INTEGER);
CREATE TABLE tool_calls (id INTEGER PRIMARY KEY, response_id TEXT, name TEXT,
  arguments TEXT, tool_call_id TEXT);
CREATE TABLE tool_results (id INTEGER PRIMARY KEY, response_id TEXT, name TEXT,
  output TEXT, tool_call_id TEXT);
"""
NEW = """
CREATE TABLE messages (hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT, provider_metadata TEXT);
CREATE TABLE parts (message_hash TEXT, position INTEGER, type TEXT, tool_name TEXT, text TEXT, payload TEXT);
CREATE TABLE threads (id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT,
  forked_from TEXT, datetime_utc TEXT);
CREATE TABLE turns (id TEXT PRIMARY KEY, thread_id TEXT, parent_message_hash TEXT,
  tip_message_hash TEXT, model TEXT,  datetime_utc TEXT, input_tokens INTEGER, output_tokens INTEGER);
"""
TIME = "2026-08-05T10:00:00.123456+00:00"


class Log:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.db = sqlite3.connect(path)

    def add(self, table: str, **row: Any) -> None:
        names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
        self.db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))
        self.db.commit()

    def respond(self, key: str, prompt: str, response: str, of: str | None = "c1", **more: Any) -> None:
        row = {"model": "m", "datetime_utc": TIME, "input_tokens": 8, "output_tokens": 12, **more}
        self.add("responses", id=key, prompt=prompt, response=response, conversation_id=of, **row)

    def say(self, name: str, parent: str | None, role: str, *parts: Any) -> None:
        self.add("messages", hash=name, parent_hash=parent, role=role)
        for position, part in enumerate(parts):
            fields = {"type": "text", "text": part} if isinstance(part, str) else part
            self.add("parts", message_hash=name, position=position, **fields)

    def turn(self, key: str, thread: str, tip: str) -> None:
        told = {"model": "m", "datetime_utc": TIME, "input_tokens": 8, "output_tokens": 12}
        self.add("turns", id=key, thread_id=thread, tip_message_hash=tip, **told)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "logs.db")
    with closing(log.db):
        yield log


def sessions_of(log: Log) -> dict[str, Read]:
    sessions, problems = read_file(llm, log.path)
    assert problems == []
    return {read.session.id: read for read in sessions}


def test_a_conversation_keeps_its_name_model_times_and_messages(log: Log) -> None:
    log.db.executescript(OLD)
    log.add("conversations", id="c1", name="Pelicans", model="m")
    log.respond("r1", "hi", "hello", system="be brief", duration_ms=560)
    log.respond("r2", "more", "yes", system="be brief")
    read = read_one(llm, log.path)
    assert (read.session.id, read.session.title, read.session.model) == ("llm:c1", "Pelicans", "m")
    assert read.session.created_at == datetime(2026, 8, 5, 10, 0, 0, 123456, tzinfo=UTC)
    assert read.said() == [
        ("system", "be brief"),
        ("user", "hi"),
        ("assistant", "hello"),
        ("user", "more"),
        ("assistant", "yes"),
    ]
    assert read.entries[2].notes["source"]["duration_ms"] == 560
    assert [(usage.id, usage.input_tokens) for usage in read.usage.values()] == [("r1", 8), ("r2", 8)]


def test_a_response_of_no_conversation_is_a_session(log: Log) -> None:
    log.db.executescript(OLD)
    log.respond("r1", "hi", "hello", of=None)
    assert read_one(llm, log.path).session.id == "llm:r1"


def test_fragments_attachments_and_tools_belong_to_the_messages(log: Log) -> None:
    log.db.executescript(OLD + EXTRAS)
    log.respond("r1", "what is it?", "")
    log.respond("r2", "", "a cat")
    log.add("fragments", id=1, hash="h", content="a long text")
    log.add("prompt_fragments", response_id="r1", fragment_id=1, order=0)
    log.add("attachments", id="a1", type="image/png", content=b"\x89PNG\xff")
    log.add("prompt_attachments", response_id="r1", attachment_id="a1", order=0)
    log.add("tool_calls", response_id="r1", name="look", arguments="{}", tool_call_id="t1")
    log.add("tool_results", response_id="r2", name="look", output="fur", tool_call_id="t1")
    asked, called, answered, told = [entry.message for entry in read_one(llm, log.path).entries]
    assert asked["content"] == [
        {"type": "text", "text": "a long text\nwhat is it?"},
        {"type": "file", "mime_type": "image/png", "data": "iVBOR/8="},
    ]
    assert called["tool_calls"] == [
        {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    ]
    assert answered == {"role": "tool", "tool_call_id": "t1", "name": "look", "content": "fur"}
    assert told["content"] == "a cat"


def test_a_thread_is_the_chain_that_its_tip_ends(log: Log) -> None:
    log.db.executescript(NEW)
    log.say("b2:1", None, "user", "one")
    log.say("b2:2", "b2:1", "assistant", "first")
    log.add("threads", id="t1", name="T", tip_message_hash="b2:2", datetime_utc=TIME)
    log.turn("u1", "t1", "b2:2")
    read = read_one(llm, log.path)
    assert (read.session.id, read.session.title, read.session.model) == ("llm:t1", "T", "m")
    assert read.said() == [("user", "one"), ("assistant", "first")]
    assert [entry.uid for entry in read.entries] == ["b2:1", "b2:2"]
    assert [usage.id for usage in read.usage.values()] == ["u1"]
    assert read.entries[1].notes["source"]["turn"]["model"] == "m"


def test_a_call_that_the_thread_no_longer_points_at_stays_as_a_branch(log: Log) -> None:
    log.db.executescript(NEW)
    log.say("b2:1", None, "user", "one")
    log.say("b2:2", "b2:1", "assistant", "left")
    log.say("b2:3", "b2:1", "assistant", "right")
    log.add("threads", id="t1", tip_message_hash="b2:2")
    log.turn("u1", "t1", "b2:2")
    log.turn("u2", "t1", "b2:3")
    read = read_one(llm, log.path)
    assert [words for _, words in read.said()] == ["one", "left"]
    assert len(read.entries) == 3
    assert len(read.usage) == 2


def test_a_fork_shares_messages_is_linked_and_pays_only_for_its_own(log: Log) -> None:
    log.db.executescript(NEW)
    log.say("b2:1", None, "user", "one")
    log.say("b2:2", "b2:1", "assistant", "first")
    log.say("b2:3", "b2:2", "user", "two")
    log.add("threads", id="t0-fork", tip_message_hash="b2:3", forked_from="t1")
    log.add("threads", id="t1", tip_message_hash="b2:2")
    log.turn("u1", "t1", "b2:2")
    found = sessions_of(log)
    assert list(found) == ["llm:t1", "llm:t0-fork"]
    fork = found["llm:t0-fork"]
    assert fork.session.parent == "llm:t1"
    assert [words for _, words in fork.said()] == ["one", "first", "two"]
    assert fork.usage == {}


def test_text_of_fragments_calls_and_results_are_put_together_again(log: Log) -> None:
    log.db.executescript(NEW + EXTRAS)
    log.add("fragments", id=1, hash="h", content="a novel")
    reference = {"type": "text", "payload": '{"text_ref": [{"fragment": 1}, {"literal": "\\nwho?"}]}'}
    call = {
        "type": "tool_call",
        "tool_name": "look",
        "payload": '{"arguments": {"x": 1}, "tool_call_id": "c1", "odd": 7}',
    }
    result = {
        "type": "tool_result",
        "tool_name": "look",
        "payload": '{"output": "fur", "tool_call_id": "c1"}',
    }
    log.say("b2:1", None, "user", reference)
    log.say("b2:2", "b2:1", "assistant", {"type": "reasoning", "text": "hm"}, call)
    log.say("b2:3", "b2:2", "user", result)
    log.add("threads", id="t1", tip_message_hash="b2:3")
    read = read_one(llm, log.path)
    assert [role for role, _ in read.said()] == ["user", "assistant", "tool"]
    assert read.said()[0][1] == "a novel\nwho?"
    assert read.entries[1].message["content"] == [
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"x": 1}, "odd": 7},
    ]


def test_what_was_moved_to_the_newer_tables_is_not_told_twice(log: Log) -> None:
    log.db.executescript(OLD + NEW)
    log.add("conversations", id="c1", name="C", model="m")
    log.respond("r1", "one", "first")
    log.respond("r2", "only here", "second")
    log.say("b2:1", None, "user", "one")
    log.say("b2:2", "b2:1", "assistant", "first")
    log.add("threads", id="c1", name="C", tip_message_hash="b2:2")
    log.turn("r1", "c1", "b2:2")
    read = read_one(llm, log.path)
    assert [words for _, words in read.said()] == ["one", "first"]
    assert sorted(entry.uid for entry in read.entries) == ["b2:1", "b2:2", "r2/prompt", "r2/response"]
    assert sorted(read.usage) == ["r1", "r2"]


def test_a_message_that_is_missing_costs_what_is_before_it(log: Log) -> None:
    log.db.executescript(NEW)
    log.say("b2:2", "b2:gone", "assistant", "first")
    log.add("threads", id="t1", tip_message_hash="b2:2")
    assert read_one(llm, log.path).said() == [("assistant", "first")]


def test_in_a_store_the_same_log_adds_nothing(store: clew.Store, log: Log) -> None:
    log.db.executescript(OLD)
    log.respond("r1", "hi", "hello")
    assert land(store, llm, log.path) == [("llm:c1", "new", 2)]
    log.respond("r2", "more", "yes")
    assert land(store, llm, log.path) == [("llm:c1", "grown", 2)]
    assert land(store, llm, log.path) == [("llm:c1", "unchanged", 0)]
