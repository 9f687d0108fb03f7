"""OpenCode: three forms of the same session, each with the same messages under the same names."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.importers.programs.opencode import reader as opencode
from tests.importers.readers import Read, read_file, read_one, who_and_what, write_json
from tests.support.rows import each_row

SCHEMA = """
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, slug TEXT, directory TEXT,
  title TEXT, version TEXT, revert TEXT, time_created INTEGER, time_updated INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);
"""
T0 = 1_760_000_000_000


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def user(*parts: Any) -> tuple[dict[str, Any], tuple[Any, ...]]:
    return {"role": "user", "agent": "build"}, parts


def assistant(*parts: Any, **more: Any) -> tuple[dict[str, Any], tuple[Any, ...]]:
    tokens = {"input": 1, "output": 2, "reasoning": 5, "cache": {"read": 3, "write": 4}}
    data = {"role": "assistant", "modelID": "m", "providerID": "p", "cost": 0.25, "tokens": tokens, **more}
    return data, parts


def tool(name: str, status: str = "completed", **state: Any) -> dict[str, Any]:
    return {
        "type": "tool",
        "callID": name,
        "tool": "edit",
        "state": {"status": status, "input": {"n": 1}, **state},
    }


class Database:
    """An opencode.db, written by a program that may still be running."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.db = sqlite3.connect(path)
        self.db.executescript(SCHEMA)

    def add(self, key: str, *messages: Any, at: int = T0, **columns: Any) -> None:
        row = {"id": key, "project_id": "pr", "directory": "/w", "title": "T", "time_created": at, **columns}
        names = ", ".join(row)
        marks = ", ".join("?" * len(row))
        self.db.execute(f"INSERT INTO session ({names}) VALUES ({marks})", tuple(row.values()))
        for number, (data, parts) in enumerate(messages):
            name = f"msg_{key}_{number}"
            data = {"time": {"created": at + number}, **data}
            self.db.execute(
                "INSERT INTO message VALUES (?, ?, ?, ?)", (name, key, at + number, json.dumps(data))
            )
            for place, part in enumerate(parts):
                body = (f"prt_{number}_{place}", name, key, json.dumps(part))
                self.db.execute("INSERT INTO part VALUES (?||?, ?, ?, ?)", (key, *body))
        self.db.commit()

    def close(self) -> Path:
        self.db.close()
        return self.path


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "opencode.db")


def sessions_of(path: Path) -> dict[str, Read]:
    sessions, problems = read_file(opencode, path)
    assert problems == []
    return {read.session.id: read for read in sessions}


def test_a_session_keeps_its_title_directory_times_and_messages(database: Database) -> None:
    database.add("ses_1", user(text("hi")), assistant(text("hello")), slug="brave-cat")
    read = read_one(opencode, database.close())
    assert (read.session.id, read.session.title, read.session.workspace) == ("opencode:ses_1", "T", "/w")
    assert read.session.created_at == datetime.fromtimestamp(T0 / 1000, UTC)
    assert read.session.metadata["slug"] == "brave-cat"
    assert read.said() == [("user", "hi"), ("assistant", "hello")]
    assert read.entries[1].notes["source"]["id"] == "msg_ses_1_1"


def test_tokens_and_cost_are_those_of_the_message_and_not_of_its_steps_again(database: Database) -> None:
    finish = {"type": "step-finish", "cost": 0.25, "tokens": {"input": 1, "output": 2}}
    database.add("ses_1", user(text("hi")), assistant(text("hello"), finish))
    (usage,) = read_one(opencode, database.close()).usage.values()
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (8, 3, 4)
    assert (usage.output_tokens, usage.reasoning_tokens, usage.cost) == (7, 5, "0.25")
    assert (usage.model, usage.vendor) == ("m", "p")


def test_the_model_and_its_vendor_are_those_of_the_last_message(database: Database) -> None:
    asked = ({"role": "user", "model": {"providerID": "p2", "modelID": "m2"}}, (text("and?"),))
    database.add("ses_1", user(text("hi")), assistant(text("hello")))
    database.add("ses_2", user(text("hi")), assistant(text("hello")), asked)
    found = sessions_of(database.close())
    told = {id: read.session.updates() for id, read in found.items()}
    assert told["opencode:ses_1"] == {"model": "m", "vendor": "p"}
    assert told["opencode:ses_2"] == {"model": "m2", "vendor": "p2"}


def test_calls_and_results_are_messages_and_the_rest_of_a_part_is_kept(database: Database) -> None:
    done = tool("c1", output="ok", title="Edit a", metadata={"diff": "+1"})
    failed = tool("c2", status="error", error="no such file")
    open_call = tool("c3", status="running")
    patch = {"type": "patch", "hash": "ab", "files": ["/w/a"]}
    database.add("ses_1", user(text("go")), assistant(text("on it"), done, failed, open_call, patch))
    read = read_one(opencode, database.close())
    _, asked, answered = read.entries
    assert [block["type"] for block in asked.message["content"]] == [
        "text",
        "tool_use",
        "tool_use",
        "tool_use",
    ]
    assert asked.notes["source"]["parts"][0]["hash"] == "ab"
    assert [(block["content"], block.get("is_error")) for block in answered.message["content"]] == [
        ("ok", None),
        ("no such file", True),
    ]
    assert who_and_what(answered)[0] == "tool"
    assert answered.notes["source"]["parts"][0]["state"]["metadata"] == {"diff": "+1"}


def test_several_steps_in_one_message_become_several_turns(database: Database) -> None:
    parts = (text("first"), tool("c1", output="1"), text("second"), tool("c2", output="2"), text("end"))
    database.add("ses_1", assistant(*parts))
    read = read_one(opencode, database.close())
    assert [role for role, _ in read.said()] == ["assistant", "tool", "assistant", "tool", "assistant"]
    assert len(read.usage) == 1


def test_reasoning_is_not_what_was_said(database: Database) -> None:
    database.add("ses_1", assistant({"type": "reasoning", "text": "hm", "time": {"start": 1}}, text("yes")))
    read = read_one(opencode, database.close())
    assert read.said() == [("assistant", "yes")]
    assert read.entries[0].message["content"][0] == {
        "type": "thinking",
        "thinking": "hm",
        "time": {"start": 1},
    }


def test_what_the_program_wrote_for_the_human_is_told_apart(database: Database) -> None:
    injected = text("Called the Read tool", synthetic=True)
    database.add("ses_1", user(text("look"), injected), user(injected))
    assert read_one(opencode, database.close()).said() == [
        ("user", "look"),
        ("program", "Called the Read tool"),
        ("program", "Called the Read tool"),
    ]


def test_a_reverted_session_stands_before_the_reverted_message_and_keeps_it(database: Database) -> None:
    revert = json.dumps({"messageID": "msg_ses_1_2", "snapshot": "ab"})
    messages = (user(text("one")), assistant(text("first")), user(text("two")), assistant(text("second")))
    database.add("ses_1", *messages, revert=revert)
    read = read_one(opencode, database.close())
    assert [said for _, said in read.said()] == ["one", "first"]
    assert len(read.entries) == 4
    assert read.session.metadata["revert"]["snapshot"] == "ab"


def test_a_revert_into_a_message_leaves_its_first_parts(database: Database) -> None:
    revert = json.dumps({"messageID": "msg_ses_1_1", "partID": "ses_1prt_1_1"})
    database.add("ses_1", user(text("one")), assistant(text("kept"), text("hidden")), revert=revert)
    read = read_one(opencode, database.close())
    assert [said for _, said in read.said()] == ["one", "kept"]
    assert "kept\nhidden" in [who_and_what(entry)[1] for entry in read.entries]
    assert len(read.usage) == 1


def test_a_summary_is_a_compaction_with_the_tail_that_was_kept(database: Database) -> None:
    request = {"type": "compaction", "auto": True, "tail_start_id": "msg_ses_1_1"}
    database.add(
        "ses_1",
        user(text("one")),
        assistant(text("first")),
        user(request),
        assistant(text("what was done"), summary=True, parentID="msg_ses_1_2"),
        user(text("go on")),
    )
    read = read_one(opencode, database.close())
    (mark,) = [entry for entry in read.entries if entry.kind == "compaction"]
    assert mark.message == {"text": "what was done", "from": read.entries[1].uid}
    assert [event.data["parts"][0]["auto"] for event in mark.events] == [True]
    assert read.said()[-1] == ("user", "go on")
    assert ("user", "one") in read.said()


def test_a_summary_that_failed_compacts_nothing(database: Database) -> None:
    database.add("ses_1", user(text("one")), assistant(summary=True, error={"name": "Aborted"}))
    read = read_one(opencode, database.close())
    assert [entry.kind for entry in read.entries] == ["message", "message"]


def test_the_prompts_of_a_subagent_are_no_persons_words(database: Database) -> None:
    database.add("ses_b", user(text("hi")), assistant(text("hello")))
    database.add("ses_a", user(text("do this")), assistant(text("ok")), at=T0 + 9, parent_id="ses_b")
    database.add("ses_c", user(text("hi")), assistant(text("no")), at=T0 + 99, title="T (fork #1)")
    sessions, _ = read_file(opencode, database.close())
    said = {read.session.id: [who_and_what(entry)[0] for entry in read.entries] for read in sessions}
    assert said == {
        "opencode:ses_b": ["user", "assistant"],
        "opencode:ses_a": ["program", "assistant"],
        "opencode:ses_c": ["user", "assistant"],
    }


def test_subagents_are_linked_and_come_after_their_parents(database: Database) -> None:
    database.add("ses_child", user(text("sub")), at=T0, parent_id="ses_parent")
    database.add("ses_parent", user(text("main")), at=T0 + 5)
    found = sessions_of(database.close())
    assert list(found) == ["opencode:ses_parent", "opencode:ses_child"]
    assert found["opencode:ses_child"].session.parent == "opencode:ses_parent"


def test_its_way_of_working_is_not_the_agent(store: clew.Store, tmp_path: Path) -> None:
    about = {"id": "ses_1", "projectID": "p", "title": "t", "agent": "build"}
    message = {"info": {"id": "msg_1", "role": "user"}, "parts": [{"id": "p", "type": "text", "text": "hi"}]}
    store.import_path(write_json(tmp_path / "s.json", {"info": about, "messages": [message]}))
    info = store.get("opencode:ses_1").info
    assert (info.agent, info.metadata["mode"]) == ("opencode", "build")


def test_a_fork_is_linked_by_its_title_and_its_copied_calls_are_not_paid_twice(database: Database) -> None:
    messages = (user(text("one")), assistant(text("first")))
    database.add("ses_1", *messages, title="Fix")
    database.add("ses_2", *messages, title="Fix (fork #1)")
    database.add("ses_3", user(text("x")), at=T0 + 9, title="Fix")
    found = sessions_of(database.close())
    assert found["opencode:ses_2"].session.parent == "opencode:ses_1"
    assert found["opencode:ses_3"].session.parent is None
    assert [len(read.usage) for read in found.values()] == [1, 0, 0]


def test_damaged_rows_are_told_and_the_rest_is_read(database: Database) -> None:
    database.add("ses_1", user(text("one")), user(text("two")))
    database.db.execute("UPDATE message SET data = '{' WHERE id = 'msg_ses_1_0'")
    database.db.commit()
    (read,), problems = read_file(opencode, database.close())
    assert read.said() == [("user", "two")]
    assert "msg_ses_1_0" in problems[0].reason


def as_files(storage: Path, info: dict[str, Any], *messages: Any) -> Path:
    key = info["id"]
    for number, (data, parts) in enumerate(messages):
        name = f"msg_{key}_{number}"
        data = {"id": name, "sessionID": key, "time": {"created": T0 + number}, **data}
        write_json(storage / "message" / key / f"{name}.json", data)
        for place, part in enumerate(parts):
            prt = f"{key}prt_{number}_{place}"
            body = {"id": prt, "messageID": name, "sessionID": key, **part}
            write_json(storage / "part" / name / f"{prt}.json", body)
    return write_json(storage / "session" / "pr" / f"{key}.json", info)


INFO = {"id": "ses_1", "projectID": "pr", "directory": "/w", "title": "T", "time": {"created": T0}}
MESSAGES = (user(text("hi")), assistant(text("hello"), tool("c1", output="ok")))


def test_s42_the_id_of_a_session_leads_to_no_other_folder(tmp_path: Path) -> None:
    """Its messages lie in a folder that is called so: elsewhere there may be anything."""
    elsewhere = tmp_path / "elsewhere"
    write_json(elsewhere / "msg_1.json", {"id": "m", "role": "user", "time": {"created": T0}})
    for id in (str(elsewhere), "../../elsewhere", "..", "a/b", "a\0b"):
        path = write_json(tmp_path / "storage" / "session" / "pr" / "ses_1.json", {**INFO, "id": id})
        sessions, problems = read_file(opencode, path)
        assert sessions == []
        assert ["cannot be that of a folder" in one.reason for one in problems] == [True]


def exported(folder: Path) -> Path:
    messages = []
    for number, (data, parts) in enumerate(MESSAGES):
        name = f"msg_ses_1_{number}"
        info = {"id": name, "sessionID": "ses_1", "time": {"created": T0 + number}, **data}
        full = [
            {"id": f"ses_1prt_{number}_{place}", "messageID": name, "sessionID": "ses_1", **part}
            for place, part in enumerate(parts)
        ]
        messages.append({"info": info, "parts": full})
    return write_json(folder / "export.json", {"info": INFO, "messages": messages})


def test_database_files_and_export_of_a_session_give_the_same_entries(
    tmp_path: Path, database: Database
) -> None:
    database.add("ses_1", *MESSAGES)
    forms = [database.close(), as_files(tmp_path / "storage", INFO, *MESSAGES), exported(tmp_path)]
    reads = [read_one(opencode, form) for form in forms]
    assert reads[0].said() == [("user", "hi"), ("assistant", "hello"), ("tool", "")]
    for read in reads[1:]:
        assert [(entry.uid, entry.message, entry.at) for entry in read.entries] == [
            (entry.uid, entry.message, entry.at) for entry in reads[0].entries
        ]
        assert read.session.workspace == "/w"
        assert read.session.created_at == reads[0].session.created_at


def test_a_damaged_part_file_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    session = as_files(tmp_path, INFO, *MESSAGES)
    damaged = tmp_path / "part" / "msg_ses_1_0" / "ses_1prt_0_0.json"
    damaged.write_text('{"type":"te')
    (read,), problems = read_file(opencode, session)
    assert ("assistant", "hello") in read.said()
    assert [problem.path for problem in problems] == [str(damaged)]


def test_the_forms_are_told_by_their_content(tmp_path: Path, database: Database) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE session (id)")
    ours = [database.close(), as_files(tmp_path / "storage", INFO, *MESSAGES), exported(tmp_path)]
    parts = list((tmp_path / "storage" / "part").rglob("*.json"))
    assert all(opencode.recognises(path, path.read_bytes()[:4096]) for path in ours)
    assert not any(opencode.recognises(path, path.read_bytes()[:4096]) for path in [other, *parts])
    assert opencode.files(tmp_path) == [ours[1], ours[0]]


def test_a_task_that_the_user_gave_to_a_subagent_is_what_the_user_said(
    store: clew.Store, database: Database
) -> None:
    task = {"type": "subtask", "prompt": "Review the parser.", "description": "Review", "agent": "general"}
    database.add(
        "ses_1", user(task), assistant(text("done")), user(text("and"), {**task, "prompt": "Test it."})
    )
    store.import_path(database.close())
    s = store.get("opencode:ses_1")
    assert s.info.user_turns == 2
    assert s.info.preview == "and Test it."
    assert [hit.role for hit in store.search("parser").hits] == ["user"]
    page = store.export(s.id, "markdown")
    assert "> Review the parser." in page
    assert "> Test it." in page


@each_row(
    ("error", "told"),
    [
        ({"name": "MessageAbortedError", "data": {"message": "x"}}, "The answer was aborted."),
        ({"name": "APIError", "data": {"message": "Overloaded"}}, "No answer: Overloaded"),
        ({"name": "UnknownError"}, "No answer: UnknownError"),
        ({"data": []}, "No answer: an unknown error"),
    ],
)
def test_an_answer_that_came_to_nothing_says_why(tmp_path: Path, error: dict[str, Any], told: str) -> None:
    """To people: the program does not show it to the model."""
    database = Database(tmp_path / "opencode.db")
    begun = assistant({"type": "step-start"}, error=error)
    database.add("ses_1", user(text("hi")), begun, user(text("again")), assistant(text("half"), error=error))
    with clew.open("memory:") as store:
        store.import_path(database.close())
        s = store.get("opencode:ses_1")
        page = store.export(s.id, "markdown")
        assert page.count(f"> {told}") == 1
        assert "half" in page
        assert [message["role"] for message in s.context()] == ["user", "user", "assistant"]
