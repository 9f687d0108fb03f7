"""Claude Code: every trap of its format, each with a small file of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.importers.programs.claude_code import reader
from clew.testing.importer import ImporterConformance
from tests.support.rows import each_named_row, each_row

SESSION = "0b1c2d3e-1111-4222-8333-444455556666"
ID = f"claude-code:{SESSION}"


class Log:
    """A session file, record by record; each is the child of the one before unless it says otherwise."""

    def __init__(self, path: Path, **common: Any) -> None:
        self.path = path
        self.common = {"sessionId": SESSION, "cwd": "/w", "version": "2.1.63", "isSidechain": False} | common
        self.last: str | None = None
        self.count = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def put(self, uuid: str, kind: str, message: Any = None, **more: Any) -> Log:
        self.count += 1
        record = {"parentUuid": self.last, **self.common, "type": kind, "uuid": uuid}
        record["timestamp"] = f"2025-06-01T10:00:{self.count:02d}.500Z"
        if message is not None:
            record["message"] = message
        self.last = uuid
        return self.raw(record | more)

    def user(self, uuid: str, content: Any = None, **more: Any) -> Log:
        return self.put(uuid, "user", {"role": "user", "content": content or f"text of {uuid}"}, **more)

    def result(self, uuid: str, call: str, **more: Any) -> Log:
        block = {"type": "tool_result", "tool_use_id": call, "content": f"result of {call}"}
        return self.user(uuid, [block], toolUseResult={"stdout": "x"}, **more)

    def model(self, uuid: str, id: str | None = None, call: str | None = None, **more: Any) -> Log:
        block: dict[str, Any] = {"type": "text", "text": f"text of {uuid}"}
        if call is not None:
            block = {"type": "tool_use", "id": call, "name": "Read", "input": {}}
        tokens = more.pop("tokens", 4)
        usage = {
            "input_tokens": more.pop("prompt", 1),
            "cache_creation_input_tokens": 2,
            "cache_read_input_tokens": 3,
            "output_tokens": tokens,
        }
        message = {"id": id or f"msg_{uuid}", "role": "assistant", "model": "claude-x", "content": [block]}
        return self.put(uuid, "assistant", {**message, "usage": usage}, requestId=f"req_{id}", **more)

    def raw(self, record: dict[str, Any] | str) -> Log:
        with self.path.open("a") as file:
            file.write((record if isinstance(record, str) else json.dumps(record)) + "\n")
        return self


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "p" / f"{SESSION}.jsonl")


def bring(store: clew.Store, log: Log) -> clew.Session:
    assert store.import_path(log.path).ok
    assert store.import_path(log.path).entries == 0
    return store.get(ID)


def texts(session: clew.Session) -> list[str]:
    """What was said on the path; of a call or a result its id."""
    return [first_of(message) for message in session.messages()]


def first_of(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    block: dict[str, str] = content[0]
    return block.get("text") or block.get("tool_use_id") or block["id"]


def humans(session: clew.Session) -> int:
    """How many of the messages on the path a person said."""
    return session.info.user_turns


def test_messages_are_kept_whole_with_what_stands_beside_them(store: clew.Store, log: Log) -> None:
    log.user("u1").model("a1", "m1").user("u2", cwd="/elsewhere", permissionMode="plan")
    session = bring(store, log)
    first, second, third = session.entries()
    assert first.message == {"role": "user", "content": "text of u1"}
    assert second.message["usage"]["cache_read_input_tokens"] == 3
    assert second.annotations == {"requestId": "req_m1"}
    assert third.annotations == {"cwd": "/elsewhere", "permissionMode": "plan"}
    assert third.time.isoformat() == "2025-06-01T10:00:03.500000+00:00"
    info = session.info
    assert (info.model, info.vendor, info.workspace_given, info.user_turns) == (
        "claude-x",
        "anthropic",
        "/w",
        2,
    )
    assert info.metadata["claude_code"]["version"] == "2.1.63"
    assert info.metadata["imported_from"] == {"format": "claude-code", "path": str(log.path)}
    assert store.get(SESSION).id == ID


def a_compaction_on_another_branch(log: Log) -> Log:
    log.user("u1").model("a1").user("u2").model("a2")
    log.put("c1", "system", parentUuid=None, logicalParentUuid="a1", subtype="compact_boundary")
    return log.user("k1", "short", isCompactSummary=True).user("u3")


def results_of_parallel_calls(log: Log) -> Log:
    log.user("u1").model("a1", "m", "t1").model("a2", "m", "t2")
    log.result("r1", "t1", parentUuid="a1").result("r2", "t2", parentUuid="a2")
    return log.model("a3", "n", parentUuid="r2")


def a_result_between_two_calls_of_one_answer(log: Log) -> Log:
    log.user("u1").model("a1", "m", "t1").result("r1", "t1", parentUuid="a1")
    log.model("a2", "m", "t2", parentUuid="a1").result("r2", "t2", parentUuid="a2")
    return log.model("a3", "n", parentUuid="r1")


PATHS: dict[str, tuple[Callable[[Log], Log], str, list[tuple[int, int]]]] = {
    "a rewind leaves a branch and the last leaf is the head": (
        lambda log: log.user("u1").model("a1").user("u2").model("a2").user("u3", parentUuid="a1").model("a3"),
        "u1 a1 u3 a3",
        [(0, 3), (2, 3)],
    ),
    "a compaction belongs to the branch that it names": (
        a_compaction_on_another_branch, "u1 a1 u3", [(0, 3), (2, 3)]
    ),
    "results of parallel calls are all on the path": (
        results_of_parallel_calls, "u1 t1 t2 t1 t2 a3", [(0, 5)]
    ),
    "a result between two calls of one answer is on the path": (
        a_result_between_two_calls_of_one_answer, "u1 t1 t1 t2 t2 a3", [(0, 5)]
    ),
    "what a team mate said last is not where the session goes on": (
        lambda log: log.user("u1").user("x1", teamName="t"), "u1", [(0, 1)]
    ),
    "a cycle is walked once": (
        lambda log: log.user("u1", parentUuid="u3").user("u2").user("u3").user("u4", parentUuid="u4"),
        "u1 u2 u3 u4",
        [(0, 3)],
    ),
    "a record that comes twice is one entry": (
        lambda log: log.user("u1").model("a1").user("u1", parentUuid=None).user("u2", parentUuid="a1"),
        "u1 a1 u2",
        [(0, 2)],
    ),
}  # fmt: skip
"""Who writes the records, what is on the path, and where the branches begin and end."""


@each_named_row(("write", "path", "ends"), PATHS)
def test_the_path_leads_to_the_last_leaf_and_the_rest_stays_on_branches(
    tmp_path: Path, write: Callable[[Log], Log], path: str, ends: list[tuple[int, int]]
) -> None:
    with clew.open("memory:") as store:
        session = bring(store, write(Log(tmp_path / f"{SESSION}.jsonl")))
        assert [text.removeprefix("text of ") for text in texts(session)] == path.split()
        assert sorted((branch.first, branch.last) for branch in session.tree().branches) == ends
        assert session.context().report.repairs == ()


def test_a_compaction_is_a_mark_and_the_history_before_it_stays(store: clew.Store, log: Log) -> None:
    log.user("u1").model("a1")
    boundary = {"parentUuid": None, "logicalParentUuid": "a1", "subtype": "compact_boundary"}
    log.put("c1", "system", content="compacted", compactMetadata={"preTokens": 1000}, **boundary)
    log.user("k1", "summary of it all", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    log.user("u2")
    session = bring(store, log)
    assert [entry.kind for entry in session.entries()] == ["message", "message", "compaction", "message"]
    assert texts(session) == ["text of u1", "text of a1", "text of u2"]
    assert [message["content"] for message in session.context()] == ["summary of it all", "text of u2"]
    assert humans(session) == 2


def test_messages_that_a_compaction_preserved_stay_in_view(store: clew.Store, log: Log) -> None:
    log.user("u1").model("a1").user("u2").model("a2")
    kept = {"preservedSegment": {"headUuid": "u2", "anchorUuid": "k1", "tailUuid": "a2"}}
    log.put("c1", "system", parentUuid=None, logicalParentUuid="a2", subtype="compact_boundary",
            compactMetadata=kept)  # fmt: skip
    log.user("k1", "short", isCompactSummary=True)
    log.user("u3", parentUuid="a2")
    session = bring(store, log)
    assert texts(session) == [f"text of {uuid}" for uuid in ("u1", "a1", "u2", "a2", "u3")]
    context = [message["content"] for message in session.context()]
    assert [content if isinstance(content, str) else content[0]["text"] for content in context] == [
        "short", "text of u2", "text of a2", "text of u3"
    ]  # fmt: skip


def test_the_tokens_of_an_answer_count_once_whatever_comes_between_its_records(
    store: clew.Store, log: Log
) -> None:
    """A result, another subagent, a hook, a prompt that waits; and an import, for all who import again."""
    log.user("u1").model("a1", "m", call="t1", tokens=1)
    assert store.import_path(log.path).ok
    log.result("r1", "t1").put("p1", "progress", data={"type": "hook_progress"})
    log.user("s1", isSidechain=True, agentId="x", parentUuid=None)
    log.model("s2", "side", isSidechain=True, agentId="x", parentUuid="s1", tokens=100)
    log.raw({"type": "queue-operation", "operation": "enqueue", "content": "next", "sessionId": SESSION})
    log.model("a2", "m", call="t2", parentUuid="r1", tokens=7)
    assert store.import_path(log.path).ok
    log.result("r2", "t2").model("a3", "m", tokens=40).model("a4", "n", tokens=5)
    totals = bring(store, log).usage()
    assert (totals.input_tokens, totals.output_tokens) == (12, 45)
    assert (totals.cache_read_tokens, totals.cache_write_tokens) == (6, 4)


def test_what_the_program_itself_wrote_has_no_usage(store: clew.Store, log: Log) -> None:
    usage = {"input_tokens": 9, "output_tokens": 9}
    message = {"id": "x", "role": "assistant", "model": "<synthetic>", "content": [], "usage": usage}
    log.user("u1").put("a1", "assistant", message, isApiErrorMessage=True)
    session = bring(store, log)
    assert (session.usage().calls, session.info.model, session.info.messages) == (0, None, 2)


def test_links_are_events_and_the_chain_goes_on_behind_them(store: clew.Store, log: Log) -> None:
    log.user("u1").put("p1", "progress", data={"type": "agent_progress"}).put(
        "t1", "attachment", attachment={}
    )
    log.put("s1", "system", subtype="turn_duration").model("a1")
    session = bring(store, log)
    assert texts(session) == ["text of u1", "text of a1"]
    types = [event.type for event in session.events()]
    assert types == ["progress", "attachment", "system.turn_duration"]
    assert next(iter(session.events())).data["data"] == {"type": "agent_progress"}


def test_what_the_program_wrote_for_the_model_alone_is_in_its_context_and_no_turn(
    store: clew.Store, log: Log
) -> None:
    log.user("m0", "a caveat", isMeta=True).user("u1").model("a1", "m1", call="t1").result("r1", "t1")
    log.user("m1", "the picture it read", isMeta=True).model("a2")
    session = bring(store, log)
    assert texts(session) == ["a caveat", "text of u1", "t1", "t1", "the picture it read", "text of a2"]
    assert texts(session) == [first_of(message) for message in session.context()]
    assert [entry.injected for entry in session.entries()] == [True, False, False, False, True, False]
    assert humans(session) == 1
    assert session.info.title == "text of u1"
    assert [hit.role for hit in store.search("picture").hits] == ["other"]


def test_what_the_model_does_not_get_is_no_message(store: clew.Store, log: Log) -> None:
    log.user("u1").user("m1", "for people", isMeta=True, isVisibleInTranscriptOnly=True)
    log.user("m2", " ", isMeta=True).put("m3", "user", {"role": "user", "content": []}, isMeta=True)
    log.model("m4", isMeta=True).model("a1")
    session = bring(store, log)
    assert texts(session) == ["text of u1", "text of a1"]


def test_what_stands_between_parallel_results_takes_none_of_them_away(store: clew.Store, log: Log) -> None:
    log.user("u1").model("a1", "m1", call="t1").model("a2", "m1", call="t2")
    log.result("r1", "t1", parentUuid="a1").user("m1", "about t1", isMeta=True, parentUuid="r1")
    attachment = {"type": "queued_command", "prompt": "typed meanwhile"}
    log.put("q1", "attachment", attachment=attachment, parentUuid="m1")
    log.result("r2", "t2", parentUuid="a2").model("a3", parentUuid="q1")
    session = bring(store, log)
    assert texts(session) == [
        "text of u1", "t1", "t2", "t1", "about t1", "typed meanwhile", "t2", "text of a3"
    ]  # fmt: skip


def test_a_prompt_behind_an_answer_goes_on_without_what_the_program_put_there(
    store: clew.Store, log: Log
) -> None:
    """As when a person goes back to before a command."""
    log.user("u1").model("a1").user("m1", "a caveat", isMeta=True).user("u2").model("a2")
    log.user("u3", parentUuid="a1")
    session = bring(store, log)
    assert texts(session) == ["text of u1", "text of a1", "text of u3"]


def test_the_end_is_no_text_of_the_program_on_another_branch(store: clew.Store, log: Log) -> None:
    log.user("u1").model("a1").user("u2").model("a2").user("m1", "aside", isMeta=True, parentUuid="a1")
    assert texts(bring(store, log)) == ["text of u1", "text of a1", "text of u2", "text of a2"]


@each_row(
    ("content", "more", "turns"),
    [
        ([{"type": "tool_result", "tool_use_id": "t", "content": "x"}], {}, 0),
        ("<command-name>/clear</command-name>", {}, 0),
        ("<local-command-stdout>done</local-command-stdout>", {}, 0),
        ("<system-reminder>be good</system-reminder>", {}, 0),
        ("[Request interrupted by user]", {}, 0),
        ([{"type": "text", "text": "[Request interrupted by user for tool use]"}], {}, 0),
        ("<task-notification>ready</task-notification>", {}, 0),
        ("a result with words", {"toolUseResult": "x"}, 0),
        ("plain", {}, 1),
        ([{"type": "text", "text": "in a block"}], {}, 1),
        ([{"type": "image", "source": {}}], {}, 1),
        ("<system-reminder>x</system-reminder> and words", {}, 1),
        ("<html>pasted</html>", {}, 1),
    ],
)
def test_what_a_person_said_and_what_nobody_said_is_told_apart(
    tmp_path: Path, content: Any, more: Any, turns: int
) -> None:
    with clew.open("memory:") as store:
        session = bring(store, Log(tmp_path / f"{SESSION}.jsonl").user("u1").user("x1", content, **more))
        assert (session.info.messages, humans(session)) == (2, 1 + turns)


def test_sidechains_in_the_file_are_sessions_of_their_own(store: clew.Store, log: Log) -> None:
    log.user("u1").model("a1", "m", "t1")
    side: dict[str, Any] = {"isSidechain": True}
    log.user("x1", "do this", parentUuid=None, **side).model("x2", "sm", **side)
    log.user("y1", "do that", parentUuid=None, **side)
    log.model("x3", "sn", parentUuid="x2", **side)
    log.result("r1", "t1", parentUuid="a1")
    session = bring(store, log)
    assert texts(session) == ["text of u1", "t1", "t1"]
    first, second = (store.get(f"{ID}/sidechain-{root}") for root in ("x1", "y1"))
    assert texts(first) == ["do this", "text of x2", "text of x3"]
    assert texts(second) == ["do that"]
    assert first.info.metadata["parent"] == ID
    assert (humans(first), first.info.title) == (0, "do this")
    assert {info.id for info in store.list(where={"parent": ID})} == {first.id, second.id}
    assert session.usage().calls + first.usage().calls == 3


def test_subagents_in_files_beside_it_come_with_the_session(store: clew.Store, log: Log) -> None:
    log.user("u1")
    inside = log.path.parent / SESSION / "subagents"
    agent = Log(inside / "agent-abc.jsonl", isSidechain=True, agentId="abc").user("x1", "do this")
    (inside / "agent-abc.meta.json").write_text('{"toolUseId": "t1"}')
    nested = Log(inside / "agent-def.jsonl", isSidechain=True, agentId="def").user("y1", "deeper")
    nested.path.with_suffix(".meta.json").write_text('{"parentAgentId": "abc"}')
    report = store.import_path(log.path)
    assert [session.source for session in report.sessions] == [
        str(log.path), str(agent.path), str(nested.path)
    ]  # fmt: skip
    child = store.get(f"{ID}/agent-abc").info
    assert (child.metadata["parent"], child.metadata["agent_meta"]) == (ID, {"toolUseId": "t1"})
    assert store.get(f"{ID}/agent-def").info.metadata["parent"] == f"{ID}/agent-abc"
    assert [event.data for event in store.get(ID).events()] == [{"session": f"{ID}/agent-abc"}]


@pytest.mark.parametrize("order", ["base first", "fork first"])
def test_a_fork_counts_its_own_calls_whether_its_base_comes_before_or_after(
    store: clew.Store, log: Log, order: str
) -> None:
    log.user("u1").model("a1", "m").model("a2", "later")
    other = "99999999-1111-4222-8333-444455556666"
    fork = Log(log.path.with_name(f"{other}.jsonl"), sessionId=other)
    copied: dict[str, Any] = {"forkedFrom": {"sessionId": SESSION, "messageUuid": "a1"}}
    fork.user("f1", **copied).model("f2", "m", **copied).model("f3", "own")
    files = [log.path, fork.path]
    for path in files if order == "base first" else files[::-1]:
        store.import_path(path)
    counted = {id: totals.calls for id, totals in store.usage(by="session").items()}
    assert counted == {ID: 2, f"claude-code:{other}": 1}
    assert store.get(f"claude-code:{other}").info.metadata["copied_from"] == ID


@pytest.mark.parametrize("name", ["gone", "../x", "", 7])
def test_a_fork_whose_base_is_not_here_counts_all_that_it_has(
    store: clew.Store, log: Log, name: str | int
) -> None:
    log.user("u1", forkedFrom={"sessionId": name}).model("a1", "m")
    assert bring(store, log).usage().calls == 1


def test_a_call_that_a_resumed_session_copied_counts_for_the_first(store: clew.Store, log: Log) -> None:
    log.user("u1").model("a1", "m")
    other = "00000000-1111-4222-8333-444455556666"
    copied = Log(log.path.with_name(f"{other}.jsonl"), sessionId=other)
    copied.count = 1
    copied.model("a1", "m").model("b1", "own")
    for _ in range(2):
        store.import_path(log.path.parent)
    assert {key: totals.calls for key, totals in store.usage(by="session").items()} == {
        ID: 1, f"claude-code:{other}": 1
    }  # fmt: skip


def test_file_history_is_kept_and_named_at_its_message(store: clew.Store, log: Log) -> None:
    log.user("u1")
    backups = {"src/a": {"backupFileName": "9f@v1", "version": 1}}
    snapshot = {"messageId": "u1", "trackedFileBackups": backups, "timestamp": "2025-06-01T10:00:01Z"}
    log.raw({"type": "file-history-snapshot", "messageId": "u1", "snapshot": snapshot})
    log.model("a1")
    session = bring(store, log)
    checkpoint = session.get_checkpoint("file-history:u1")
    assert checkpoint.head.position == 0
    (event,) = [event for event in session.events() if event.id == checkpoint.state["event"]]
    assert event.data["snapshot"]["trackedFileBackups"] == backups
    assert texts(session) == ["text of u1", "text of a1"]


TITLES: list[dict[str, Any]] = [
    {"type": "summary", "summary": "by summary", "leafUuid": "u1"},
    {"type": "last-prompt", "lastPrompt": "by last prompt", "leafUuid": "u1"},
    {"type": "ai-title", "aiTitle": "by model", "sessionId": SESSION},
    {"type": "custom-title", "customTitle": "by hand", "sessionId": SESSION},
]
OLDER: dict[str, Any] = {"type": "summary", "summary": "older", "leafUuid": "u1"}
ELSEWHERE: dict[str, Any] = {"type": "summary", "summary": "of another", "leafUuid": "elsewhere"}


@each_row(
    ("before", "behind", "title"),
    [
        ([], [], "text of u1"),
        ([], TITLES[:1], "by summary"),
        ([], TITLES[1::-1], "by last prompt"),
        ([], TITLES[2::-1], "by model"),
        ([], TITLES[3::-1], "by hand"),
        ([OLDER, {**TITLES[0], "leafUuid": "a1"}, ELSEWHERE], [], "by summary"),
        ([ELSEWHERE], [], "text of u1"),
    ],
)
def test_the_best_title_wins(tmp_path: Path, before: list[Any], behind: list[Any], title: str) -> None:
    with clew.open("memory:") as store:
        log = Log(tmp_path / f"{SESSION}.jsonl")
        for record in before:
            log.raw(record)
        log.user("u1").model("a1")
        for record in behind:
            log.raw(record)
        session = bring(store, log)
        assert session.info.title == title
        told = [event.type for event in session.events()]
        assert told == [record["type"] for record in [*before, *behind]]


def test_a_summary_in_the_file_of_a_later_session_is_the_title(store: clew.Store, log: Log) -> None:
    log.user("u1").model("a1")
    later = Log(log.path.with_name("99999999-1111-4222-8333-444455556666.jsonl"), sessionId="later")
    later.raw({"type": "summary", "summary": "by summary", "leafUuid": "a1"}).user("v1", "hello")
    store.import_path(log.path.parent)
    assert store.get(ID).info.title == "by summary"
    assert store.get("claude-code:99999999-1111-4222-8333-444455556666").info.title == "hello"


def test_a_file_with_nothing_but_titles_is_no_session(store: clew.Store, log: Log) -> None:
    log.raw({"type": "summary", "summary": "of another", "leafUuid": "elsewhere"})
    report = store.import_path(log.path)
    assert (report.sessions, report.ok) == ((), True)


def test_tags_are_tags(store: clew.Store, log: Log) -> None:
    session = bring(store, log.user("u1").raw({"type": "tag", "tag": "x", "sessionId": SESSION}))
    assert session.info.tags == ("x",)


def test_a_parent_that_is_lost_is_the_record_before(store: clew.Store, log: Log) -> None:
    log.user("u1").model("a1").user("u2", parentUuid="lost").model("a2")
    session = bring(store, log)
    assert texts(session) == [f"text of {uuid}" for uuid in ("u1", "a1", "u2", "a2")]
    assert list(session.entries())[2].annotations == {"parent_missing": "lost"}


def test_a_torn_last_line_is_listed_and_comes_when_it_is_whole(store: clew.Store, log: Log) -> None:
    log.user("u1").user("u2")
    whole = log.path.read_bytes()
    log.path.write_bytes(whole[:-20])
    (problem,) = store.import_path(log.path).problems
    assert (problem.line, "cut off" in problem.reason) == (2, True)
    log.path.write_bytes(whole)
    assert texts(bring(store, log)) == ["text of u1", "text of u2"]


@each_row(
    ("change", "problems", "said"),
    [
        (
            lambda raw: raw.replace(b"\n", b'\n{"parentUuid":"u1","message":{"content":[{"ty', 1),
            [2],
            ["abc", "u2"],
        ),
        (lambda raw: b"\xef\xbb\xbf" + raw.replace(b"\n", b"\r\n") + b"\0\0\0\n\n", [], ["abc", "u2"]),
        (lambda raw: raw.replace(b"abc", rb"half \ud83d of it"), [], ["half \ufffd of it", "u2"]),
        (lambda raw: raw.replace(b"abc", b"a\xffc"), [1], ["a\ufffdc", "u2"]),
    ],
    ids=["a record glued to a torn one", "odd line ends", "a lone surrogate", "bytes that are no text"],
)
def test_damage_costs_no_more_than_itself(
    tmp_path: Path, change: Callable[[bytes], bytes], problems: list[int], said: list[str]
) -> None:
    with clew.open("memory:") as store:
        log = Log(tmp_path / f"{SESSION}.jsonl").user("u1", "abc").user("u2", "u2")
        log.path.write_bytes(change(log.path.read_bytes()))
        assert [problem.line for problem in store.import_path(log.path).problems] == problems
        assert texts(store.get(ID)) == said


def test_unknown_records_are_kept_as_they_are(store: clew.Store, log: Log) -> None:
    log.user("u1").put("z1", "hologram", shape=[1, 2]).raw({"type": "mood", "value": 7}).user("u2")
    session = bring(store, log)
    assert texts(session) == ["text of u1", "text of u2"]
    assert [(event.type, event.data.get("shape", event.data.get("value"))) for event in session.events()] == [
        ("hologram", [1, 2]), ("mood", 7)
    ]  # fmt: skip


class TestConformance(ImporterConformance):
    reader = reader

    def write(self, place: Path) -> Path:
        log = Log(place / f"{SESSION}.jsonl")
        log.user("u1").model("a1", "m", "t1").model("a2", "m", "t2").result("r1", "t1", parentUuid="a1")
        log.user("x1", "do this", parentUuid=None, isSidechain=True)
        log.result("r2", "t2", parentUuid="a2").put("p1", "progress").user("u2").model("a3")
        log.user("u3", parentUuid="p1").model("a4")
        return log.path

    def grow(self, path: Path) -> None:
        log = Log(path)
        log.last, log.count = "a4", 20
        log.put("p2", "progress").user("u4").model("a5", "m2").user("u5", parentUuid="a4")
