"""Continue: a document for each session, its dates in the list beside them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clew.importers.programs import continue_dev
from tests.importers.readers import read_one, who_and_what, write_json


def item(role: str, said: Any, **message: Any) -> dict[str, Any]:
    return {"message": {"role": role, "content": said, **message}, "contextItems": []}


def session_file(folder: Path, history: list[Any], **more: Any) -> Path:
    whole = {"sessionId": "u1", "title": "T", "workspaceDirectory": "file:///w/my%20app", "history": history}
    return write_json(folder / "u1.json", {**whole, **more})


ASKED, ANSWERED = item("user", "hi"), item("assistant", "hello")


def test_a_session_keeps_its_name_folder_model_and_messages(tmp_path: Path) -> None:
    asked = {**ASKED, "contextItems": [{"name": "a.py", "content": "x"}]}
    read = read_one(continue_dev, session_file(tmp_path, [asked, ANSWERED], chatModelTitle="m", mode="agent"))
    assert (read.session.id, read.session.title) == ("continue:u1", "T")
    assert (read.session.workspace, read.session.model) == ("/w/my app", "m")
    assert read.session.metadata == {"mode": "agent"}
    assert read.said() == [("user", "hi"), ("assistant", "hello")]
    assert read.entries[0].notes["source"]["contextItems"][0]["name"] == "a.py"


def test_the_model_and_its_vendor_are_those_of_the_last_call(tmp_path: Path) -> None:
    logs = [{"modelTitle": "m1", "modelProvider": "p1"}, {"modelTitle": "m2", "modelProvider": "p2"}]
    history = [ASKED, {**ANSWERED, "promptLogs": logs}]
    read = read_one(continue_dev, session_file(tmp_path, history, usage={"promptTokens": 1}))
    assert (read.session.model, read.session.vendor) == ("m2", "p2")
    assert [(usage.model, usage.vendor) for usage in read.usage.values()] == [("m2", "p2")]
    named = session_file(tmp_path, history, chatModelTitle="mine")
    assert read_one(continue_dev, named).session.model == "mine"


def test_the_date_comes_from_the_list_or_else_from_the_file(tmp_path: Path) -> None:
    file = session_file(tmp_path, [ASKED])
    os.utime(file, (1_750_000_000, 1_750_000_000))
    assert read_one(continue_dev, file).session.created_at == datetime.fromtimestamp(1_750_000_000, UTC)
    write_json(tmp_path / "sessions.json", [{"sessionId": "u1", "dateCreated": "1760000000000"}])
    assert read_one(continue_dev, file).session.created_at == datetime.fromtimestamp(1_760_000_000, UTC)


CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}


def test_calls_and_their_results_are_in_the_shape_of_openai(tmp_path: Path) -> None:
    history = [item("assistant", "", toolCalls=[CALL]), item("tool", "text of a", toolCallId="c1")]
    read = read_one(continue_dev, session_file(tmp_path, history))
    assert [entry.message for entry in read.entries] == [
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "text of a"},
    ]


def test_a_result_that_only_the_state_of_a_call_tells_is_not_lost_and_never_told_twice(
    tmp_path: Path,
) -> None:
    states = [{"toolCallId": "c1", "status": "done", "output": [{"content": "text of a"}]}]
    asked = {**item("assistant", "", toolCalls=[CALL]), "toolCallStates": states}
    alone = read_one(continue_dev, session_file(tmp_path, [asked]))
    assert [who_and_what(entry)[0] for entry in alone.entries] == ["assistant", "tool"]
    assert alone.entries[1].message["content"] == "text of a"
    twice = read_one(
        continue_dev, session_file(tmp_path, [asked, item("tool", "text of a", toolCallId="c1")])
    )
    assert len(twice.entries) == 2


def test_thinking_is_not_what_was_said(tmp_path: Path) -> None:
    read = read_one(continue_dev, session_file(tmp_path, [item("thinking", "hm"), ANSWERED]))
    assert read.said() == [("assistant", ""), ("assistant", "hello")]
    assert read.entries[0].message["reasoning_content"] == "hm"


def test_a_summary_compacts_what_is_before_it(tmp_path: Path) -> None:
    summed = {**ANSWERED, "conversationSummary": "so far"}
    read = read_one(continue_dev, session_file(tmp_path, [ASKED, summed, item("user", "on")]))
    assert [who_and_what(entry)[0] for entry in read.entries] == ["user", "assistant", "compaction", "user"]
    assert read.entries[2].message == {"text": "so far"}


def test_a_rewritten_document_keeps_the_names_of_what_it_kept(tmp_path: Path) -> None:
    before = read_one(continue_dev, session_file(tmp_path, [ASKED, ANSWERED]))
    after = read_one(continue_dev, session_file(tmp_path, [ASKED, item("assistant", "other")]))
    assert before.entries[0].uid == after.entries[0].uid
    assert before.entries[1].uid != after.entries[1].uid


def test_the_list_beside_the_documents_is_none(tmp_path: Path) -> None:
    file = session_file(tmp_path, [ASKED])
    write_json(tmp_path / "sessions.json", [])
    assert continue_dev.files(tmp_path) == [file]
