"""Chats for Gemini CLI: its own records, those of other agents mapped, and the place where it looks."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.exporters.programs import gemini_cli
from clew.importers.programs.gemini_cli import reader
from tests.importers.landing import bring_one
from tests.support.rows import each_row

PNG = "iVBORw0KGgo="
IMAGE = {"inlineData": {"mimeType": "image/png", "data": PNG}}
THOUGHT = {"text": "x", "thought": True, "thoughtSignature": "s"}
T = "2026-11-01T10:00:00.000Z"


def user(id: str, *content: Any) -> dict[str, Any]:
    parts = [{"text": part} if isinstance(part, str) else part for part in content]
    return {"id": id, "timestamp": T, "type": "user", "content": parts}


def gemini(id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": T, "type": "gemini", "content": content, "model": "gemini-2.5-pro", **more}


def call(id: str, *result: Any, **more: Any) -> dict[str, Any]:
    answer = {"functionResponse": {"id": id, "name": "f", "response": {"output": "ok"}}}
    done = {"status": "success", "timestamp": T, "resultDisplay": "shown", "displayName": "F"}
    return {"id": id, "name": "f", "args": {"n": 1}, "result": [answer, *result], **done, **more}


HEAD = {
    "sessionId": "11111111-2222-4333-8444-555555555555",
    "projectHash": sha256(b"/w").hexdigest(),
    "startTime": T,
    "lastUpdated": T,
    "kind": "main",
}
ID = f"gemini-cli:{HEAD['sessionId']}"


def chat(folder: Path, *lines: Any) -> Path:
    file = folder / "tmp" / "w" / "chats" / "session-2026-11-01T10-00-11111111.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    (folder / "tmp" / "w" / ".project_root").write_text("/w")
    file.write_text("".join(json.dumps(line) + "\n" for line in [HEAD, *lines]))
    return file


def lines_of(store: clew.Store, id: str, **options: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(gemini_cli.pieces(store, id, **options)).splitlines()]


def messages(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the lines come to, as Gemini CLI applies them."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        if "messages" in line.get("$set", {}):
            found = {message["id"]: message for message in line["$set"]["messages"]}
        elif "id" in line:
            found[line["id"]] = line
    return list(found.values())


# -- as it came


def test_rewinds_and_versions_come_back_line_by_line(store: clew.Store, tmp_path: Path) -> None:
    first = gemini("b", "")
    file = chat(
        tmp_path,
        user("a", "go"),
        first,
        {"$set": {"lastUpdated": T}},
        {**first, "toolCalls": [call("c")]},
        user("d", "no"),
        {"$rewindTo": "d"},
        {"$set": {"messages": [user("a", "go, shorter")]}},
        {"novelty": [1, 2.0]},
        user("e", "yes"),
    )
    session = bring_one(store, reader, file)
    assert store.export(session.id, "gemini-cli").encode() == file.read_bytes()
    fork = session.fork()
    assert [m["id"] for m in messages(lines_of(store, fork.id))] == ["a", "e"]
    session.rewind(0)
    assert [m["id"] for m in messages(lines_of(store, session.id))] == ["a"]


# -- its own records

CASES: dict[str, list[Any]] = {
    "texts and images": [
        user("a", "hi", IMAGE),
        gemini("b", "hello", tokens={"input": 1, "output": 2}),
    ],
    "calls with all that stands beside them": [
        user("a", "go"),
        gemini("b", "", toolCalls=[call("c1"), call("c2", IMAGE)]),
        gemini("d", "done"),
    ],
    "words with calls": [
        user("a", "go"),
        gemini("b", "let me see", tokens={"input": 1, "output": 2}, toolCalls=[call("c1"), call("c2")]),
        gemini("d", "done"),
    ],
    "thoughts": [gemini("b", "so", thoughts=[{"subject": "S", "description": "D", "timestamp": T}])],
    "calls as a list has them that replaced the messages": [
        gemini("b", [THOUGHT, {"functionCall": {"id": "c", "name": "f", "args": {}}}]),
        user("r", {"functionResponse": {"id": "c", "name": "f", "response": {"output": "ok"}}}),
        gemini("d", "done"),
    ],
    "notices": [user("a", "hi"), {"id": "i", "timestamp": T, "type": "info", "content": "Update"}],
    "errors": [gemini("b", "", toolCalls=[call("c", status="error")])],
}  # fmt: skip


@each_row("records", CASES.values(), ids=CASES)
def test_its_own_records_are_as_they_were(tmp_path: Path, records: list[Any]) -> None:
    with clew.open("memory:") as store:
        session = bring_one(store, reader, chat(tmp_path, *records))
        session.append({"role": "user", "parts": [{"text": "and now?"}]})
        found = lines_of(store, session.id)
        assert messages(found)[:-1] == records
        assert messages(found)[-1]["content"] == [{"text": "and now?"}]
        assert {name: found[0][name] for name in ("sessionId", "projectHash", "kind")} == {
            name: HEAD[name] for name in ("sessionId", "projectHash", "kind")
        }


def test_a_fork_and_a_place_have_the_records_of_their_path(store: clew.Store, tmp_path: Path) -> None:
    records = [user("a", "go"), gemini("b", "", toolCalls=[call("c")]), user("d", "more"), gemini("e", "yes")]
    session = bring_one(store, reader, chat(tmp_path, *records))
    fork = session.fork(at=3)
    assert messages(lines_of(store, fork.id)) == records[:3]
    assert lines_of(store, fork.id)[0]["sessionId"] != HEAD["sessionId"]
    assert messages(lines_of(store, session.id, at=0)) == records[:1]
    # The results of a call are an entry of their own: without them it gets one that says so.
    cut = messages(lines_of(store, session.id, at=1))[1]["toolCalls"][0]
    assert (cut["status"], cut["args"]) == ("error", {"n": 1})
    assert "no result was recorded" in cut["result"][0]["functionResponse"]["response"]["error"]


def test_a_result_that_came_here_answers_the_call(store: clew.Store, tmp_path: Path) -> None:
    open_call = {"id": "c", "name": "f", "args": {}, "status": "executing", "timestamp": T}
    session = bring_one(
        store, reader, chat(tmp_path, user("a", "go"), gemini("b", "", toolCalls=[open_call]))
    )
    response = {"functionResponse": {"id": "c", "name": "f", "response": {"output": "late"}}}
    session.append({"role": "user", "parts": [response]})
    (told,) = messages(lines_of(store, session.id))[1]["toolCalls"]
    assert told["result"] == [response]
    assert told["status"] == "success"


def test_a_title_that_was_given_is_the_summary(store: clew.Store, tmp_path: Path) -> None:
    session = bring_one(store, reader, chat(tmp_path, user("a", "go")))
    session.update(title="My work")
    session.append({"role": "user", "content": "x"})
    assert {"$set": {"summary": "My work"}} in lines_of(store, session.id)


# -- of other agents


def test_texts_images_calls_and_results_come_over(store: clew.Store) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    use = {"type": "tool_use", "id": "c", "name": "Read", "input": {"path": "a"}}
    result = {
        "type": "tool_result",
        "tool_use_id": "c",
        "is_error": True,
        "content": [{"type": "text", "text": "no"}, image],
    }
    s = store.create("x", model="claude-x")
    s.append({"role": "user", "content": [{"type": "text", "text": "look"}, image]})
    thought = {"type": "thinking", "thinking": "hmm", "signature": "s"}
    s.append({"role": "assistant", "content": [thought, {"type": "text", "text": "I do."}, use]})
    s.append({"role": "user", "content": [result]})
    asked, answered = messages(lines_of(store, "x"))
    assert asked["content"] == [{"text": "look"}, IMAGE]
    assert (answered["content"], answered["model"]) == ("I do.", "claude-x")
    assert "thoughts" not in answered
    (told,) = answered["toolCalls"]
    assert (told["name"], told["args"], told["status"]) == ("Read", {"path": "a"}, "error")
    response = {"functionResponse": {"id": "c", "name": "Read", "response": {"error": "no"}}}
    assert told["result"] == [response, IMAGE]


@each_row("text", ["/home/ana is full", "?", " /x", "<session_context>"])
def test_a_prompt_that_gemini_would_leave_out_is_marked(tmp_path: Path, text: str) -> None:
    with clew.open("memory:") as store:
        store.create("x").append({"role": "user", "content": text}, {"role": "assistant", "content": "yes"})
        assert messages(lines_of(store, "x"))[0]["content"] == [{"text": f"> {text}"}]
        written = gemini_cli.write_session(store, "x", home=tmp_path, workspace="/w")
        assert any("got a > in front" in note for note in written.notes)


def test_a_compaction_replaces_the_messages_before_it(store: clew.Store) -> None:
    s = store.create("x")
    for number in range(3):
        s.append({"role": "user", "content": f"q{number}"}, {"role": "assistant", "content": f"a{number}"})
    s.compact("Short.", upto=1)
    s.append({"role": "user", "content": "next"})
    s.compact("Shorter.", upto=3)
    s.compact("Shortest.")
    s.append({"role": "user", "content": "last"})
    lines = lines_of(store, "x")
    replaced = [line["$set"]["messages"] for line in lines if "messages" in line.get("$set", {})]
    thanks = "Got it. Thanks for the additional context!"
    assert [words(one) for one in replaced] == [
        ["Short.", thanks, "q1", "a1", "q2", "a2"],
        ["Shorter.", thanks, "q2", "a2", "next"],
        ["Shortest.", thanks],
    ]
    assert words([line for line in lines if "id" in line])[:6] == ["q0", "a0", "q1", "a1", "q2", "a2"]
    assert words(messages(lines)) == ["Shortest.", thanks, "last"]


def words(messages: list[dict[str, Any]]) -> list[str]:
    return [m["content"] if isinstance(m["content"], str) else m["content"][0]["text"] for m in messages]


# -- the place where Gemini CLI looks


def spoken(store: clew.Store) -> str:
    store.create("x").append({"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"})
    return "x"


def test_a_project_that_gemini_knows_gets_the_chat(store: clew.Store, tmp_path: Path) -> None:
    chat(tmp_path / ".gemini", user("a", "go"))
    listed = tmp_path / ".gemini" / "projects.json"
    listed.write_text(json.dumps({"projects": {"/w": "w"}}))
    before = listed.read_bytes()
    written = gemini_cli.write_session(store, spoken(store), home=tmp_path, workspace="/w")
    (file,) = written.paths
    assert file.parent == tmp_path / ".gemini" / "tmp" / "w" / "chats"
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text().splitlines()[0])["projectHash"] == HEAD["projectHash"]
    assert listed.read_bytes() == before


def test_a_name_that_another_project_has_is_not_taken(store: clew.Store, tmp_path: Path) -> None:
    gemini = tmp_path / ".gemini"
    chat(gemini, user("a", "go"))
    (gemini / "history" / "w-1").mkdir(parents=True)
    (gemini / "history" / "w-1" / ".project_root").write_text("/a/w")
    (gemini / "projects.json").write_text(json.dumps({"projects": {"/b/w": "w-2", "/home/W": "w"}}))
    written = gemini_cli.write_session(store, spoken(store), home=tmp_path, workspace="/home/W")
    assert written.paths[0].parent.parent == gemini / "tmp" / "w-3"
    assert (gemini / "tmp" / "w-3" / ".project_root").read_text() == "/home/W"
    again = gemini_cli.write_session(store, "x", home=tmp_path, workspace="/home/W")
    assert again.paths[0].parent == written.paths[0].parent
    assert again.paths != written.paths


def test_a_directory_is_known_by_its_real_path(store: clew.Store, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    written = gemini_cli.write_session(store, spoken(store), home=tmp_path, workspace=str(tmp_path / "link"))
    assert written.paths[1].read_text() == str(tmp_path / "real")


def test_the_folder_of_gemini_may_be_elsewhere(
    store: clew.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path / "moved"))
    monkeypatch.setenv("HOME", str(tmp_path))
    written = gemini_cli.write_session(store, spoken(store), home=Path.home(), workspace="/w")
    assert written.paths[0].is_relative_to(tmp_path / "moved" / ".gemini")


def test_no_file_is_written_over(store: clew.Store, tmp_path: Path) -> None:
    spoken(store)
    own = "aaaaaaaa-0000-4000-8000-000000000000"
    first = gemini_cli.write_session(store, "x", home=tmp_path, workspace="/w", new_id=own)
    before = first.paths[0].read_bytes()
    later = own.replace("0000-4000", "1111-4000")
    try:
        second = gemini_cli.write_session(store, "x", home=tmp_path, workspace="/w", new_id=later)
    except clew.ConflictError:
        second = None  # in the same minute the name is the same
    assert second is None or second.paths != first.paths
    assert first.paths[0].read_bytes() == before


def test_an_id_that_is_no_name_is_refused(store: clew.Store, tmp_path: Path) -> None:
    with pytest.raises(clew.InvalidError, match="letters, digits"):
        gemini_cli.write_session(store, spoken(store), home=tmp_path, workspace="/w", new_id="../../etc/x")
    assert list(tmp_path.iterdir()) == []
