"""pi: the tree of the file is the tree of the session, whatever version wrote it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clew.importers.programs import pi
from tests.importers.readers import read_file, read_one, who_and_what, write_lines
from tests.support.rows import each_row

HEADER = {
    "type": "session",
    "version": 3,
    "id": "0198-s",
    "timestamp": "2026-03-15T10:00:00.000Z",
    "cwd": "/w",
}
TIME = "2026-03-15T10:00:05.000Z"


def line(kind: str, name: str | None, parent: str | None, /, **more: Any) -> dict[str, Any]:
    place = {"id": name, "parentId": parent} if name else {}
    return {"type": kind, **place, "timestamp": TIME, **more}


def said(name: str | None, parent: str | None, role: str, words: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": words}]
    return line("message", name, parent, message={"role": role, "content": content, "timestamp": 1, **more})


def session_file(folder: Path, *records: Any, header: Any = HEADER, name: str = "t_0198-s.jsonl") -> Path:
    return write_lines(folder / "--w--" / name, header, *records)


ONE = said("a1", None, "user", "one")
TWO = said("a2", "a1", "assistant", "first")


def test_header_times_and_messages_are_kept(tmp_path: Path) -> None:
    read = read_one(pi, session_file(tmp_path, ONE, TWO, header={**HEADER, "mood": "x"}))
    assert (read.session.id, read.session.workspace) == ("pi:0198-s", "/w")
    assert read.session.created_at == datetime(2026, 3, 15, 10, tzinfo=UTC)
    assert read.session.metadata == {"version": 3, "mood": "x"}
    assert read.said() == [("user", "one"), ("assistant", "first")]
    assert read.entries[0].at == datetime(2026, 3, 15, 10, 0, 5, tzinfo=UTC)
    assert read.entries[1].notes["source"]["id"] == "a2"


LEFT, RIGHT = said("a3", "a2", "user", "left"), said("a4", "a2", "user", "right")


@each_row(
    ("records", "path"),
    [
        ([LEFT, RIGHT], ["one", "first", "right"]),
        ([LEFT, line("model_change", "a4", "a1", provider="p", modelId="m")], ["one"]),
        ([{"type": "marker", "note": "x"}], ["one", "first"]),
        ([TWO], ["one", "first"]),
    ],
    ids=["a branch", "a line that is no message", "a line without an id", "a repeated line"],
)
def test_the_head_is_where_the_last_line_stands(tmp_path: Path, records: list[Any], path: list[str]) -> None:
    read = read_one(pi, session_file(tmp_path, ONE, TWO, *records))
    assert [words for _, words in read.said()] == path
    added = [record for record in records if record["type"] == "message" and record is not TWO]
    assert [entry.parent for entry in read.entries[2:]] == [read.entries[1].uid] * len(added)
    assert [event.type for event in read.session.events() if event.type] == [
        record["type"] for record in records if record["type"] != "message"
    ]


def test_lines_that_are_no_messages_are_links_of_the_chain_and_become_events(tmp_path: Path) -> None:
    change = line("model_change", "a2", "a1", provider="p", modelId="m")
    state = line("custom", "a3", "a2", customType="ext", data={"n": 1})
    read = read_one(pi, session_file(tmp_path, ONE, change, state, said("a4", "a3", "user", "two")))
    assert read.entries[1].parent == read.entries[0].uid
    assert [(event.type, event.data) for event in read.entries[1].events] == [
        ("model_change", {"provider": "p", "modelId": "m"}),
        ("custom", {"customType": "ext", "data": {"n": 1}}),
    ]


def test_a_change_of_the_model_is_the_model_of_the_session_and_what_follows_is_not_lost(
    tmp_path: Path,
) -> None:
    change = line("model_change", "a2", "a1", provider="p", modelId="m")
    read = read_one(pi, session_file(tmp_path, ONE, change, line("novelty", "a3", "a2", x=1)))
    assert read.session.updates() == {"model": "m", "vendor": "p"}
    assert [(event.type, event.data) for event in read.session.events()][-1] == ("novelty", {"x": 1})


def test_calls_and_results_are_paired_and_usage_is_counted_with_its_cache(tmp_path: Path) -> None:
    usage = {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4, "cost": {"total": 0.5}}
    call = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}}
    asked = line(
        "message",
        "a2",
        "a1",
        message={"role": "assistant", "content": [call], "model": "m", "provider": "p", "usage": usage},
    )
    answered = said("a3", "a2", "toolResult", "text of a", toolCallId="c1", toolName="read", isError=True)
    read = read_one(pi, session_file(tmp_path, ONE, asked, answered))
    assert read.entries[1].message["content"] == [
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}}
    ]
    (result,) = read.entries[2].message["content"]
    assert (result["tool_use_id"], result["is_error"]) == ("c1", True)
    assert who_and_what(read.entries[2])[0] == "tool"
    assert read.entries[2].notes["source"]["toolName"] == "read"
    (usage_told,) = read.usage.values()
    assert (usage_told.input_tokens, usage_told.output_tokens, usage_told.cost) == (8, 2, "0.5")
    assert read.session.updates() == {"model": "m", "vendor": "p"}


def test_what_extensions_and_commands_wrote_is_not_the_human(tmp_path: Path) -> None:
    ran = line(
        "message",
        "a2",
        "a1",
        message={"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 0},
    )
    sent = line("custom_message", "a3", "a2", customType="ext", content="be brief", display=True)
    left = line("branch_summary", "a4", "a3", fromId="zz", summary="it failed")
    read = read_one(pi, session_file(tmp_path, ONE, ran, sent, left))
    assert read.said() == [
        ("user", "one"),
        ("program", "$ ls\na"),
        ("program", "be brief"),
        ("program", "it failed"),
    ]
    assert read.entries[1].notes["source"]["exitCode"] == 0
    assert read.entries[3].notes["source"]["fromId"] == "zz"


def test_a_compaction_says_what_it_kept(tmp_path: Path) -> None:
    compaction = line("compaction", "a3", "a2", summary="so far", firstKeptEntryId="a2", tokensBefore=500)
    read = read_one(pi, session_file(tmp_path, ONE, TWO, compaction, said("a4", "a3", "user", "on")))
    mark = read.entries[2]
    assert mark.kind == "compaction"
    assert mark.message == {"text": "so far", "tokens": 500, "from": read.entries[1].uid}
    assert read.said()[-1] == ("user", "on")


def test_a_compaction_that_kept_a_change_of_model_begins_with_the_message_behind_it(tmp_path: Path) -> None:
    change = line("model_change", "b1", "a1", modelId="m")
    answer = said("b2", "b1", "assistant", "first")
    compaction = line("compaction", "b3", "b2", summary="so far", firstKeptEntryId="b1")
    read = read_one(pi, session_file(tmp_path, ONE, change, answer, compaction))
    assert read.entries[2].message["from"] == read.entries[1].uid


def test_version_1_has_no_ids_and_counts_lines_from_its_header(tmp_path: Path) -> None:
    header = {name: value for name, value in HEADER.items() if name != "version"}
    compaction = line("compaction", None, None, summary="so far", firstKeptEntryIndex=2)
    records = [said(None, None, "user", "one"), said(None, None, "assistant", "first"), compaction]
    read = read_one(pi, session_file(tmp_path, *records, header=header))
    assert read.said() == [("user", "one"), ("assistant", "first"), ("compaction", "so far")]
    assert read.entries[2].message["from"] == read.entries[1].uid


def test_a_file_that_pi_has_brought_from_version_1_to_3_keeps_the_names_of_its_entries(
    tmp_path: Path,
) -> None:
    old_header = {name: value for name, value in HEADER.items() if name != "version"}
    hook = {"role": "hookMessage", "content": "note"}
    old = session_file(
        tmp_path / "old",
        said(None, None, "user", "one"),
        line("message", None, None, message=hook),
        line("compaction", None, None, summary="so far", firstKeptEntryIndex=1),
        header=old_header,
    )
    new = session_file(
        tmp_path / "new",
        said("a1", None, "user", "one"),
        line("message", "a2", "a1", message={**hook, "role": "custom"}),
        line("compaction", "a3", "a2", summary="so far", firstKeptEntryId="a1"),
    )
    names = [[entry.uid for entry in read_one(pi, file).entries] for file in (old, new)]
    assert names[0] == names[1]


def test_labels_are_checkpoints_and_the_name_is_the_title(tmp_path: Path) -> None:
    labels = [
        line("label", "a3", "a2", targetId="a1", label="start"),
        line("label", "a4", "a3", targetId="a2", label="gone"),
        line("label", "a5", "a4", targetId="a2", label=None),
        line("session_info", "a6", "a5", name="Title"),
    ]
    read = read_one(pi, session_file(tmp_path, ONE, TWO, *labels))
    (checkpoint,) = read.session.checkpoints()
    assert (checkpoint.name, checkpoint.entry) == ("start", read.entries[0].uid)
    assert read.session.updates()["title"] == "Title"
    assert read.head == read.entries[1].uid


def test_two_places_with_the_same_label_are_two_checkpoints(tmp_path: Path) -> None:
    labels = [line("label", f"b{n}", "a2", targetId=f"a{n}", label="x") for n in (1, 2)]
    read = read_one(pi, session_file(tmp_path, ONE, TWO, *labels))
    assert len({checkpoint.name for checkpoint in read.session.checkpoints()}) == 2


def test_behind_a_damaged_line_the_conversation_goes_on(tmp_path: Path) -> None:
    third = said("a3", "a2", "user", "three")
    (read,), problems = read_file(pi, session_file(tmp_path, ONE, '{"type":"message","id":"a2"', third))
    assert [words for _, words in read.said()] == ["one", "three"]
    assert [problem.line for problem in problems] == [3, 4]
    assert "'a2'" in problems[1].reason


def test_a_fork_is_linked_and_does_not_pay_again_for_what_it_copied(tmp_path: Path) -> None:
    usage = {"input": 1, "output": 2}
    paid = said("a2", "a1", "assistant", "first", usage=usage)
    source = session_file(tmp_path, ONE, paid)
    header = {**HEADER, "id": "0199-f", "timestamp": "2026-03-15T11:00:00.000Z", "parentSession": str(source)}
    new = {**said("a3", "a2", "assistant", "second", usage=usage), "timestamp": "2026-03-15T11:00:01.000Z"}
    read = read_one(pi, session_file(tmp_path, ONE, paid, new, header=header, name="t_0199-f.jsonl"))
    assert read.session.parent == "pi:0198-s"
    assert [entry.usage is not None for entry in read.entries] == [False, False, True]


def test_a_fork_whose_source_is_gone_tells_all_it_knows(tmp_path: Path) -> None:
    paid = said("a2", "a1", "assistant", "first", usage={"input": 1, "output": 2})
    header = {**HEADER, "timestamp": "2026-03-15T11:00:00.000Z", "parentSession": "/nowhere/t_0001.jsonl"}
    assert len(read_one(pi, session_file(tmp_path, ONE, paid, header=header)).usage) == 1


def test_a_file_has_no_say_on_places_that_are_not_its_agents(tmp_path: Path) -> None:
    """Whether there is a file anywhere on the machine is not told by what is imported."""
    (tmp_path / "elsewhere").mkdir()
    private = tmp_path / "elsewhere" / "private.txt"
    private.write_text("x")
    paid = said("a2", "a1", "assistant", "first", usage={"input": 1, "output": 2})
    header = {**HEADER, "timestamp": "2026-03-15T11:00:00.000Z"}
    told = [
        read_one(pi, session_file(tmp_path / "agent", ONE, paid, header={**header, "parentSession": source}))
        for source in (str(private), str(tmp_path / "elsewhere" / "none.txt"), "a\0b", "/")
    ]
    assert [len(read.usage) for read in told] == [1, 1, 1, 1]


def test_a_file_without_header_is_a_problem(tmp_path: Path) -> None:
    sessions, problems = read_file(pi, write_lines(tmp_path / "x.jsonl", ONE))
    assert sessions == []
    assert problems[0].line == 1


@each_row(
    ("more", "told"),
    [
        ({"stopReason": "aborted"}, "The answer was aborted."),
        ({"stopReason": "error", "errorMessage": "429 busy"}, "No answer: 429 busy"),
        ({"stopReason": "error", "errorMessage": 3}, "No answer: an unknown error"),
    ],
)
def test_an_answer_that_came_to_nothing_says_why(tmp_path: Path, more: dict[str, Any], told: str) -> None:
    message = {"role": "assistant", "content": [], "timestamp": 1, **more}
    half = said("a3", "a2", "assistant", "half", **more)
    read = read_one(pi, session_file(tmp_path, ONE, line("message", "a2", "a1", message=message), half))
    assert read.said() == [("user", "one"), ("system", told), ("assistant", "half")]
    assert read.entries[1].message["notice"] is True
