"""Codex CLI: every trap of its rollouts, each with a small file of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import clew
from clew.importers.programs.codex import reader as codex
from clew.testing.importer import ImporterConformance
from tests.support.rows import each_row

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

THREAD = "01990000-aaaa-7bbb-8ccc-000000000001"
OTHER = "01990000-aaaa-7bbb-8ccc-000000000002"
ID = f"codex:{THREAD}"
CHILD = f"codex:{OTHER}"


class Rollout:
    """A rollout, line by line, one second apart."""

    def __init__(self, home: Path, thread: str = THREAD, *, name: str | None = None, **meta: Any) -> None:
        folder = home / "sessions" / "2025" / "09" / "01"
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"rollout-2025-09-01T10-00-00-{name or thread}.jsonl"
        self.count = 0
        given = {"id": thread, "timestamp": "2025-09-01T10:00:00Z", "cwd": "/w", "cli_version": "0.128.0"}
        self.put("session_meta", {**given, "model_provider": "openai", **meta})

    def put(self, kind: str, payload: dict[str, Any], **more: Any) -> Rollout:
        self.count += 1
        at = f"2025-09-01T10:{self.count // 60:02d}:{self.count % 60:02d}.000Z"
        return self.raw({"timestamp": at, "type": kind, "payload": payload} | more)

    def raw(self, record: dict[str, Any]) -> Rollout:
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        return self

    def user(self, text: str, **more: Any) -> Rollout:
        content = [{"type": "input_text", "text": text}]
        self.put("response_item", {"type": "message", "role": "user", "content": content}, **more)
        return self.event("user_message", message=text)

    def model(self, text: str, **more: Any) -> Rollout:
        content = [{"type": "output_text", "text": text}]
        self.put("response_item", {"type": "message", "role": "assistant", "content": content}, **more)
        return self.event("agent_message", message=text)

    def event(self, kind: str, **payload: Any) -> Rollout:
        return self.put("event_msg", {"type": kind, **payload})

    def tokens(self, whole: int, cached: int, output: int, reasoning: int, **more: Any) -> Rollout:
        total = {
            "input_tokens": whole,
            "cached_input_tokens": cached,
            "output_tokens": output,
            "reasoning_output_tokens": reasoning,
            "total_tokens": whole + output,
        }
        info = {"total_token_usage": total, "last_token_usage": total}
        return self.put("event_msg", {"type": "token_count", "info": info}, **more)


def bring(store: clew.Store, rollout: Rollout, id: str = ID) -> clew.Session:
    assert store.import_path(rollout.path).ok
    again = store.import_path(rollout.path)
    assert (again.entries, again.unchanged) == (0, 1)
    return store.get(id)


def texts(session: clew.Session) -> list[str]:
    return [message["content"][0]["text"] for message in session.messages() if "content" in message]


def test_the_story_is_told_once(store: clew.Store, tmp_path: Path) -> None:
    rollout = Rollout(tmp_path).put("turn_context", {"model": "gpt-5", "cwd": "/w"}).user("hi").model("hello")
    session = bring(store, rollout)
    assert texts(session) == ["hi", "hello"]
    info = session.info
    assert (info.model, info.vendor, info.workspace_given, info.title) == ("gpt-5", "openai", "/w", "hi")
    assert info.created_at.isoformat() == "2025-09-01T10:00:00+00:00"
    assert info.metadata["codex"]["cli_version"] == "0.128.0"
    assert [event.type for event in session.events()] == [
        "session_meta", "turn_context", "event_msg.user_message", "event_msg.agent_message"
    ]  # fmt: skip
    assert store.get(THREAD).id == ID


def test_items_are_kept_whole(store: clew.Store, tmp_path: Path) -> None:
    items: list[dict[str, Any]] = [
        {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "name": "exec", "arguments": "{}", "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": "done"},
        {"type": "something_new", "value": 1},
    ]
    rollout = Rollout(tmp_path)
    for item in items:
        rollout.put("response_item", item)
    rollout.put("response_item", {"type": "ghost_snapshot", "ghost_commit": {}})
    assert bring(store, rollout).messages() == items


@each_row(
    "text",
    [
        "# AGENTS.md instructions for /w\n\nbe good",
        "<environment_context>\n<cwd>/w</cwd>\n</environment_context>",
        "<turn_aborted>\nby the user\n</turn_aborted>",
        "<user_instructions>x</user_instructions>",
    ],
)
def test_fragments_that_the_program_put_in_are_nobodys_words(tmp_path: Path, text: str) -> None:
    with clew.open("memory:") as store:
        session = bring(store, Rollout(tmp_path).user(text).user("mine"))
        assert [entry.injected for entry in session.entries()] == [True, False]
        assert session.info.title == "mine"


def rolled_back(rollout: Rollout, turns: int) -> Rollout:
    return rollout.event("thread_rolled_back", num_turns=turns)


def a_rollback(rollout: Rollout) -> Rollout:
    rollout.user("one").model("1").user("two").model("2").user("three").model("3")
    return rolled_back(rollout, 2).user("again").model("4")


def only_what_people_said(rollout: Rollout) -> Rollout:
    rollout.user("one").model("1").user("two").user("<environment_context>x</environment_context>")
    return rolled_back(rollout.model("2"), 1)


def what_was_rolled_back_already(rollout: Rollout) -> Rollout:
    return rolled_back(rolled_back(rollout.user("one").user("two"), 1).user("three"), 2).user("four")


def more_than_there_is(rollout: Rollout) -> Rollout:
    return rolled_back(rollout.user("one"), 9).user("anew")


def to_nothing(rollout: Rollout) -> Rollout:
    return rolled_back(rollout.user("one"), 1)


@each_row(
    ("write", "left", "ends"),
    [
        (a_rollback, ["one", "1", "again", "4"], [(0, 5), (2, 3)]),
        (only_what_people_said, ["one", "1"], [(0, 4)]),
        (what_was_rolled_back_already, ["four"], [(0, 0), (0, 1), (1, 1)]),
        (more_than_there_is, ["anew"], [(0, 0), (0, 0)]),
        (to_nothing, [], [(0, 0)]),
    ],
)
def test_a_rollback_counts_turns_that_people_began_and_leaves_them_on_a_branch(
    tmp_path: Path, write: Callable[[Rollout], Rollout], left: list[str], ends: list[tuple[int, int]]
) -> None:
    with clew.open("memory:") as store:
        session = bring(store, write(Rollout(tmp_path)))
        assert texts(session) == left
        branches = [branch for branch in session.tree().branches if branch.last >= branch.first]
        assert sorted((branch.first, branch.last) for branch in branches) == ends


@each_row("told", ["replacement_history", "message"])
def test_a_compaction_replaces_the_context_and_keeps_the_history(tmp_path: Path, told: str) -> None:
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "short"}]}]
    more = {"replacement_history": history} if told == "replacement_history" else {}
    with clew.open("memory:") as store:
        rollout = Rollout(tmp_path).user("one").model("1")
        session = bring(store, rollout.put("compacted", {"message": "short", **more}).user("two"))
        assert texts(session) == ["one", "1", "two"]
        assert [message["content"][0]["text"] for message in session.context()] == ["short", "two"]


def test_tokens_are_those_of_the_last_counter_however_often_it_is_told(
    store: clew.Store, tmp_path: Path
) -> None:
    rollout = Rollout(tmp_path).put("turn_context", {"model": "gpt-5"}).user("one")
    rollout.tokens(10, 4, 2, 1).tokens(10, 4, 2, 1).model("1").tokens(30, 14, 9, 3)
    totals = bring(store, rollout).usage()
    assert (totals.calls, totals.input_tokens, totals.cache_read_tokens) == (2, 30, 14)
    assert (totals.output_tokens, totals.reasoning_tokens) == (9, 3)
    assert set(store.usage(by="model")) == {"gpt-5"}


def test_a_fork_that_names_its_base_has_the_history_of_it(store: clew.Store, tmp_path: Path) -> None:
    base = Rollout(tmp_path)
    for ordinal, text in enumerate(["one", "two", "three"]):
        content = [{"type": "input_text", "text": text}]
        base.put("response_item", {"type": "message", "role": "user", "content": content}, ordinal=ordinal)
    base.tokens(10, 0, 5, 0, ordinal=3)
    reference = {"thread_id": THREAD, "end_ordinal_exclusive": 2, "end_byte_offset": 10**6}
    fork = Rollout(tmp_path, OTHER, forked_from_id=THREAD, history_base=reference).user("mine")
    session = bring(store, fork, f"codex:{OTHER}")
    assert texts(session) == ["one", "two", "mine"]
    assert session.usage().calls == 0


def test_a_thread_that_was_reverted_is_a_session_beside_it(store: clew.Store, tmp_path: Path) -> None:
    Rollout(tmp_path).user("one").user("two")
    size = len(Rollout(tmp_path / "x").user("one").path.read_bytes())
    reference = {"thread_id": THREAD, "end_byte_offset": size}
    Rollout(tmp_path, name=f"{THREAD}_r2", history_base=reference).user("other")
    store.import_path(tmp_path / "sessions")
    assert texts(store.get(ID)) == ["one", "two"]
    assert texts(store.get(f"{ID}_r2")) == ["one", "other"]
    assert store.get(f"{ID}_r2").info.metadata["copied_from"] == ID


def test_a_base_that_is_not_here_is_listed_and_the_rest_read(store: clew.Store, tmp_path: Path) -> None:
    fork = Rollout(tmp_path, OTHER, history_base={"thread_id": THREAD, "end_ordinal_exclusive": 2})
    (problem,) = store.import_path(fork.user("mine").path).problems
    assert (problem.line, THREAD in problem.reason) == (1, True)
    assert texts(store.get(f"codex:{OTHER}")) == ["mine"]


def test_a_subagent_is_linked_and_its_orders_are_no_persons_words(store: clew.Store, tmp_path: Path) -> None:
    Rollout(tmp_path).user("one")
    source = {"subagent": {"thread_spawn": {"parent_thread_id": THREAD, "depth": 1}}}
    Rollout(tmp_path, OTHER, source=source).user("do this")
    store.import_path(tmp_path / "sessions")
    child = store.get(f"codex:{OTHER}")
    assert child.info.parent == ID
    assert [entry.injected for entry in child.entries()] == [True]
    assert [event.data for event in store.get(ID).events()][-1] == {"session": child.id}


@each_row("order", ["parent first", "child first"])
@each_row("kind", ["subagent", "copy", "reference"])
def test_a_child_counts_its_own_calls_whether_its_parent_comes_before_or_after(
    tmp_path: Path, order: str, kind: str
) -> None:
    with clew.open("memory:") as store:
        parent = Rollout(tmp_path).user("one").model("1").tokens(100, 0, 10, 0)
        files = [parent.path, _child(tmp_path, kind).path]
        for path in files if order == "parent first" else files[::-1]:
            store.import_path(path)
        for path in files:
            store.import_path(path)
        counted = [(store.get(id).usage().calls, store.get(id).usage().input_tokens) for id in (ID, CHILD)]
        assert counted == [(1, 100), (1, 7)]


def _child(home: Path, kind: str) -> Rollout:
    """A rollout with one call of its own: its counter stands where that of the parent's line does."""
    if kind == "subagent":
        source = {"subagent": {"thread_spawn": {"parent_thread_id": THREAD, "depth": 1}}}
        return Rollout(home, OTHER, source=source).user("do this").model("done").tokens(7, 0, 1, 0)
    spent = {"input_tokens": 107, "output_tokens": 11}
    info = {"total_token_usage": spent, "last_token_usage": {"input_tokens": 7, "output_tokens": 1}}
    if kind == "reference":
        base = {"thread_id": THREAD, "end_byte_offset": 10**6}
        fork = Rollout(home, OTHER, forked_from_id=THREAD, history_base=base).user("two").model("2")
    else:
        born = {"timestamp": "2025-09-01T10:00:01.000Z"}
        fork = Rollout(home, OTHER, forked_from_id=THREAD)
        fork.put("session_meta", {"id": THREAD}, **born).user("one", **born).tokens(100, 0, 10, 0, **born)
        fork.user("two").model("2")
    return fork.event("token_count", info=info)


def test_a_call_belongs_to_the_vendor_of_its_thread(store: clew.Store, tmp_path: Path) -> None:
    session = bring(store, Rollout(tmp_path, model_provider="ollama").user("one").tokens(7, 0, 1, 0))
    assert (session.info.vendor, set(store.usage(by="vendor"))) == ("ollama", {"ollama"})


def test_a_compressed_rollout_is_the_same_session(store: clew.Store, tmp_path: Path) -> None:
    rollout = Rollout(tmp_path).user("one")
    bring(store, rollout)
    packed = rollout.path.with_name(rollout.path.name + ".zst")
    packed.write_bytes(zstd.compress(rollout.user("two").path.read_bytes()))
    rollout.path.unlink()
    report = store.import_path(packed)
    assert (report.grown, report.entries, report.ok) == (1, 1, True)
    assert texts(store.get(ID)) == ["one", "two"]


def test_a_compressed_rollout_that_is_cut_off_is_read_as_far_as_it_goes(
    store: clew.Store, tmp_path: Path
) -> None:
    rollout = Rollout(tmp_path).user("one")
    packed = rollout.path.with_name(rollout.path.name + ".zst")
    whole = zstd.compress(rollout.path.read_bytes()) + zstd.compress(b'{"type": "x"}\n' * 9)
    packed.write_bytes(whole[:-12])
    report = store.import_path(packed)
    assert len(report.problems) == 1
    assert texts(store.get(ID)) == ["one"]


def test_a_name_in_the_index_is_the_title(store: clew.Store, tmp_path: Path) -> None:
    rollout = Rollout(tmp_path).user("one")
    names = [{"id": THREAD, "thread_name": "first"}, {"id": THREAD, "thread_name": "last"}]
    (tmp_path / "session_index.jsonl").write_text("\n".join(map(json.dumps, names)) + "\n{torn")
    assert bring(store, rollout).info.title == "last"


def test_the_first_rollouts_had_bare_items(store: clew.Store, tmp_path: Path) -> None:
    path = tmp_path / "rollout-2025-04-01-x.jsonl"
    content = [{"type": "input_text", "text": "hi"}]
    lines: list[dict[str, Any]] = [
        {"id": THREAD, "timestamp": "2025-04-01T10:00:00Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": content},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    assert store.import_path(path).ok
    assert store.get(ID).messages() == [lines[-1]]


class TestConformance(ImporterConformance):
    reader = codex

    def write(self, place: Path) -> Path:
        rollout = Rollout(place).put("turn_context", {"model": "gpt-5"}).user("one").model("1")
        rollout.tokens(10, 4, 2, 1).user("two").model("2").event("thread_rolled_back", num_turns=1)
        return rollout.put("compacted", {"message": "short"}).user("three").path

    def grow(self, path: Path) -> None:
        rollout = Rollout(path.parent / "other").model("3").tokens(30, 4, 9, 2)
        lines = rollout.path.read_text().splitlines(keepends=True)[1:]
        path.write_text(path.read_text() + "".join(lines))


def test_what_another_agent_wrote_is_text_that_is_shown_and_found(store: clew.Store, tmp_path: Path) -> None:
    """Codex keeps it as an item of its own, or as a line of its own. No person said it, and the same words
    for the screen are no second message."""
    rollout = Rollout(tmp_path).user("Review it.")
    said = [{"type": "input_text", "text": "Found one leak."}]
    sealed = {"type": "encrypted_content", "encrypted_content": "gAAAA"}
    about = {"author": "/root/review", "recipient": "/root"}
    rollout.put("response_item", {"type": "agent_message", **about, "content": [*said, sealed]})
    rollout.event("agent_message", message="Found one leak.")
    told = {**about, "other_recipients": [], "content": "And a race.", "trigger_turn": True}
    rollout.put("inter_agent_communication", told).model("I fix both.")
    s = bring(store, rollout)
    (first,) = store.search("leak").hits
    (second,) = store.search("race").hits
    assert (first.role, second.role) == ("other", "other")
    assert s.info.user_turns == 1
    page = store.export(s.id, "markdown")
    assert page.count("> Found one leak.") == 1
    assert page.count("> And a race.") == 1
    assert "gAAAA" not in page
    sent = [item for item in s.context() if item["type"] == "agent_message"]
    assert [item["content"][0]["text"] for item in sent] == ["Found one leak.", "And a race."]
    assert sent[1]["author"] == "/root/review"


def test_a_rollback_takes_a_turn_that_another_agent_began(store: clew.Store, tmp_path: Path) -> None:
    rollout = Rollout(tmp_path).user("one").model("two")
    rollout.put("inter_agent_communication", {"author": "/root/a", "content": "three"}).model("four")
    rollout.event("thread_rolled_back", num_turns=1)
    rollout.user("five")
    s = bring(store, rollout)
    assert texts(s) == ["one", "two", "five"]


def test_what_another_agent_wrote_goes_back_to_codex_as_it_was(store: clew.Store, tmp_path: Path) -> None:
    rollout = Rollout(tmp_path).user("one")
    told = {"author": "/root/a", "recipient": "/root", "content": "two"}
    said = [{"type": "input_text", "text": "three"}]
    item = {"type": "agent_message", "author": "/root/a", "content": said}
    rollout.put("inter_agent_communication", told).put("response_item", item).model("four")
    s = bring(store, rollout)
    s.append({"role": "user", "content": "five"})
    made = [json.loads(line) for line in store.export(s.id, "codex").splitlines()]
    assert [one["payload"] for one in made if one["type"] == "inter_agent_communication"] == [told]
    assert item in [one["payload"] for one in made]
