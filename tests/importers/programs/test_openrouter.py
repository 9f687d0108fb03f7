"""The OpenRouter agent SDK: full copies of a history become one tree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import clew
from clew.importers.programs import openrouter as reader
from tests.importers.landing import bring, bring_one
from tests.importers.readers import read_file, read_one, write_json

ASK = {"role": "user", "content": "hi"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
ANSWER = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
AGAIN = {"role": "user", "content": "and now?"}


def session(id: str = "default", messages: Any = (ASK, CALL, ANSWER), **more: Any) -> dict[str, Any]:
    return {
        "ID": id,
        "CreatedAt": "2026-04-10T08:00:00.123456789Z",
        "UpdatedAt": "2026-04-10T08:05:00Z",
        "Messages": messages,
        "UserTurns": 1,
        "Checkpoints": {},
        "FileCheckpoints": {},
    } | more


def state_file(folder: Path, *sessions: dict[str, Any], **counters: int) -> Path:
    found = {one["ID"]: one for one in sessions}
    return write_json(folder / "state.json", {"sessions": found, "fork_counters": counters})


def test_messages_keep_their_shape_and_the_session_its_dates(tmp_path: Path) -> None:
    read = read_one(reader, state_file(tmp_path, session()))
    assert [entry.message for entry in read.path] == [ASK, CALL, ANSWER]
    assert read.session.id == "openrouter:default"
    assert str(read.entries[0].at) == "2026-04-10 08:00:00.123456+00:00"
    assert str(read.entries[-1].at) == "2026-04-10 08:05:00+00:00"
    assert read.session.metadata["created_at"] == "2026-04-10T08:00:00.123456789Z"
    assert read.session.metadata["user_turns"] == 1


def test_a_checkpoint_is_a_point_of_the_history_not_a_copy(tmp_path: Path) -> None:
    one = session(Checkpoints={"default-u1": [ASK], "empty": []})
    read = read_one(reader, state_file(tmp_path, one))
    assert len(read.entries) == 3
    named = {checkpoint.name: checkpoint.entry for checkpoint in read.session.checkpoints()}
    assert named == {"default-u1": read.entries[0].uid, "empty": None}


def test_what_a_rewind_left_behind_is_a_branch_and_can_be_reached_again(
    store: clew.Store, tmp_path: Path
) -> None:
    later = [ASK, CALL, ANSWER, AGAIN]
    one = session(messages=[ASK], Checkpoints={"default-u1": [ASK], "default-u2": later})
    s = bring_one(store, reader, state_file(tmp_path, one))
    assert s.messages() == [ASK]
    s.rewind("default-u2")
    assert s.messages() == later


def test_the_same_words_twice_are_two_messages(tmp_path: Path) -> None:
    read = read_one(reader, state_file(tmp_path, session(messages=[ASK, ASK])))
    assert [entry.message for entry in read.path] == [ASK, ASK]


def test_files_of_a_checkpoint_are_kept_with_it_also_those_that_were_gone(
    store: clew.Store, tmp_path: Path
) -> None:
    files = {"src/a.txt": "v1", "gone.txt": None}
    one = session(Checkpoints={"default-u1": [ASK]}, FileCheckpoints={"default-u1": files, "default-u9": {}})
    s = bring_one(store, reader, state_file(tmp_path, one))
    assert s.get_checkpoint("default-u1").state == {"files": files}
    assert s.get_checkpoint("default-u9").position == 2


def test_files_of_a_checkpoint_are_restored_from_its_snapshot(store: clew.Store, tmp_path: Path) -> None:
    later = json.dumps({"sessions": {"default": session()}, "fork_counters": {}})
    kept = {
        "default-u1": {"src/a.txt": "v1", "new.txt": None, "../out": "hostile", "logo.png": "\ufffdPNG"},
        "default-u2": {"src/a.txt": "v2 ü", "gone.txt": None, "logo.png": "\ufffdPNG2", "state.json": later},
        "default-u3": {"new.txt": "n"},
        "default-u4": {},
    }
    one = session(Checkpoints={"default-u1": [ASK]}, FileCheckpoints=kept)
    path = state_file(tmp_path, one)
    for _ in range(2):
        (problem,) = store.import_path(path, again=True).problems
        assert "'../out'" in problem.reason
    s = store.get("openrouter:default")
    assert len(store.snapshots()) == 4
    work = tmp_path / "work"
    work.mkdir()
    ours = {"gone.txt": "g", "logo.png": "whole", "state.json": "current", "mine": "mine"}
    expected = {
        "default-u1": {"src/a.txt": "v1", "logo.png": "whole"},
        "default-u2": {"src/a.txt": "v2 ü", "logo.png": "whole"},
        "default-u3": {"new.txt": "n"},
        "default-u4": {},
    }
    left = {name: ours[name] for name in ("state.json", "mine")}
    for name, files in expected.items():
        for place, text in ours.items():
            (work / place).write_text(text)
        s.rewind(name, files=work)
        assert {
            str(file.relative_to(work)): file.read_text() for file in work.rglob("*") if file.is_file()
        } == left | files, name
    assert s.get_checkpoint("default-u1").state["damaged"] == ["logo.png"]
    history = [version.verb for version in s.file_history("src/a.txt")]
    assert history == ["created", "changed", "deleted"]
    kept_at = [str(s.get_checkpoint(name).snapshot) for name in expected]
    assert [(one.status, one.path) for one in store.diff(kept_at[1], kept_at[2])] == [
        ("added", "new.txt"), ("removed", "src/a.txt")
    ]  # fmt: skip


def test_files_without_messages_belong_behind_the_turn_of_their_name(tmp_path: Path) -> None:
    one = session(messages=[ASK, AGAIN], FileCheckpoints={"default-u1": {"a": "1"}})
    read = read_one(reader, state_file(tmp_path, one))
    (checkpoint,) = read.session.checkpoints()
    assert checkpoint.entry == read.entries[0].uid


def test_older_copies_of_the_file_in_its_own_snapshots_are_left_out(tmp_path: Path) -> None:
    older = json.dumps({"sessions": {"default": session()}, "fork_counters": {}})
    files = {"sub/state.json": older, "state.json": "{}", "a.txt": "1"}
    one = session(Checkpoints={"default-u1": [ASK]}, FileCheckpoints={"default-u1": files})
    read = read_one(reader, state_file(tmp_path, one))
    (checkpoint,) = read.session.checkpoints()
    kept = {"state.json": "{}", "a.txt": "1"}
    assert checkpoint.state == {"files": kept, "left_out": ["sub/state.json"]}


def test_forks_name_their_base_and_counters_are_kept(tmp_path: Path) -> None:
    sessions = [session("a#fork-1"), session("a"), session("b#fork-1")]
    path = state_file(tmp_path, *sessions, a=2, gone=7)
    reads, problems = read_file(reader, path)
    assert [read.session.id for read in reads] == [
        "openrouter:a",
        "openrouter:a#fork-1",
        "openrouter:b#fork-1",
    ]
    assert [read.session.parent for read in reads] == [None, "openrouter:a", None]
    assert reads[0].session.metadata["fork_counter"] == 2
    assert reads[0].session.metadata["fork_counters_of_lost_sessions"] == {"gone": 7}
    assert problems == []


def test_null_messages_are_an_empty_session_and_a_null_session_is_told(tmp_path: Path) -> None:
    path = write_json(tmp_path / "s.json", {"sessions": {"a": session("a", None), "b": None}})
    reads, problems = read_file(reader, path)
    assert [read.entries for read in reads] == [[]]
    assert "'b'" in problems[0].reason


def test_a_file_cut_off_by_a_crash_gives_what_is_whole_and_the_line_of_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    whole = json.dumps({"sessions": {"a": session("a"), "b": session("b", [ASK, AGAIN, CALL])}}, indent=2)
    cut = whole[: whole.rindex("tool_calls") - 20]
    path.write_text(cut)
    reads, problems = read_file(reader, path)
    assert [entry.message for entry in reads[0].path] == [ASK, CALL, ANSWER]
    assert [entry.message for entry in reads[1].path] == [ASK, AGAIN]
    assert [problem.line for problem in problems] == [cut.count("\n") + 1]


def test_a_cut_file_that_is_whole_again_adds_only_what_was_missing(store: clew.Store, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    whole = json.dumps({"sessions": {"a": session("a", [ASK, AGAIN, CALL])}})
    path.write_text(whole[: whole.index("tool_calls") - 10])
    bring(store, reader, path)
    path.write_text(whole)
    (loaded,) = bring(store, reader, path)
    assert (loaded.state, loaded.entries) == ("grown", 1)
    assert store.get("openrouter:a").messages() == [ASK, AGAIN, CALL]
