"""tingly-box: three ways in which it kept its sessions, read without a trace."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import clew
from clew.importers.programs import tingly_box as reader
from tests.importers.landing import bring, bring_one
from tests.importers.readers import read_file, read_one, write_json, write_lines

TIME = "2026-02-10T09:15:04+08:00"
ZERO = "0001-01-01T00:00:00Z"
SESSIONS = """CREATE TABLE remote_cc_sessions (
  id TEXT PRIMARY KEY, status TEXT NOT NULL, request TEXT, response TEXT, error TEXT,
  created_at TEXT NOT NULL, last_activity TEXT NOT NULL, expires_at TEXT NOT NULL, context TEXT)"""
MESSAGES = """CREATE TABLE remote_cc_messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,
  content TEXT NOT NULL, summary TEXT, timestamp TEXT NOT NULL)"""
REMOTE = """CREATE TABLE remote_sessions (
  id TEXT PRIMARY KEY, chat_id TEXT, agent TEXT, project TEXT, status TEXT, request TEXT, response TEXT,
  error TEXT, permission_mode TEXT, created_at TEXT, last_activity TEXT, expires_at TEXT)"""


def database(path: Path, *statements: tuple[str, tuple[Any, ...]] | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(*((statement, ()) if isinstance(statement, str) else statement))
    return path


def row(id: str = "s1", context: str | None = '{"project_path":"/w"}') -> tuple[str, tuple[Any, ...]]:
    values = (id, "completed", "fix it", "done", None, TIME, TIME, ZERO, context)
    return "INSERT INTO remote_cc_sessions VALUES (?,?,?,?,?,?,?,?,?)", values


def words(
    number: int, text: str, id: str = "s1", time: str = TIME, role: str = "user"
) -> tuple[str, tuple[Any, ...]]:
    return "INSERT INTO remote_cc_messages VALUES (?,?,?,?,?,?)", (number, id, role, text, "", time)


def contents(session: clew.Session) -> list[Any]:
    return [message["content"] for message in session.messages()]


def test_messages_are_in_the_order_of_their_numbers_not_of_their_times(
    tmp_path: Path, store: clew.Store
) -> None:
    later = "2026-02-10T02:00:00+00:00"  # as text before 09:15 in China, in truth after it
    statements = [words(3, "third"), words(1, "first"), words(2, "second", time=later)]
    s = bring_one(store, reader, database(tmp_path / "rc.db", SESSIONS, MESSAGES, row(), *statements))
    assert s.id == "tingly-box:s1"
    assert contents(s) == ["first", "second", "third"]
    assert str(next(s.entries()).time) == "2026-02-10 01:15:04+00:00"


def test_status_request_and_answer_are_metadata_and_context_is_variables(
    tmp_path: Path, store: clew.Store
) -> None:
    s = bring_one(store, reader, database(tmp_path / "rc.db", SESSIONS, MESSAGES, row(), words(1, "hi")))
    metadata = s.info.metadata
    assert (metadata["status"], metadata["request"], metadata["response"]) == ("completed", "fix it", "done")
    assert metadata["expires_at"] == ZERO
    assert (s.get_var("project_path"), s.info.workspace_given) == ("/w", "/w")


def test_a_context_that_is_no_object_is_kept_as_it_is(tmp_path: Path) -> None:
    read = read_one(reader, database(tmp_path / "rc.db", SESSIONS, MESSAGES, row(context="[broken")))
    assert read.session.metadata["context"] == "[broken"
    assert read.session.vars() == {}


def test_the_summary_of_a_message_is_beside_it(tmp_path: Path, store: clew.Store) -> None:
    insert = "INSERT INTO remote_cc_messages VALUES (1,'s1','assistant','long','short',?)"
    s = bring_one(store, reader, database(tmp_path / "rc.db", SESSIONS, MESSAGES, row(), (insert, (TIME,))))
    (entry,) = s.entries()
    assert entry.message == {"role": "assistant", "content": "long"}
    assert entry.annotations["summary"] == "short"
    assert entry.annotations["timestamp"] == TIME


def test_nulls_cost_nothing(tmp_path: Path) -> None:
    loose = [statement.replace(" NOT NULL", "") for statement in (SESSIONS, MESSAGES)]
    nothing = "INSERT INTO remote_cc_sessions (id) VALUES ('s1')"
    empty = "INSERT INTO remote_cc_messages (session_id) VALUES ('s1')"
    read = read_one(reader, database(tmp_path / "rc.db", *loose, nothing, empty, words(2, "hi")))
    assert [entry.message["content"] for entry in read.path] == ["", "hi"]
    assert read.session.created_at is None


def test_messages_without_a_session_are_a_session(tmp_path: Path, store: clew.Store) -> None:
    path = database(tmp_path / "rc.db", SESSIONS, MESSAGES, row(), words(1, "here"), words(2, "lost", "gone"))
    first, second = (store.get(one.id) for one in bring(store, reader, path))
    assert (contents(first), contents(second)) == (["here"], ["lost"])
    assert second.info.metadata["orphan"] is True


def test_old_messages_that_were_purged_since_stay_in_the_store(tmp_path: Path, store: clew.Store) -> None:
    path = database(tmp_path / "rc.db", SESSIONS, MESSAGES, row(), words(1, "one"), words(2, "two"))
    bring(store, reader, path)
    database(path, "DELETE FROM remote_cc_messages WHERE id = 1", words(3, "three"))
    (loaded,) = bring(store, reader, path)
    assert (loaded.state, loaded.entries) == ("grown", 1)
    assert contents(store.get(loaded.id)) == ["one", "two", "three"]


def item(id: str, *messages: Any, **more: Any) -> dict[str, Any]:
    return {
        "ID": id,
        "ChatID": "c1",
        "Agent": "claude",
        "Project": "/w",
        "Status": "running",
        "Request": "r",
        "CreatedAt": TIME,
        "LastActivity": TIME,
        "ExpiresAt": ZERO,
        "Messages": list(messages),
        "PermissionMode": "default",
    } | more


def spoken(text: str, time: str = "2026-08-01T09:00:00Z") -> dict[str, Any]:
    return {"Role": "user", "Content": text, "Summary": "", "Timestamp": time}


def test_the_json_document_gives_its_sessions_with_their_bindings(tmp_path: Path, store: clew.Store) -> None:
    document = {"version": 1, "items": {"s1": item("s1", spoken("hi")), "s2": item("s2")}, "updated": TIME}
    path = write_json(tmp_path / "bot_sessions.json", document)
    assert reader.recognises(path, path.read_bytes())
    first, second = (store.get(one.id) for one in bring(store, reader, path))
    assert (contents(first), contents(second)) == (["hi"], [])
    found = store.list(where={"chat_id": "c1", "agent": "claude"})
    assert {info.id for info in found} == {first.id, second.id}
    assert first.info.metadata["permission_mode"] == "default"
    assert first.info.workspace_given == "/w"


def test_a_session_is_found_by_chat_agent_and_project(tmp_path: Path, store: clew.Store) -> None:
    """As tingly-box looks it up, by the agent that it calls; it is still a session of tingly-box."""
    items = {"s1": item("s1"), "s2": item("s2", Agent="codex"), "s3": item("s3", Project="/other")}
    path = write_json(tmp_path / "bot_sessions.json", {"version": 1, "items": items, "updated": TIME})
    store.import_path(path)
    wanted: list[dict[str, Any]] = [
        {"where": {"chat_id": "c1", "agent": "claude"}, "workspace": "/w"},
        {"where": {"chat_id": "c1", "agent": "claude", "project": "/w"}},
        {"where": {"chat_id": "c1", "agent": "claude"}, "agent": "tingly-box", "project": "w"},
    ]
    store.get("s1").append({"role": "user", "content": "herons"})
    for filters in wanted:
        assert [info.id for info in store.list(**filters)] == ["tingly-box:s1"], filters
        assert [hit.session for hit in store.search("herons", **filters)] == ["tingly-box:s1"], filters
    pages = [store.list(where={"agent": "claude"}, limit=1)]
    pages.append(store.list(where={"agent": "claude"}, limit=1, cursor=pages[0].cursor))
    assert sorted(info.id for page in pages for info in page) == ["tingly-box:s1", "tingly-box:s3"]
    assert len(store.list(where={"agent": "tingly-box"})) == len(store.list(agent="tingly-box")) == 3
    assert store.get("s2").info.agent == "tingly-box"
    assert [(one.value, one.sessions) for one in store.facets().agents] == [("tingly-box", 3)]


def test_a_document_that_is_cut_off_gives_the_sessions_before_the_cut(tmp_path: Path) -> None:
    path = write_json(
        tmp_path / "b.json", {"version": 1, "items": {"s1": item("s1", spoken("a")), "s2": item("s2")}}
    )
    path.write_text(path.read_text()[:-60])
    reads, problems = read_file(reader, path)
    assert reads[0].session.id == "tingly-box:s1"
    assert len(reads[0].entries) == 1
    assert len(problems) == 1


def newest_form(folder: Path, *ids: str) -> Path:
    values = [(id, "c1", "claude", "/w", "pending", "", "", "", "default", TIME, TIME, ZERO) for id in ids]
    insert = f"INSERT INTO remote_sessions VALUES ({','.join('?' * 12)})"
    return database(folder / "db" / "tingly.db", REMOTE, *((insert, each) for each in values))


def test_a_table_of_sessions_is_read_with_its_transcripts(tmp_path: Path, store: clew.Store) -> None:
    transcripts = tmp_path / "remote" / "transcripts"
    path = newest_form(tmp_path, "s1", "../evil", "none")
    write_lines(transcripts / "s1.jsonl", spoken("one"), "torn", spoken("two"))
    write_lines(transcripts / f"h-{sha256(b'../evil').hexdigest()}.jsonl", spoken("hashed"))
    loaded = {one.id: contents(store.get(one.id)) for one in bring(store, reader, path)}
    assert loaded == {
        "tingly-box:s1": ["one", "two"],
        "tingly-box:../evil": ["hashed"],
        "tingly-box:none": [],
    }
    _, problems = read_file(reader, path)
    assert [(Path(problem.path).name, problem.line) for problem in problems] == [("s1.jsonl", 2)]


def test_a_transcript_by_itself_is_the_session_that_the_table_names(
    tmp_path: Path, store: clew.Store
) -> None:
    newest_form(tmp_path, "s1")
    known = write_lines(tmp_path / "remote" / "transcripts" / "s1.jsonl", spoken("one"))
    lost = write_lines(tmp_path / "remote" / "transcripts" / "s9.jsonl", spoken("two"))
    assert reader.recognises(known, known.read_bytes())
    loaded = bring(store, reader, *reader.files(tmp_path))
    assert [(one.id, one.state) for one in loaded] == [
        ("tingly-box:s1", "new"),
        ("tingly-box:s1", "unchanged"),
        ("tingly-box:s9", "new"),
    ]
    assert store.get("tingly-box:s9").info.metadata["orphan"] is True
    assert reader.recognises(tmp_path, b"")
    assert lost in reader.files(tmp_path)


def test_a_session_that_moved_from_the_document_to_a_transcript_goes_on_there(
    tmp_path: Path, store: clew.Store
) -> None:
    old = write_json(
        tmp_path / "bot_sessions.json", {"version": 1, "items": {"s1": item("s1", spoken("one"))}}
    )
    new = newest_form(tmp_path, "s1")
    write_lines(tmp_path / "remote" / "transcripts" / "s1.jsonl", spoken("one"), spoken("two"))
    first, second = bring(store, reader, old, new)
    assert (first.entries, second.entries) == (1, 1)
    assert contents(store.get("tingly-box:s1")) == ["one", "two"]
