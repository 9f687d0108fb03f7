"""ductwork: the state of a run becomes a session with a checkpoint to resume from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import clew
from clew.importers.programs import ductwork as reader
from tests.importers.landing import bring, bring_one
from tests.importers.readers import read_file, read_one, write_json

ASK = {"content": [{"text": "do it", "type": "text"}], "role": "user"}
CALL = {
    "content": [{"id": "toolu_1", "input": {"command": "ls"}, "name": "bash", "type": "tool_use"}],
    "role": "assistant",
}
ANSWER = {
    "content": [
        {
            "tool_use_id": "toolu_1",
            "is_error": False,
            "content": [{"text": "a.txt", "type": "text"}],
            "type": "tool_result",
        }
    ],
    "role": "user",
}


def run(messages: Any = (ASK, CALL, ANSWER), **more: Any) -> dict[str, Any]:
    return {
        "run_id": "run-sync-1772380000000",
        "task_name": "sync",
        "iteration": 2,
        "messages": messages,
        "system_prompt": "be good",
        "input_tokens": 1200,
        "output_tokens": 80,
        "created_at": "2026-03-01T12:00:00.5-05:00",
    } | more


def test_a_run_keeps_its_messages_and_how_far_it_had_come(store: clew.Store, tmp_path: Path) -> None:
    s = bring_one(store, reader, write_json(tmp_path / "r.json", run()))
    assert s.id == "ductwork:run-sync-1772380000000"
    assert s.messages() == [ASK, CALL, ANSWER]
    assert s.info.title == "sync"
    assert s.info.user_turns == 1
    checkpoint = s.get_checkpoint("iteration-2")
    assert checkpoint.position == 2
    assert checkpoint.state == {name: value for name, value in run().items() if name != "messages"}


def test_a_run_began_when_its_id_says_and_was_saved_when_the_file_says(tmp_path: Path) -> None:
    read = read_one(reader, write_json(tmp_path / "r.json", run()))
    assert str(read.session.created_at) == "2026-03-01 15:46:40+00:00"
    assert str(read.entries[-1].at) == "2026-03-01 17:00:00.500000+00:00"


def test_a_run_that_compacted_itself_gets_a_branch_and_the_old_messages_stay(
    store: clew.Store, tmp_path: Path
) -> None:
    short = {"content": [{"text": "Original task + context summary", "type": "text"}], "role": "user"}
    bring(store, reader, write_json(tmp_path / "r.json", run()))
    bring(store, reader, write_json(tmp_path / "r.json", run([short], iteration=9)))
    s = store.get("ductwork:run-sync-1772380000000")
    assert s.messages() == [short]
    s.rewind("iteration-2")
    assert s.messages() == [ASK, CALL, ANSWER]


def test_a_torn_save_is_not_recognised_and_the_whole_file_beside_it_is(tmp_path: Path) -> None:
    path = write_json(tmp_path / "r.json", run())
    beginning = path.read_bytes()
    assert reader.recognises(path, beginning)
    assert not reader.recognises(tmp_path / "r.json.tmp", beginning)
    write_json(tmp_path / "x.json.tmp", run())
    assert reader.files(tmp_path) == [path]


def test_a_file_that_is_cut_off_gives_the_messages_before_the_cut(tmp_path: Path) -> None:
    path = write_json(tmp_path / "r.json", run())
    whole = path.read_text()
    path.write_text(whole[: whole.index("tool_result") - 3])
    (read,), problems = read_file(reader, path)
    assert [entry.message for entry in read.path] == [ASK, CALL]
    assert len(problems) == 1


def test_a_run_without_id_has_the_name_of_its_file(tmp_path: Path) -> None:
    read = read_one(reader, write_json(tmp_path / "adhoc-1.json", run(run_id="", messages=None)))
    assert (read.session.id, read.entries) == ("ductwork:adhoc-1", [])
