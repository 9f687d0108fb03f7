"""Documents for `opencode import`: the same rows of what came from OpenCode, new ones of all else."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.messages.dialects.base import INTERRUPTED
from clew.exporters.programs import opencode
from tests.importers.programs.test_opencode import Database, assistant, text, tool, user

PNG = "iVBORw0KGgo="
Rows = dict[str, dict[str, Any]]


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "opencode.db")


def rows_in(path: Path, session: str) -> tuple[Rows, Rows]:
    """The messages and parts of a session in a database."""
    db = sqlite3.connect(path)
    messages = db.execute("SELECT id, data FROM message WHERE session_id = ?", (session,)).fetchall()
    parts = db.execute("SELECT id, message_id, data FROM part WHERE session_id = ?", (session,)).fetchall()
    db.close()
    return (
        {id: json.loads(data) for id, data in messages},
        {id: {**json.loads(data), "messageID": message} for id, message, data in parts},
    )


def rows_of(document: dict[str, Any]) -> tuple[Rows, Rows]:
    """The same in a document."""
    own = document["info"]["id"]
    messages, parts = {}, {}
    for message in document["messages"]:
        info = dict(message["info"])
        assert info.pop("sessionID") == own
        messages[info.pop("id")] = info
        for part in message["parts"]:
            rest = dict(part)
            assert rest.pop("sessionID") == own
            assert rest["messageID"] == message["info"]["id"]
            parts[rest.pop("id")] = rest
    return messages, parts


def document(store: clew.Store, id: str, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(b"".join(opencode.pieces(store, id, **options)))
    return found


def shown(document: dict[str, Any]) -> list[tuple[str, list[str]]]:
    return [(m["info"]["role"], [_words(part) for part in m["parts"]]) for m in document["messages"]]


def _words(part: dict[str, Any]) -> str:
    if part["type"] == "tool":
        state = part["state"]
        return f"{part['tool']} {state['status']}: {state.get('output', state.get('error'))}"
    return str(part.get("text", part["type"]))


STEP = {"type": "step-start", "snapshot": "ab"}
FILE = {"type": "file", "mime": "image/png", "filename": "a.png", "url": f"data:image/png;base64,{PNG}"}
CASES: dict[str, list[Any]] = {
    "texts, steps and patches": [
        user(text("hi")),
        assistant(STEP, text("hello", time={"start": 1}), {"type": "patch", "hash": "ab", "files": []}),
    ],
    "calls of every state": [
        user(text("go")),
        assistant(
            STEP,
            {"type": "reasoning", "text": "hmm", "metadata": {"anthropic": {"signature": "s"}}},
            tool("c1", output="ok", title="T", metadata={"diff": "+1"}, time={"start": 1, "end": 2}),
            tool("c2", "error", error="no", time={"start": 1, "end": 2}),
            tool("c3", "running", time={"start": 1}),
            tool("c4", output="", title="", attachments=[{**FILE, "id": "prt_x"}]),
            finish="tool-calls",
        ),
    ],
    "calls without any result": [user(text("go")), assistant(text("so"), tool("c", "pending", raw=""))],
    "several steps in one message": [
        assistant(text("1"), tool("a", output="A"), STEP, text("2"), tool("b", output="B"), text("3"))
    ],
    "what a program wrote in the user's name": [
        user(text("seen", synthetic=True), text("said"), FILE, text("read", synthetic=True)),
        user(text("only this", synthetic=True)),
        user({"type": "agent", "name": "x"}, text("and")),
    ],
    "a task for a subagent": [
        user({"type": "subtask", "prompt": "look", "description": "Look", "agent": "general"}, text("and go"))
    ],
    "answers that were aborted": [
        user(text("go")),
        assistant(STEP, error={"name": "MessageAbortedError", "data": {"message": "stop"}}),
        assistant(STEP, text("half"), error={"name": "MessageAbortedError", "data": {"message": "stop"}}),
    ],
    "nothing": [user(), assistant()],
}


@pytest.mark.parametrize("messages", CASES.values(), ids=CASES)
def test_what_came_from_opencode_has_the_same_rows(
    store: clew.Store, database: Database, messages: list[Any]
) -> None:
    database.add("ses_1", *messages, slug="s", version="1.0", time_updated=1_760_000_000_500)
    path = database.close()
    store.import_path(path)
    found = document(store, "opencode:ses_1")
    assert rows_of(found) == rows_in(path, "ses_1")
    assert found["info"] == {
        "id": "ses_1",
        "slug": "s",
        "projectID": "pr",
        "directory": "/w",
        "title": "T",
        "version": "1.0",
        "time": {"created": 1_760_000_000_000, "updated": 1_760_000_000_500},
    }


def test_rows_that_were_read_while_they_were_written_come_back(store: clew.Store, database: Database) -> None:
    """An answer grows, its call ends, the next prompt comes; the database is looked at after each."""
    database.add("ses_1", user(text("go")))
    said = {**assistant()[0], "time": {"created": 1_760_000_000_001}, "parentID": "msg_ses_1_0"}

    def look(*changes: tuple[str, str, Any]) -> None:
        for table, name, data in changes:
            owner = {"message": "session_id, time_created", "part": "message_id, session_id"}[table]
            values = {"message": ("ses_1", 1_760_000_000_001), "part": ("msg_ses_1_1", "ses_1")}[table]
            sql = f"INSERT OR REPLACE INTO {table} (id, data, {owner}) VALUES (?, ?, ?, ?)"
            database.db.execute(sql, (name, json.dumps(data), *values))
            database.db.execute("UPDATE session SET time_updated = coalesce(time_updated, 0) + 1")
        database.db.commit()
        store.sync([database.path])

    look()
    look(("message", "msg_ses_1_1", said), ("part", "prt_1", text("So")))
    look(("part", "prt_1", text("So it is.")), ("part", "prt_2", tool("c", "running", time={"start": 1})))
    look(("part", "prt_2", tool("c", output="ok", title="", metadata={}, time={"start": 1, "end": 2})))
    look(
        ("message", "msg_ses_1_1", {**said, "finish": "stop"}),
        ("part", "prt_3", {"type": "patch", "hash": "a"}),
    )
    path = database.close()
    assert rows_of(document(store, "opencode:ses_1")) == rows_in(path, "ses_1")


def compacted(database: Database, **kept: Any) -> Path:
    ask = ({"role": "user"}, ({"type": "compaction", "auto": True, **kept},))
    summary = assistant(STEP, text("They spoke."), summary=True, parentID="msg_ses_1_4", finish="stop")
    first = [user(text("one")), assistant(text("1"), parentID="msg_ses_1_0")]
    second = [user(text("two")), assistant(text("2"), parentID="msg_ses_1_2")]
    database.add("ses_1", *first, *second, ask, summary, user(text("three")))
    return database.close()


def test_a_compaction_has_the_same_rows(store: clew.Store, database: Database) -> None:
    path = compacted(database, tail_start_id="msg_ses_1_2")
    store.import_path(path)
    assert rows_of(document(store, "opencode:ses_1")) == rows_in(path, "ses_1")


def test_what_a_revert_hides_has_the_same_rows(store: clew.Store, database: Database) -> None:
    revert = {"messageID": "msg_ses_1_2", "snapshot": "ab"}
    messages = [user(text("one")), assistant(text("1")), user(text("two")), assistant(text("2"))]
    database.add("ses_1", *messages, revert=json.dumps(revert))
    path = database.close()
    store.import_path(path)
    found = document(store, "opencode:ses_1")
    assert rows_of(found) == rows_in(path, "ses_1")
    assert found["info"]["revert"] == revert
    # A new session has what is not hidden.
    assert shown(document(store, "opencode:ses_1", at=1)) == [("user", ["one"]), ("assistant", ["1"])]


def test_a_document_of_opencode_comes_back(store: clew.Store, tmp_path: Path) -> None:
    session: dict[str, Any] = {"id": "ses_1", "slug": "s", "projectID": "p", "version": "1"}
    session |= {"directory": "/w", "title": "T"}
    session |= {"time": {"created": 5, "updated": 9}, "cost": 0.5, "agent": "plan", "parentID": "ses_0"}
    told = {"id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": 6}, "agent": "plan"}
    part = {"id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1", "type": "text", "text": "hi"}
    whole = {"info": session, "messages": [{"info": told, "parts": [part]}]}
    (tmp_path / "x.json").write_text(json.dumps(whole))
    store.import_path(tmp_path / "x.json")
    assert document(store, "opencode:ses_1") == whole


# -- changed here


def test_whatever_was_changed_is_a_new_session(store: clew.Store, database: Database) -> None:
    messages = [user(text("one")), assistant(text("1"), tool("c", output="ok"), parentID="msg_ses_1_0")]
    database.add("ses_1", *messages, user(text("two")))
    store.import_path(database.close())
    session = store.get("opencode:ses_1")
    session.fork("opencode:ses_1#fork-1")
    own = {id for rows in rows_of(document(store, session.id)) for id in rows}
    fork = document(store, "opencode:ses_1#fork-1")
    place = document(store, session.id, at=1)
    session.append({"role": "assistant", "content": "2"})
    more = document(store, session.id)
    assert shown(fork) == [("user", ["one"]), ("assistant", ["1", "edit completed: ok"]), ("user", ["two"])]
    assert shown(more) == [*shown(fork), ("assistant", ["step-start", "2", "step-finish"])]
    assert shown(place)[1] == ("assistant", ["1", f"edit error: {INTERRUPTED}"])
    for found in (fork, place, more):
        rows = rows_of(found)
        assert not own & {id for some in rows for id in some}
        # OpenCode sorts messages by time and id, parts by id; ids begin anew every two years.
        times = [(info["time"]["created"], id) for id, info in rows[0].items()]
        assert times == sorted(times)
        for message in found["messages"]:
            parts = [part["id"] for part in message["parts"]]
            assert parts == sorted(parts)
        prompt = next(iter(rows[0]))
        assert [info["parentID"] for info in rows[0].values() if info["role"] == "assistant"][:1] == [prompt]
        assert found["info"]["id"].startswith("ses_")
        assert found["info"]["id"] != "ses_1"
    assert document(store, session.id) == more  # the same ids in every export


def test_a_session_that_was_rewound_and_came_back_is_as_it_was(store: clew.Store, database: Database) -> None:
    database.add("ses_1", user(text("one")), assistant(text("1")))
    path = database.close()
    store.import_path(path)
    session = store.get("opencode:ses_1")
    session.rewind(0)
    assert document(store, session.id)["info"]["id"] != "ses_1"
    session.undo()
    assert rows_of(document(store, session.id)) == rows_in(path, "ses_1")


def test_the_tail_of_a_compaction_is_named_anew(store: clew.Store, database: Database) -> None:
    store.import_path(compacted(database, tail_start_id="msg_ses_1_2"))
    store.get("opencode:ses_1").append({"role": "assistant", "content": "3"})
    found = document(store, "opencode:ses_1")
    ids = [message["info"]["id"] for message in found["messages"]]
    asked = found["messages"][4]
    assert asked["parts"][0]["tail_start_id"] == ids[2]
    assert found["messages"][5]["info"]["parentID"] == asked["info"]["id"]


def test_an_answer_stays_with_its_own_prompt(store: clew.Store, database: Database) -> None:
    """Not with the one that was typed while it was made."""
    database.add("ses_1", user(text("one")), user(text("two")), assistant(text("1"), parentID="msg_ses_1_0"))
    store.import_path(database.close())
    found = document(store, "opencode:ses_1", at=2)
    assert found["messages"][2]["info"]["parentID"] == found["messages"][0]["info"]["id"]


def test_a_result_that_came_here_answers_the_call(store: clew.Store, database: Database) -> None:
    database.add("ses_1", user(text("go")), assistant(tool("c", "running", time={"start": 1})))
    store.import_path(database.close())
    result = {"type": "tool_result", "tool_use_id": "c", "content": "late"}
    store.get("opencode:ses_1").append({"role": "user", "content": [result]})
    assert shown(document(store, "opencode:ses_1"))[1] == ("assistant", ["edit completed: late"])


# -- of other agents


def call(id: str, **arguments: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "f", "arguments": json.dumps(arguments)}}


def test_a_compaction_of_another_agent_keeps_its_tail(store: clew.Store) -> None:
    s = store.create("x", workspace="/w")
    for number in range(3):
        s.append({"role": "user", "content": f"q{number}"}, {"role": "assistant", "content": f"a{number}"})
    s.compact("Short.", upto=1)
    s.append({"role": "user", "content": "next"})
    found = document(store, "x")
    asked, summary = found["messages"][6:8]
    assert asked["parts"][0]["type"] == "compaction"
    assert asked["parts"][0]["tail_start_id"] == found["messages"][2]["info"]["id"]
    # By these OpenCode knows that the summary stands for what was before.
    assert summary["info"]["summary"] is True
    assert summary["info"]["finish"] == "stop"
    assert summary["info"]["parentID"] == asked["info"]["id"]
    assert [part["text"] for part in summary["parts"]] == ["Short."]


def test_images_are_files_also_those_of_results(store: clew.Store) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    use = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "x"}, image]}
    s = store.create("x")
    s.append({"role": "user", "content": [{"type": "text", "text": "look"}, image]})
    s.append({"role": "assistant", "content": [use]}, {"role": "user", "content": [result]})
    first, second = document(store, "x")["messages"]
    assert first["parts"][1]["url"] == f"data:image/png;base64,{PNG}"
    state = next(part["state"] for part in second["parts"] if part["type"] == "tool")
    (attached,) = state["attachments"]
    assert state["output"] == "x"
    assert attached["messageID"] == second["info"]["id"]
    assert attached["url"] == first["parts"][1]["url"]


def test_what_a_program_said_is_synthetic_and_an_answer_has_a_prompt(store: clew.Store) -> None:
    s = store.create("x")
    s.append({"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "Hello"})
    found = document(store, "x")
    assert [m["info"]["role"] for m in found["messages"]] == ["user", "assistant"]
    assert found["messages"][0]["parts"][0]["synthetic"] is True
    assert found["messages"][1]["info"]["parentID"] == found["messages"][0]["info"]["id"]


def test_times_that_go_back_do_not_change_the_order(store: clew.Store, tmp_path: Path) -> None:
    """OpenCode sorts by them."""
    lines = [{"sessionId": "s", "projectHash": "h"}]
    for number, time in enumerate(["2026-01-01T10:00:00Z", "2026-01-01T09:00:00Z"]):
        lines.append({"id": str(number), "timestamp": time, "type": "user", "content": str(number)})
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    store.import_path(tmp_path / "s.jsonl")
    found = document(store, "gemini-cli:s")
    assert shown(found) == [("user", ["0"]), ("user", ["1"])]
    times = [message["info"]["time"]["created"] for message in found["messages"]]
    assert times == sorted(times)


def test_thousands_of_parts_in_one_moment_stay_in_order(store: clew.Store) -> None:
    calls = [call(f"c{number}", n=number) for number in range(5000)]
    store.create("x").append({"role": "user", "content": "go"}, {"role": "assistant", "tool_calls": calls})
    _, answer = document(store, "x")["messages"]
    ids = [part["id"] for part in answer["parts"]]
    assert ids == sorted(ids)
    assert [p["state"]["input"]["n"] for p in answer["parts"] if p["type"] == "tool"] == list(range(5000))


# -- into the place of the agent


def test_without_opencode_the_file_stays_and_the_command_imports_it(
    store: clew.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    store.create("x").append({"role": "user", "content": "hi"})
    written = opencode.write_session(store, "x", home=tmp_path, workspace="/w")
    (file,) = written.paths
    assert written.command == ["opencode", "import", str(file)]
    assert file.stat().st_mode & 0o777 == 0o600
    assert f"opencode -s {written.id}" in written.notes[-1]
    again = opencode.write_session(store, "x", home=tmp_path, workspace="/w")
    assert again.id != written.id
    ids = [rows_of(json.loads(one.paths[0].read_bytes())) for one in (written, again)]
    assert not set(ids[0][0]) & set(ids[1][0])
    assert not set(ids[0][1]) & set(ids[1][1])


def test_an_id_that_opencode_would_refuse_is_refused(store: clew.Store, tmp_path: Path) -> None:
    store.create("x").append({"role": "user", "content": "hi"})
    with pytest.raises(clew.InvalidError, match="begins with ses_"):
        opencode.write_session(store, "x", home=tmp_path, workspace="/w", new_id="x")
