"""Gemini CLI: a file of updates is a tree; its last state is the path that Gemini would go on with."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import clew
from clew.importers.programs.gemini_cli import reader as gemini_cli
from tests.importers.readers import (
    land,
    read_file,
    read_one,
    who_and_what,
    write_json,
    write_lines,
)

HEADER = {
    "sessionId": "s1",
    "projectHash": "ab12",
    "startTime": "2026-08-21T10:00:00.000Z",
    "lastUpdated": "2026-08-21T10:00:00.000Z",
    "kind": "main",
}
CHATS = "tmp/slug/chats"


def user(name: str, said: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": "2026-08-21T10:00:01.000Z", "type": "user", "content": said}


def gemini(name: str, said: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": "2026-08-21T10:00:02.000Z", "type": "gemini", "content": said, **more}


def session_file(folder: Path, *records: Any) -> Path:
    return write_lines(folder / CHATS / "session-2026-08-21T10-00-s1.jsonl", HEADER, *records)


def test_messages_keep_their_order_times_and_speakers(tmp_path: Path) -> None:
    file = session_file(tmp_path, user("m1", [{"text": "hi"}]), gemini("m2", "hello", model="g-1"))
    read = read_one(gemini_cli, file)
    assert read.session.updates() == {"model": "g-1"}
    assert read.session.id == "gemini-cli:s1"
    assert read.session.created_at == datetime(2026, 8, 21, 10, tzinfo=UTC)
    assert read.said() == [("user", "hi"), ("assistant", "hello")]
    assert read.entries[1].at == datetime(2026, 8, 21, 10, 0, 2, tzinfo=UTC)
    assert read.entries[1].notes["source"]["model"] == "g-1"


def test_the_same_id_again_is_a_new_version_of_one_message_and_its_tokens_count_once(tmp_path: Path) -> None:
    tokens = {"input": 9, "output": 1, "cached": 4, "thoughts": 2, "tool": 0, "total": 12}
    file = session_file(
        tmp_path,
        user("m1", "hi"),
        gemini("m2", ""),
        gemini("m2", "don"),
        gemini("m2", "done", tokens=tokens),
        gemini("m2", "done", tokens=tokens),
    )
    read = read_one(gemini_cli, file)
    assert [who_and_what(entry) for entry in read.entries] == [("user", "hi"), ("assistant", "done")]
    (usage,) = read.usage.values()
    assert (usage.input_tokens, usage.cache_read_tokens) == (9, 4)
    assert (usage.output_tokens, usage.reasoning_tokens) == (3, 2)


def test_an_answer_that_was_whole_and_is_written_over_stays_on_a_branch(tmp_path: Path) -> None:
    tokens = {"input": 9, "output": 1}
    versions = [gemini("m2", said, tokens=tokens) for said in ("first", "second")]
    read = read_one(gemini_cli, session_file(tmp_path, user("m1", "hi"), *versions))
    assert [text for _, text in read.said()] == ["hi", "second"]
    assert [who_and_what(entry)[1] for entry in read.entries] == ["hi", "first", "second"]
    assert len(read.usage) == 1


def test_the_calls_of_an_answer_with_words_are_a_message_behind_them(tmp_path: Path) -> None:
    """The words are written first: so they can be read while the tools still run."""
    tokens = {"input": 9, "output": 1}
    call = {"id": "c1", "name": "ls", "args": {}, "status": "success", "result": "a"}
    words = gemini("m2", "Let me look.", tokens=tokens)
    lines = [user("m1", "hi"), words, {**words, "toolCalls": [call]}]
    read = read_one(gemini_cli, session_file(tmp_path, *lines))
    at_once = read_one(gemini_cli, session_file(tmp_path, lines[0], lines[2]))
    for found in (read, at_once):
        assert [entry.message["parts"][0] for entry in found.entries] == [
            {"text": "hi"},
            {"text": "Let me look."},
            {"functionCall": {"id": "c1", "name": "ls", "args": {}}},
            {"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a"}}},
        ]
        assert len(found.usage) == 1
    assert [entry.uid for entry in read.entries] == [entry.uid for entry in at_once.entries]


def test_a_rewind_leaves_the_rewound_messages_on_a_branch_and_takes_its_target_too(tmp_path: Path) -> None:
    file = session_file(
        tmp_path,
        user("m1", "one"),
        gemini("m2", "first"),
        user("m3", "two"),
        gemini("m4", "second"),
        {"$rewindTo": "m3"},
        user("m5", "other two"),
    )
    read = read_one(gemini_cli, file)
    assert [text for _, text in read.said()] == ["one", "first", "other two"]
    assert len(read.entries) == 5
    abandoned = [entry for entry in read.entries if who_and_what(entry)[1] == "two"]
    assert abandoned[0].parent == read.path[1].uid


def test_after_a_rewind_without_a_new_prompt_the_head_is_where_the_rewind_went(tmp_path: Path) -> None:
    file = session_file(
        tmp_path, user("m1", "one"), gemini("m2", "first"), user("m3", "two"), {"$rewindTo": "m3"}
    )
    read = read_one(gemini_cli, file)
    assert [text for _, text in read.said()] == ["one", "first"]
    assert len(read.entries) == 3


def test_a_session_that_was_rewound_to_nothing_stands_at_its_beginning(
    store: clew.Store, tmp_path: Path
) -> None:
    file = session_file(tmp_path, user("m1", "one"), gemini("m2", "first"), {"$rewindTo": "m1"})
    assert land(store, gemini_cli, file) == [("gemini-cli:s1", "new", 2)]
    assert store.get("gemini-cli:s1").messages() == []


def test_a_rewind_to_an_unknown_message_clears_the_path_and_keeps_the_messages(tmp_path: Path) -> None:
    file = session_file(tmp_path, user("m1", "one"), {"$rewindTo": "nobody"}, user("m2", "new"))
    read = read_one(gemini_cli, file)
    assert [text for _, text in read.said()] == ["new"]
    assert len(read.entries) == 2


def test_a_list_that_replaces_all_messages_becomes_the_path_and_what_it_left_out_stays(
    tmp_path: Path,
) -> None:
    summary = user("m9", "summary of all")
    file = session_file(
        tmp_path,
        user("m1", "one"),
        gemini("m2", "first"),
        {"$set": {"messages": [summary]}},
        gemini("m10", "going on"),
    )
    read = read_one(gemini_cli, file)
    assert [text for _, text in read.said()] == ["summary of all", "going on"]
    assert len(read.entries) == 4


def test_a_list_that_only_repeats_and_adds_makes_no_branch(tmp_path: Path) -> None:
    one, half, first = user("m1", "one"), gemini("m2", "fir"), gemini("m2", "first")
    lists = ([one], [one, half], [one, first])
    file = session_file(tmp_path, *({"$set": {"messages": messages}} for messages in lists))
    read = read_one(gemini_cli, file)
    assert [text for _, text in read.said()] == ["one", "first"]
    assert len(read.entries) == 2


def test_masked_tool_output_does_not_replace_the_original(tmp_path: Path) -> None:
    one, answer = user("m1", "one"), gemini("m2", "long original")
    masked = gemini("m2", "[masked]")
    last = user("m3", "two")
    file = session_file(tmp_path, one, answer, last, {"$set": {"messages": [one, masked, last]}})
    read = read_one(gemini_cli, file)
    assert [text for _, text in read.said()] == ["one", "[masked]", "two"]
    assert "long original" in [who_and_what(entry)[1] for entry in read.entries]


def test_tool_calls_and_their_results_are_a_pair_and_what_was_shown_is_kept(tmp_path: Path) -> None:
    response = {"functionResponse": {"id": "c1", "name": "replace", "response": {"output": "ok"}}}
    call = {
        "id": "c1",
        "name": "replace",
        "args": {"path": "a"},
        "status": "success",
        "result": [response],
        "resultDisplay": {"originalContent": "x", "newContent": "y"},
    }
    thoughts = [{"subject": "Plan", "description": "edit a"}]
    file = session_file(tmp_path, user("m1", "fix"), gemini("m2", "", toolCalls=[call], thoughts=thoughts))
    read = read_one(gemini_cli, file)
    _, asked, answered = read.entries
    assert asked.message["parts"] == [
        {"text": "Plan\nedit a", "thought": True},
        {"functionCall": {"id": "c1", "name": "replace", "args": {"path": "a"}}},
    ]
    assert answered.message["parts"] == [response]
    assert who_and_what(answered)[0] == "tool"
    assert answered.notes["source"]["toolCalls"][0]["resultDisplay"]["newContent"] == "y"
    assert read.head == answered.uid


def test_commands_context_and_notices_are_not_the_human(tmp_path: Path) -> None:
    notice = {"id": "m4", "timestamp": "t", "type": "info", "content": "logged in"}
    file = session_file(
        tmp_path,
        user("m1", "<session_context>\nlinux"),
        user("m2", "/help"),
        user("m3", [{"text": "<hook_context>x"}]),
        notice,
        user("m5", "real"),
    )
    read = read_one(gemini_cli, file)
    assert [role for role, _ in read.said()] == ["program", "program", "program", "system", "user"]


def test_a_damaged_line_is_listed_with_its_number_and_the_rest_is_read(tmp_path: Path) -> None:
    file = session_file(tmp_path, user("m1", "one"), '{"id":"m2","ty', gemini("m3", "three"))
    (read,), problems = read_file(gemini_cli, file)
    assert [text for _, text in read.said()] == ["one", "three"]
    assert [(problem.line, problem.path) for problem in problems] == [(3, str(file))]


def test_a_torn_last_line_costs_itself_only(tmp_path: Path) -> None:
    file = write_lines(tmp_path / CHATS / "s.jsonl", HEADER, user("m1", "one"), '{"id":"m2"', end="")
    (read,), problems = read_file(gemini_cli, file)
    assert [text for _, text in read.said()] == ["one"]
    assert problems[0].line == 3
    assert "cut off" in problems[0].reason


def test_a_grown_file_gives_the_old_entries_the_same_names(tmp_path: Path) -> None:
    one, first = user("m1", "one"), gemini("m2", "first")
    before = read_one(gemini_cli, session_file(tmp_path, one, first))
    after = read_one(gemini_cli, session_file(tmp_path, one, first, user("m3", "two")))
    assert [entry.uid for entry in after.entries[:2]] == [entry.uid for entry in before.entries]
    assert after.entries[2].parent == before.entries[1].uid


def test_a_message_that_was_written_over_since_gets_a_name_of_its_own(tmp_path: Path) -> None:
    one = user("m1", "one")
    before = read_one(gemini_cli, session_file(tmp_path, one, gemini("m2", "half")))
    after = read_one(
        gemini_cli, session_file(tmp_path, one, gemini("m2", "half"), gemini("m2", "half and more"))
    )
    assert before.entries[0].uid == after.entries[0].uid
    assert before.entries[1].uid != after.entries[1].uid


def test_title_and_unknown_records_and_fields_are_kept(tmp_path: Path) -> None:
    file = session_file(tmp_path, user("m1", "one"), {"$set": {"summary": "T", "mood": 1}}, {"novelty": 7})
    read = read_one(gemini_cli, file)
    assert read.session.title == "T"
    assert read.session.metadata["mood"] == 1
    assert [event.data for event in read.session.events() if event.type] == [{"novelty": 7}]


def test_the_older_whole_document_is_read_too(tmp_path: Path) -> None:
    document = {**HEADER, "messages": [user("m1", "one"), gemini("m2", "first")], "summary": "T"}
    file = write_json(tmp_path / CHATS / "session-old.json", document)
    read = read_one(gemini_cli, file)
    assert read.session.title == "T"
    assert [text for _, text in read.said()] == ["one", "first"]


def test_a_document_and_the_updates_of_one_session_share_the_names_of_their_messages(tmp_path: Path) -> None:
    one, first = user("m1", "one"), gemini("m2", "first")
    old = write_json(tmp_path / CHATS / "session-old.json", {**HEADER, "messages": [one, first]})
    new = session_file(tmp_path, one, first)
    names = [[entry.uid for entry in read_one(gemini_cli, file).entries] for file in (old, new)]
    assert names[0] == names[1]


def test_a_damaged_document_is_a_problem_and_no_session(tmp_path: Path) -> None:
    file = tmp_path / "session-x.json"
    file.write_text('{"sessionId":"s1","projectHash":"ab","messages":[')
    sessions, problems = read_file(gemini_cli, file)
    assert sessions == []
    assert problems


def test_the_prompts_of_a_subagent_are_no_persons_words(store: clew.Store, tmp_path: Path) -> None:
    header = {**HEADER, "sessionId": "child", "kind": "subagent"}
    file = write_lines(tmp_path / CHATS / "s1" / "a.jsonl", header, user("m1", "do this"), gemini("m2", "ok"))
    land(store, gemini_cli, file)
    assert [entry.injected for entry in store.get("gemini-cli:child").entries()] == [True, False]
    assert store.get("gemini-cli:child").info.user_turns == 0


def test_a_subagent_is_linked_to_the_session_in_whose_directory_it_lies(tmp_path: Path) -> None:
    header = {**HEADER, "sessionId": "child", "kind": "subagent"}
    file = write_lines(tmp_path / CHATS / "s1" / "child.jsonl", header, user("m1", "look"))
    assert read_one(gemini_cli, file).session.parent == "gemini-cli:s1"


def test_the_workspace_comes_from_the_file_beside_the_chats_or_from_the_list(tmp_path: Path) -> None:
    file = session_file(tmp_path, user("m1", "one"))
    write_json(tmp_path / "projects.json", {"projects": {"/w/listed": "slug"}})
    assert read_one(gemini_cli, file).session.workspace == "/w/listed"
    (tmp_path / "tmp" / "slug" / ".project_root").write_text("/w/beside\n")
    assert read_one(gemini_cli, file).session.workspace == "/w/beside"


def test_files_are_found_parents_first_and_told_by_their_content(tmp_path: Path) -> None:
    parent = session_file(tmp_path, user("m1", "one"))
    child = write_lines(tmp_path / CHATS / "s1" / "a.jsonl", {**HEADER, "kind": "subagent"})
    write_json(tmp_path / "tmp" / "slug" / "logs.json", [])
    assert gemini_cli.files(tmp_path) == [parent, child]
    assert gemini_cli.recognises(parent, parent.read_bytes()[:4096])
    assert not gemini_cli.recognises(parent, b'{"sessionId":"s","type":"user"}')


def test_in_a_store_the_same_file_adds_nothing_and_a_rewound_one_a_branch(
    store: clew.Store, tmp_path: Path
) -> None:
    first = [user("m1", "one"), gemini("m2", "first"), user("m3", "two")]
    assert land(store, gemini_cli, session_file(tmp_path, *first)) == [("gemini-cli:s1", "new", 3)]
    assert land(store, gemini_cli, session_file(tmp_path, *first)) == [("gemini-cli:s1", "unchanged", 0)]
    grown = session_file(tmp_path, *first, {"$rewindTo": "m3"}, user("m4", "other"))
    assert land(store, gemini_cli, grown) == [("gemini-cli:s1", "grown", 1)]
    session = store.get("gemini-cli:s1")
    assert [message["parts"][0]["text"] for message in session.messages()] == ["one", "first", "other"]
    assert session.info.user_turns == 2
