"""Gemini CLI: a file of updates is a tree; its last state is the path that Gemini would go on with."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import clew
from clew.importers.programs.gemini_cli import reader as gemini_cli
from tests.importers.readers import land, read_file, read_one, who_and_what, write_json, write_lines
from tests.support.rows import each_named_row, each_row

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


TOKENS = {"input": 9, "output": 1}
ONE, FIRST, TWO = user("m1", "one"), gemini("m2", "first"), user("m3", "two")
PATHS: dict[str, tuple[list[Any], list[str], set[str]]] = {
    "an answer that was whole and is written over": (
        [ONE, gemini("m2", "first", tokens=TOKENS), gemini("m2", "second", tokens=TOKENS)],
        ["one", "second"],
        {"first"},
    ),
    "a rewind takes its target too": (
        [ONE, FIRST, TWO, gemini("m4", "second"), {"$rewindTo": "m3"}, user("m5", "other two")],
        ["one", "first", "other two"],
        {"two", "second"},
    ),
    "after a rewind without a new prompt the head is where it went": (
        [ONE, FIRST, TWO, {"$rewindTo": "m3"}],
        ["one", "first"],
        {"two"},
    ),
    "a rewind to an unknown message clears the path": (
        [ONE, {"$rewindTo": "nobody"}, user("m2", "new")],
        ["new"],
        {"one"},
    ),
    "a list that replaces all messages becomes the path": (
        [ONE, FIRST, {"$set": {"messages": [user("m9", "summary")]}}, gemini("m10", "going on")],
        ["summary", "going on"],
        {"one", "first"},
    ),
    "a list that only repeats and adds makes no branch": (
        [{"$set": {"messages": [ONE, *more]}} for more in ([], [gemini("m2", "fir")], [FIRST])],
        ["one", "first"],
        set(),
    ),
    "masked tool output does not replace the original": (
        [ONE, FIRST, TWO, {"$set": {"messages": [ONE, gemini("m2", "[masked]"), TWO]}}],
        ["one", "[masked]", "two"],
        {"first", "two"},
    ),
}
"""What a file records, the path that comes of it, and what is left on branches."""


@each_named_row(("records", "path", "left"), PATHS)
def test_the_path_is_where_gemini_would_go_on_and_the_rest_stays_on_branches(
    tmp_path: Path, records: list[Any], path: list[str], left: set[str]
) -> None:
    read = read_one(gemini_cli, session_file(tmp_path, *records))
    assert [text for _, text in read.said()] == path
    on_path = {entry.uid for entry in read.path}
    others = [entry for entry in read.entries if entry.uid not in on_path]
    assert {who_and_what(entry)[1] for entry in others} == left
    assert len(others) == len(left)
    assert len(read.usage) <= 1


def test_a_rewind_hangs_what_follows_beside_what_it_left(tmp_path: Path) -> None:
    records = [ONE, FIRST, TWO, {"$rewindTo": "m3"}, user("m5", "other two")]
    _, first, *both = read_one(gemini_cli, session_file(tmp_path, *records)).entries
    assert [entry.parent for entry in both] == [first.uid, first.uid]


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


def test_a_session_that_was_rewound_to_nothing_stands_at_its_beginning(
    store: clew.Store, tmp_path: Path
) -> None:
    file = session_file(tmp_path, user("m1", "one"), gemini("m2", "first"), {"$rewindTo": "m1"})
    assert land(store, gemini_cli, file) == [("gemini-cli:s1", "new", 2)]
    assert store.get("gemini-cli:s1").messages() == []


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


def test_damaged_lines_are_listed_with_their_numbers_and_the_rest_is_read(tmp_path: Path) -> None:
    file = session_file(tmp_path, ONE, '{"id":"m2","ty', gemini("m3", "three"))
    file.write_text(file.read_text() + '{"id":"m4"')
    (read,), problems = read_file(gemini_cli, file)
    assert [text for _, text in read.said()] == ["one", "three"]
    assert [(problem.line, problem.path) for problem in problems] == [(3, str(file)), (5, str(file))]
    assert "cut off" in problems[1].reason


def test_a_message_that_was_written_over_since_gets_a_name_of_its_own(tmp_path: Path) -> None:
    half, more = gemini("m2", "half"), gemini("m2", "half and more")
    before = read_one(gemini_cli, session_file(tmp_path, ONE, half))
    after = read_one(gemini_cli, session_file(tmp_path, ONE, half, more))
    assert before.entries[0].uid == after.entries[0].uid
    assert before.entries[1].uid != after.entries[1].uid


def test_title_and_unknown_records_and_fields_are_kept(tmp_path: Path) -> None:
    file = session_file(tmp_path, ONE, {"$set": {"summary": "T", "mood": 1}}, {"novelty": 7})
    read = read_one(gemini_cli, file)
    assert (read.session.title, read.session.metadata["mood"]) == ("T", 1)
    assert [event.data for event in read.session.events() if event.type] == [{"novelty": 7}]


def test_the_older_whole_document_is_read_too_and_names_its_messages_as_the_updates_do(
    tmp_path: Path,
) -> None:
    document = {**HEADER, "messages": [ONE, FIRST], "summary": "T"}
    old = read_one(gemini_cli, write_json(tmp_path / CHATS / "session-old.json", document))
    new = read_one(gemini_cli, session_file(tmp_path, ONE, FIRST))
    assert (old.session.title, old.said()) == ("T", new.said())
    assert [entry.uid for entry in old.entries] == [entry.uid for entry in new.entries]


def test_a_subagent_belongs_to_the_session_in_whose_directory_it_lies_and_hears_no_person(
    store: clew.Store, tmp_path: Path
) -> None:
    header = {**HEADER, "sessionId": "child", "kind": "subagent"}
    file = write_lines(tmp_path / CHATS / "s1" / "a.jsonl", header, user("m1", "do this"), gemini("m2", "ok"))
    assert read_one(gemini_cli, file).session.parent == "gemini-cli:s1"
    land(store, gemini_cli, file)
    assert [entry.injected for entry in store.get("gemini-cli:child").entries()] == [True, False]
    assert store.get("gemini-cli:child").info.user_turns == 0


def test_the_workspace_comes_from_the_file_beside_the_chats_or_from_the_list(tmp_path: Path) -> None:
    file = session_file(tmp_path, user("m1", "one"))
    write_json(tmp_path / "projects.json", {"projects": {"/w/listed": "slug"}})
    assert read_one(gemini_cli, file).session.workspace == "/w/listed"
    (tmp_path / "tmp" / "slug" / ".project_root").write_text("/w/beside\n")
    assert read_one(gemini_cli, file).session.workspace == "/w/beside"


def test_files_are_found_parents_first(tmp_path: Path) -> None:
    parent = session_file(tmp_path, user("m1", "one"))
    child = write_lines(tmp_path / CHATS / "s1" / "a.jsonl", {**HEADER, "kind": "subagent"})
    write_json(tmp_path / "tmp" / "slug" / "logs.json", [])
    assert gemini_cli.files(tmp_path) == [parent, child]


WHOLE = [{"text": "Explain @a.py"}, {"text": "\nContent from @a.py:\n"}, {"text": "SECRET_SAUCE = 1"}]
TYPED = [{"text": "Explain @a.py"}]


def test_what_a_person_typed_is_shown_and_the_model_gets_the_files_too(
    store: clew.Store, tmp_path: Path
) -> None:
    prompt = {**user("m1", WHOLE), "displayContent": TYPED}
    path = session_file(tmp_path, prompt, gemini("m2", "It sets a name."))
    store.import_path(path)
    s = store.get("gemini-cli:s1")
    assert (s.info.user_turns, s.info.title, s.info.preview) == (1, "Explain @a.py", "Explain @a.py")
    page = store.export(s.id, "markdown")
    assert "> Explain @a.py" in page
    assert "SECRET_SAUCE" not in page
    assert not store.search("SECRET_SAUCE").hits
    assert [hit.role for hit in store.search("explain").hits] == ["user"]
    assert s.context()[0] == {"role": "user", "parts": WHOLE}
    assert store.export(s.id, "gemini-cli").encode() == path.read_bytes()


def test_what_was_typed_and_what_the_model_got_come_back_to_gemini_cli(
    store: clew.Store, tmp_path: Path
) -> None:
    prompt = {**user("m1", WHOLE), "displayContent": TYPED}
    store.import_path(session_file(tmp_path, prompt, gemini("m2", "It sets a name.")))
    s = store.get("gemini-cli:s1")
    s.append({"role": "user", "content": "and b?"})
    made = [json.loads(line) for line in store.export(s.id, "gemini-cli").splitlines()]
    assert made[1] == prompt


def test_another_agent_gets_the_files_and_the_prompt(store: clew.Store, tmp_path: Path) -> None:
    prompt = {**user("m1", WHOLE), "displayContent": TYPED}
    store.import_path(session_file(tmp_path, prompt, gemini("m2", "It sets a name.")))
    made = [json.loads(line) for line in store.export("gemini-cli:s1", "claude-code").splitlines()]
    assert [(one["message"]["content"], one.get("isMeta")) for one in made if one["type"] == "user"] == [
        ("Explain @a.py", None),
        ([{"type": "text", **part} for part in WHOLE], True),
    ]


@each_row(
    "shown",
    [None, [], "", [{"text": " "}], 3, [[]], {"x": 1}, [{"text": 3}], [None]],
)
def test_a_display_that_says_nothing_hides_nothing(tmp_path: Path, shown: Any) -> None:
    path = session_file(tmp_path, {**user("m1", "hi there"), "displayContent": shown})
    with clew.open("memory:") as store:
        assert store.import_path(path).ok
        assert "hi there" in store.export("gemini-cli:s1", "markdown")
        assert store.get("gemini-cli:s1").context()[0]["parts"] == [{"text": "hi there"}]


@each_row(
    "update",
    [{"$patch": {"m2": {"content": "x"}}}, {"$push": 1, "id": "m2"}, {"$rewindTo": 3}, {"$set": [1]}],
)
def test_an_update_that_is_not_known_is_reported(tmp_path: Path, update: dict[str, Any]) -> None:
    path = session_file(tmp_path, ONE, FIRST, update, TWO)
    read, problems = read_file(gemini_cli, path)
    assert [entry for session in read for entry in session.said()] == [
        ("user", "one"),
        ("assistant", "first"),
        ("user", "two"),
    ]
    ((line, reason),) = [(problem.line, problem.reason) for problem in problems]
    assert line == 4
    assert next(iter(update)) in reason
