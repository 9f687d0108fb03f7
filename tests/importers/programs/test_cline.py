"""Cline and Roo: the conversation of a task, with times, costs and names from the files beside it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import clew
from clew.importers.programs import cline
from tests.importers.readers import land, read_file, read_one, who_and_what, write_json

TASK = "1760000000000"
DETAILS = "<environment_details>\n# Current Working Directory (/w/app) Files\na.py\n</environment_details>"


def text(*said: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": each} for each in said]


def user(*said: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text(*said), **more}


def assistant(*said: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text(*said), **more}


def request(ts: int, **told: Any) -> dict[str, Any]:
    return {"ts": ts, "type": "say", "say": "api_req_started", "text": json.dumps(told)}


def task_file(folder: Path, messages: list[Any], shown: list[Any] | None = None, name: str = TASK) -> Path:
    task = folder / "tasks" / name
    if shown is not None:
        write_json(task / "ui_messages.json", shown)
    return write_json(task / "api_conversation_history.json", messages)


ASKED = user("<task>\nfix it\n</task>", DETAILS)


def test_a_task_has_its_name_time_directory_model_and_messages(tmp_path: Path) -> None:
    model = {"modelInfo": {"modelId": "m", "providerId": "anthropic", "mode": "act"}}
    read = read_one(cline, task_file(tmp_path, [ASKED, assistant("done", **model)]))
    assert (read.session.id, read.session.title) == (f"cline:{TASK}", "fix it")
    assert (read.session.workspace, read.session.model, read.session.vendor) == ("/w/app", "m", "anthropic")
    assert read.session.created_at == datetime.fromtimestamp(1_760_000_000, UTC)
    assert [entry.message for entry in read.entries] == [ASKED, assistant("done")]
    assert read.entries[1].notes["source"] == model


def test_the_human_is_told_from_what_is_written_in_his_name(tmp_path: Path) -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": "ok"}
    remark = {
        "type": "tool_result",
        "tool_use_id": "c",
        "content": text("denied <feedback>\nuse b\n</feedback>"),
    }
    messages = [
        ASKED,
        user("[read_file for 'a.py'] Result:", DETAILS),
        {"role": "user", "content": [result, *text(DETAILS)]},
        user("[ERROR] You did not use a tool"),
        {"role": "user", "content": [remark, *text(DETAILS)]},
        user("and now?", DETAILS),
        {"role": "user", "content": "plain"},
    ]
    read = read_one(cline, task_file(tmp_path, messages))
    assert [entry.human for entry in read.entries] == [None, False, False, False, None, None, None]


def test_the_task_that_another_task_ordered_is_no_persons_words_but_remarks_on_it_are(tmp_path: Path) -> None:
    file = task_file(tmp_path, [ASKED, assistant("done"), user("<feedback>\nnot so\n</feedback>", DETAILS)])
    write_json(file.parent / "history_item.json", {"id": TASK, "parentTaskId": "p", "task": "fix it"})
    assert [entry.human for entry in read_one(cline, file).entries] == [False, None, None]


def test_what_cline_puts_around_the_words_of_the_human_reaches_neither_title_nor_preview(
    store: clew.Store,
    tmp_path: Path,
) -> None:
    remark = {"type": "tool_result", "tool_use_id": "c", "content": "no\n<feedback>\nuse b\n</feedback>"}
    asked = user("<user_message>\nfix it\n</user_message>", DETAILS)
    file = task_file(
        tmp_path, [asked, assistant("done"), {"role": "user", "content": [remark, *text(DETAILS)]}]
    )
    land(store, cline, file)
    s = store.get(f"cline:{TASK}")
    assert (s.info.title, s.info.preview) == ("fix it", "use b")
    assert s.messages()[0] == asked


def test_each_request_is_paid_once_with_its_cache(tmp_path: Path) -> None:
    shown = [
        request(1_760_000_001_000, tokensIn=1, tokensOut=2, cacheReads=3, cacheWrites=4, cost=0.5),
        request(1_760_000_002_000, tokensIn=9, tokensOut=2, cacheReads=3, apiProtocol="openai"),
        request(1_760_000_003_000, request="not answered yet"),
        {"ts": 4, "type": "say", "say": "text", "text": "done"},
    ]
    read = read_one(cline, task_file(tmp_path, [ASKED, assistant("done")], shown))
    assert [(usage.input_tokens, usage.cost) for usage in read.usage.values()] == [(8, "0.5"), (9, None)]
    assert read.entries[0].at == datetime.fromtimestamp(1_760_000_001, UTC)


def test_the_model_of_each_call_is_known_from_the_list_of_those_that_the_task_used(tmp_path: Path) -> None:
    shown = [request(1_760_000_002_000, tokensIn=1), request(1_760_000_004_000, tokensIn=1)]
    file = task_file(tmp_path, [ASKED, assistant("done")], shown)
    used = [
        {"ts": 1_760_000_001_000 + 2000 * number, "model_id": f"m{number}", "model_provider_id": "p"}
        for number in range(2)
    ]
    write_json(file.parent / "task_metadata.json", {"files_in_context": [], "model_usage": used})
    read = read_one(cline, file)
    assert (read.session.model, read.session.vendor) == ("m1", "p")
    assert [(usage.model, usage.vendor) for usage in read.usage.values()] == [("m0", "p"), ("m1", "p")]


def test_the_model_is_told_by_the_request_the_list_of_tasks_or_the_environment(tmp_path: Path) -> None:
    shown = [request(1, tokensIn=1) | {"modelInfo": {"modelId": "m1", "providerId": "p"}}]
    session = read_one(cline, task_file(tmp_path / "1", [ASKED], shown)).session
    assert (session.model, session.vendor) == ("m1", "p")
    file = task_file(tmp_path / "2", [ASKED])
    write_json(file.parent / "history_item.json", {"id": TASK, "modelId": "m2"})
    assert read_one(cline, file).session.model == "m2"
    details = (
        "<environment_details>\n# Current Mode\n<slug>code</slug>\n<model>m3</model>\n</environment_details>"
    )
    messages = [user("<task>use <model>x</model></task>", details), assistant("done")]
    assert read_one(cline, task_file(tmp_path / "3", messages)).session.model == "m3"


def test_the_calls_of_a_subtask_are_its_own_even_if_they_are_called_like_those_of_its_task(
    store: clew.Store,
    tmp_path: Path,
) -> None:
    shown = [{**request(0, tokensIn=3), "ts": None}]
    main = task_file(tmp_path, [ASKED], shown)
    sub = task_file(tmp_path, [ASKED], shown, name="sub")
    write_json(sub.parent / "history_item.json", {"id": "sub", "parentTaskId": TASK})
    for file in (main, sub):
        land(store, cline, file)
    counted = {id: totals.calls for id, totals in store.usage(by="session").items()}
    assert counted == {f"cline:{TASK}": 1, "cline:sub": 1}


def test_checkpoints_that_were_shown_are_events(tmp_path: Path) -> None:
    shown = [
        {"ts": 1_760_000_001_000, "type": "say", "say": "checkpoint_created", "lastCheckpointHash": "b6"}
    ]
    read = read_one(cline, task_file(tmp_path, [ASKED], shown))
    (event,) = read.session.events()
    assert (event.type, event.data["lastCheckpointHash"]) == ("checkpoint_created", "b6")


def test_a_condensed_conversation_keeps_its_originals(tmp_path: Path) -> None:
    messages = [
        {**ASKED, "condenseParent": "k1", "ts": 1_760_000_001_000},
        {**assistant("long"), "condenseParent": "k1"},
        {**assistant("summary"), "isSummary": True, "condenseId": "k1"},
        user("<feedback>on</feedback>"),
    ]
    read = read_one(cline, task_file(tmp_path, messages))
    assert [who_and_what(entry)[0] for entry in read.entries] == ["user", "assistant", "compaction", "user"]
    assert read.entries[2].message == {"text": "summary"}
    assert read.entries[0].notes["source"]["condenseParent"] == "k1"


def test_a_conversation_that_was_cut_and_went_on_keeps_the_names_of_what_stayed(tmp_path: Path) -> None:
    before = read_one(cline, task_file(tmp_path, [ASKED, assistant("first"), user("two")]))
    after = read_one(cline, task_file(tmp_path, [ASKED, assistant("first"), user("other two")]))
    assert [entry.uid for entry in before.entries[:2]] == [entry.uid for entry in after.entries[:2]]
    assert before.entries[2].uid != after.entries[2].uid


def test_the_same_words_twice_are_two_messages(tmp_path: Path) -> None:
    read = read_one(
        cline, task_file(tmp_path, [ASKED, assistant("go"), user("on"), assistant("go"), user("on")])
    )
    assert len(read.path) == 5


def test_the_list_of_tasks_of_cline_tells_of_the_task(tmp_path: Path) -> None:
    item = {"id": TASK, "task": "fix the bug", "totalCost": 1, "cwdOnTaskInitialization": "/w/listed"}
    write_json(tmp_path / "state" / "taskHistory.json", [{"id": "other", "task": "no"}, item])
    read = read_one(cline, task_file(tmp_path, [ASKED]))
    assert (read.session.title, read.session.workspace) == ("fix the bug", "/w/listed")
    assert read.session.metadata["totalCost"] == 1


def test_a_subtask_of_roo_is_linked_to_its_parent(tmp_path: Path) -> None:
    file = task_file(tmp_path, [ASKED], name="0198-child")
    write_json(
        file.parent / "history_item.json", {"id": "0198-child", "parentTaskId": "0198-p", "workspace": "/r"}
    )
    read = read_one(cline, file)
    assert (read.session.parent, read.session.workspace) == ("cline:0198-p", "/r")


def test_what_else_is_known_of_a_task_is_kept(tmp_path: Path) -> None:
    file = task_file(tmp_path, [ASKED])
    write_json(file.parent / "task_metadata.json", {"files_in_context": ["a"]})
    assert read_one(cline, file).session.vars() == {"task_metadata": {"files_in_context": ["a"]}}


def test_a_damaged_file_beside_the_conversation_costs_only_itself(tmp_path: Path) -> None:
    file = task_file(tmp_path, [ASKED, assistant("done")])
    (file.parent / "ui_messages.json").write_text("[{")
    (read,), problems = read_file(cline, file)
    assert len(read.entries) == 2
    assert [Path(problem.path).name for problem in problems] == ["ui_messages.json"]


def test_tasks_are_found_by_age(tmp_path: Path) -> None:
    younger = task_file(tmp_path, [ASKED], name="1760000000001")
    older = task_file(tmp_path, [ASKED])
    assert cline.files(tmp_path) == [older, younger]


def test_what_was_shown_is_told_once_though_the_program_forgot_what_stood_before_it(
    store: clew.Store, tmp_path: Path
) -> None:
    """A task that is set back, or cleaned up, loses some of what it showed."""
    made = {"ts": 1_760_000_003_000, "type": "say", "say": "checkpoint_created", "lastCheckpointHash": "b658"}
    before = [request(1_760_000_001_000, tokensIn=3), request(1_760_000_002_000, tokensIn=4)]
    for shown in ([*before, made], [before[1], made]):
        land(store, cline, task_file(tmp_path, [ASKED, assistant("done")], shown))
        session = store.get(f"cline:{TASK}")
        assert [event.type for event in session.events()] == ["checkpoint_created"]
        assert session.usage().input_tokens == 7
