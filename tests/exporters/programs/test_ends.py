"""Where a program goes on from is where the session stands, whatever else its file holds.

Each program finds the end of its conversation in its own way: the last line, the newest leaf, the order of
ids. Labels, titles, notices, sidechains and results that hang elsewhere must not become it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

import clew
from clew.core.messages.dialects import calls_of, dialect_of, results_of
from clew.exporters.programs.resuming import AGENTS, writer_of
from tests.support.rows import each_row

TIME = "2026-04-01T09:00:{:02d}.000Z"
OPENING = "00000000-0000-4000-8000-0000000000{:02x}"


def lines(records: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def words(message: dict[str, Any]) -> list[str]:
    """What is said, called and answered in a message, in order."""
    said = [part.text for part in dialect_of(message).parts(message) if part.kind == "text" and part.text]
    calls = [f"call {call.id}" for call in calls_of(message)]
    return [*said, *calls, *(f"result {call.id}" for call in results_of(message))]


# ── pi: the last line, and the parents above it ──────────────────────────────────────────────────


def pi_source(folder: Path) -> Path:
    def said(id: str, above: str | None, role: str, text: str) -> dict[str, Any]:
        message = {"role": role, "content": [{"type": "text", "text": text}]}
        return {
            "type": "message",
            "id": id,
            "parentId": above,
            "timestamp": TIME.format(1),
            "message": message,
        }

    def beside(kind: str, id: str, above: str | None, **more: Any) -> dict[str, Any]:
        return {"type": kind, "id": id, "parentId": above, "timestamp": TIME.format(2), **more}

    path = folder / "2026_x.jsonl"
    header = {
        "type": "session",
        "version": 3,
        "id": "11111111-2222",
        "timestamp": TIME.format(0),
        "cwd": "/w",
    }
    made = [
        header,
        beside("model_change", "m1", None, provider="p", modelId="m"),
        said("1", "m1", "user", "one"),
        said("2", "1", "assistant", "two"),
        beside("label", "l1", "2", targetId="2", label="here"),
        said("9", "1", "assistant", "elsewhere"),
        beside("label", "l2", "9", targetId="1", label="from another branch"),
        beside("session_info", "s1", "2", name="A title"),
        beside("custom", "c1", "2", customType="x", data={}),
        said("3", "l1", "user", "three"),
        said("4", "3", "assistant", "four"),
        beside("session_info", "s2", "4", name="A better title"),
    ]
    path.write_text(lines(made))
    return path


def pi_end(path: Path) -> list[str]:
    found = {record["id"]: record for record in records(path)[1:]}
    at: str | None = records(path)[-1]["id"]
    said: list[str] = []
    while at is not None:
        if found[at]["type"] == "message":
            said = [*words(found[at]["message"]), *said]
        at = found[at]["parentId"]
    return said


# ── Claude Code: the newest leaf of the main chain ───────────────────────────────────────────────


def claude_source(folder: Path) -> Path:
    session = OPENING.format(0)

    def record(number: int, above: int | None, kind: str, **more: Any) -> dict[str, Any]:
        return {
            "parentUuid": None if above is None else OPENING.format(above),
            "isSidechain": False,
            "cwd": "/w",
            "sessionId": session,
            "version": "2.1.63",
            "type": kind,
            "uuid": OPENING.format(number),
            "timestamp": TIME.format(number % 60),
            **more,
        }

    def answer(number: int, above: int, block: dict[str, Any], id: str) -> dict[str, Any]:
        said = {"id": id, "type": "message", "role": "assistant", "model": "m", "content": [block]}
        return record(number, above, "assistant", message={**said, "usage": {}, "stop_reason": None})

    def call(id: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": id, "name": "Bash", "input": {}}

    def result(number: int, above: int, id: str) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": id, "content": "ok"}
        return record(number, above, "user", message={"role": "user", "content": [block]})

    def text(words: str) -> dict[str, Any]:
        return {"type": "text", "text": words}

    path = folder / f"{session}.jsonl"
    made = [
        record(1, None, "user", message={"role": "user", "content": "one"}),
        record(2, 1, "attachment", attachment={"type": "hook_success"}),
        answer(3, 2, text("two"), "msg_1"),
        answer(4, 3, call("c1"), "msg_1"),
        answer(5, 4, call("c2"), "msg_1"),
        {**result(20, 3, "c9"), "isSidechain": True, "agentId": "a"},
        result(6, 5, "c2"),
        result(7, 4, "c1"),
        {"type": "summary", "summary": "A title", "leafUuid": OPENING.format(3)},
        record(8, 6, "user", message={"role": "user", "content": "three"}),
        record(9, 3, "system", subtype="informational", content="elsewhere"),
        answer(10, 8, text("four"), "msg_2"),
        answer(11, 10, call("c3"), "msg_2"),
        answer(12, 11, call("c4"), "msg_2"),
        result(13, 12, "c4"),
        result(14, 11, "c3"),
        record(15, 13, "system", subtype="turn_duration", durationMs=3),
        {"type": "custom-title", "customTitle": "A title", "sessionId": session},
        {"type": "last-prompt", "lastPrompt": "one", "leafUuid": OPENING.format(3), "sessionId": session},
    ]
    path.write_text(lines(made))
    return path


def claude_end(path: Path) -> list[str]:
    found = {record["uuid"]: record for record in records(path) if "parentUuid" in record}
    order = list(found)
    parents = {record["parentUuid"] for record in found.values()}
    leaves: list[str] = []
    for uuid in order:
        at: str | None = uuid
        while uuid not in parents and at is not None and found[at]["type"] not in ("user", "assistant"):
            at = found[at]["parentUuid"]
        if uuid not in parents and at is not None:
            leaves.append(at)
    plain = [uuid for uuid in leaves if not found[uuid].get("isMeta") and not found[uuid]["isSidechain"]]
    at = max(plain or leaves, key=order.index)
    chain: set[str] = set()
    while at is not None:
        chain.add(at)
        at = found[at]["parentUuid"]
    if any("forkedFrom" not in record for record in found.values()):
        chain |= beside_claude(found, chain)
    said = (found[uuid] for uuid in sorted(chain, key=order.index))
    return [text for one in said if one["type"] in ("user", "assistant") for text in words(one["message"])]


def beside_claude(found: dict[str, dict[str, Any]], chain: set[str]) -> set[str]:
    """Parallel calls of the answers on the chain, and their results. Versions before 2.1.80 lose them, so the
    chain of a copy holds everything itself."""
    answers = {found[uuid]["message"].get("id") for uuid in chain if "message" in found[uuid]} - {None}
    calls = {uuid for uuid in found if found[uuid].get("message", {}).get("id") in answers}
    results = {
        uuid
        for uuid in found
        if found[uuid]["parentUuid"] in calls
        and found[uuid]["type"] == "user"
        and not found[uuid]["isSidechain"]
        and words(found[uuid]["message"])[0].startswith("result")
    }
    return calls | results


# ── Codex: all lines, without the turns that a marker takes back ─────────────────────────────────


def codex_source(folder: Path) -> Path:
    id = OPENING.format(0)

    def item(**payload: Any) -> dict[str, Any]:
        return {"timestamp": TIME.format(1), "type": "response_item", "payload": payload}

    def event(**payload: Any) -> dict[str, Any]:
        return {"timestamp": TIME.format(1), "type": "event_msg", "payload": payload}

    def user(text: str) -> list[dict[str, Any]]:
        content = [{"type": "input_text", "text": text}]
        return [item(type="message", role="user", content=content), event(type="user_message", message=text)]

    def model(text: str) -> list[dict[str, Any]]:
        content = [{"type": "output_text", "text": text}]
        said = item(type="message", role="assistant", content=content)
        return [said, event(type="agent_message", message=text)]

    meta = {"id": id, "timestamp": TIME.format(0), "cwd": "/w", "originator": "x", "cli_version": "1"}
    path = folder / f"rollout-2026-04-01T09-00-00-{id}.jsonl"
    made = [
        {"timestamp": TIME.format(0), "type": "session_meta", "payload": meta},
        *user("one"),
        *model("two"),
        *user("elsewhere"),
        *model("elsewhere too"),
        event(type="thread_rolled_back", num_turns=1),
        *user("three"),
        *model("four"),
        event(type="thread_name_updated", thread_id=id, thread_name="A title"),
        event(type="token_count", info=None),
    ]
    path.write_text(lines(made))
    return path


def codex_end(path: Path) -> list[str]:
    turns: list[list[str]] = [[]]
    for record in records(path):
        payload = record["payload"]
        if record["type"] == "response_item" and payload.get("role") == "user":
            turns.append([])
        if record["type"] == "response_item":
            turns[-1] += words(payload)
        if payload.get("type") == "thread_rolled_back":
            del turns[-payload["num_turns"] :]
    return [text for turn in turns for text in turn]


# ── Gemini CLI: the messages that are left when all lines were applied ───────────────────────────


def gemini_source(folder: Path) -> Path:
    def said(id: str, kind: str, text: str) -> dict[str, Any]:
        content: Any = [{"text": text}] if kind == "user" else text
        return {"id": id, "timestamp": TIME.format(1), "type": kind, "content": content}

    path = folder / "session-2026-04-01T09-00-aaaaaaaa.jsonl"
    header = {"sessionId": "aaaaaaaa-1", "projectHash": "0" * 64, "startTime": TIME.format(0)}
    made = [
        {**header, "lastUpdated": TIME.format(0), "kind": "main"},
        said("m1", "user", "one"),
        said("m2", "gemini", "two"),
        said("m8", "user", "elsewhere"),
        said("m9", "gemini", "elsewhere too"),
        {"$rewindTo": "m8"},
        {"$set": {"summary": "A title"}},
        said("m3", "user", "three"),
        said("m4", "gemini", "four"),
        said("m5", "info", "a notice"),
        {"$set": {"lastUpdated": TIME.format(9)}},
    ]
    path.write_text(lines(made))
    return path


def gemini_end(path: Path) -> list[str]:
    left: dict[str, dict[str, Any]] = {}
    for record in records(path)[1:]:
        if "$rewindTo" in record:
            names = list(left)
            for name in names[names.index(record["$rewindTo"]) :]:
                del left[name]
        elif "messages" in record.get("$set", {}):
            left = {message["id"]: message for message in record["$set"]["messages"]}
        elif "$set" not in record:
            left[record["id"]] = record
    said: list[str] = []
    for message in left.values():
        if message["type"] in ("user", "gemini"):
            content = message["content"]
            parts = [{"text": content}] if isinstance(content, str) else content
            said += words({"role": "user", "parts": parts})
            said += [
                f"{what} {call['id']}" for call in message.get("toolCalls", []) for what in ("call", "result")
            ]
    return said


# ── OpenCode: the order of times and ids, without what a revert hides ────────────────────────────


def opencode_source(folder: Path) -> Path:
    def message(number: int, role: str, text: str, **more: Any) -> dict[str, Any]:
        id = f"msg_{number:03d}"
        part = {
            "type": "text",
            "text": text,
            "id": f"prt_{number:03d}",
            "sessionID": "ses_1",
            "messageID": id,
        }
        info = {"id": id, "sessionID": "ses_1", "role": role, "time": {"created": 1_775_034_000_000 + number}}
        return {"info": {**info, **more}, "parts": [part]}

    model = {"providerID": "p", "modelID": "m"}
    path = folder / "session.json"
    info = {
        "id": "ses_1",
        "directory": "/w",
        "title": "A title",
        "projectID": "global",
        "version": "1.18.0",
        "time": {"created": 1_775_034_000_000, "updated": 1_775_034_000_009},
        "revert": {"messageID": "msg_005"},
    }
    made = [
        message(1, "user", "one", model=model),
        message(2, "assistant", "two", parentID="msg_001", **model),
        message(3, "user", "three", model=model),
        message(4, "assistant", "four", parentID="msg_003", **model),
        message(5, "user", "elsewhere", model=model),
        message(6, "assistant", "elsewhere too", parentID="msg_005", **model),
    ]
    path.write_text(json.dumps({"info": info, "messages": made}))
    return path


def opencode_end(path: Path) -> list[str]:
    document = json.loads(path.read_text())
    hidden = (document["info"].get("revert") or {}).get("messageID", "~")
    ordered = sorted(document["messages"], key=lambda m: (m["info"]["time"]["created"], m["info"]["id"]))
    return [
        part["text"]
        for message in ordered
        if message["info"]["id"] < hidden
        for part in message["parts"]
        if part["type"] == "text"
    ]


# ── Those that read all from top to bottom ────────────────────────────────────────────────────────


def ggcode_source(folder: Path) -> Path:
    def said(role: str, text: str) -> dict[str, Any]:
        message = {"id": f"msg_{text}", "role": role, "content": [{"type": "text", "text": text}]}
        return {
            "type": "message",
            "session_id": "20260401-1",
            "message": message,
            "timestamp": TIME.format(1),
        }

    meta = {"type": "meta", "session_id": "20260401-1", "title": "A title", "workspace": "/w"}
    tunnel = {
        "type": "tunnel_event",
        "session_id": "20260401-1",
        "tunnel_event": {"event_id": "e", "data": {}},
    }
    path = folder / "20260401-1.jsonl"
    middle = [said("user", "one"), said("assistant", "two"), tunnel, {**meta, "title": "A better title"}]
    path.write_text(lines([meta, *middle, said("user", "three"), said("assistant", "four"), tunnel, meta]))
    return path


def ggcode_end(path: Path) -> list[str]:
    said = [record["message"] for record in records(path) if record["type"] == "message"]
    return [text for message in said for text in words(message)]


def picoclaw_source(folder: Path) -> Path:
    meta = {"key": "chat", "summary": "", "skip": 0, "count": 4, "aliases": ["other"]}
    (folder / "chat.meta.json").write_text(json.dumps(meta))
    said = zip(["user", "assistant"] * 2, ["one", "two", "three", "four"], strict=True)
    (folder / "chat.jsonl").write_text(lines({"role": role, "content": text} for role, text in said))
    return folder / "chat.jsonl"


def picoclaw_end(path: Path) -> list[str]:
    meta = json.loads(path.with_name("chat.meta.json").read_text())
    assert meta["count"] == len(records(path))
    return [text for message in records(path)[meta["skip"] :] for text in words(message)]


def ductwork_source(folder: Path) -> Path:
    said = zip(["user", "assistant"] * 2, ["one", "two", "three", "four"], strict=True)
    messages = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in said]
    run = {"run_id": "r-1", "task_name": "t", "iteration": 2, "messages": messages, "system_prompt": "p"}
    path = folder / "run-t-1772380000000.json"
    path.write_text(json.dumps({**run, "created_at": TIME.format(0)}))
    return path


def ductwork_end(path: Path) -> list[str]:
    return [text for message in json.loads(path.read_text())["messages"] for text in words(message)]


def openrouter_source(folder: Path) -> Path:
    said = zip(["user", "assistant"] * 2, ["one", "two", "three", "four"], strict=True)
    messages = [{"role": role, "content": text} for role, text in said]
    beside = [*messages[:2], {"role": "user", "content": "elsewhere"}]
    session = {
        "ID": "default",
        "CreatedAt": TIME.format(0),
        "UpdatedAt": TIME.format(9),
        "Messages": messages,
        "UserTurns": 2,
        "Checkpoints": {"default-u1": beside, "default-u2": messages[:1]},
        "FileCheckpoints": {},
    }
    path = folder / "state.json"
    path.write_text(json.dumps({"sessions": {"default": session}, "fork_counters": {}}))
    return path


def openrouter_end(path: Path) -> list[str]:
    sessions = json.loads(path.read_text())["sessions"]
    (session,) = sessions.values()
    return [text for message in session["Messages"] for text in words(message)]


def tingly_source(folder: Path) -> Path:
    path = folder / "tingly.db"
    db = sqlite3.connect(path)
    db.executescript(
        "CREATE TABLE remote_cc_sessions (id TEXT PRIMARY KEY, status TEXT NOT NULL, request TEXT,"
        " response TEXT, error TEXT, created_at TEXT NOT NULL, last_activity TEXT NOT NULL,"
        " expires_at TEXT NOT NULL, context TEXT);"
        "CREATE TABLE remote_cc_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,"
        " role TEXT NOT NULL, content TEXT NOT NULL, summary TEXT, timestamp TEXT NOT NULL);"
    )
    row = ("s1", "completed", "", "", "", TIME.format(0), TIME.format(9), TIME.format(9), "{}")
    db.execute("INSERT INTO remote_cc_sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    said = zip(["user", "assistant"] * 2, ["one", "two", "three", "four"], strict=True)
    for number, (role, text) in enumerate(said):
        message = ("s1", role, text, "elsewhere", TIME.format(number))
        db.execute("INSERT INTO remote_cc_messages VALUES (NULL, ?, ?, ?, ?, ?)", message)
    db.commit()
    db.close()
    return path


def tingly_end(path: Path) -> list[str]:
    db = sqlite3.connect(path)
    found = [text for (text,) in db.execute("SELECT content FROM remote_cc_messages ORDER BY id")]
    db.close()
    return found


class Program(NamedTuple):
    source: Callable[[Path], Path]
    end: Callable[[Path], list[str]]


PROGRAMS = {
    "pi": Program(pi_source, pi_end),
    "claude-code": Program(claude_source, claude_end),
    "codex": Program(codex_source, codex_end),
    "gemini-cli": Program(gemini_source, gemini_end),
    "opencode": Program(opencode_source, opencode_end),
    "ggcode": Program(ggcode_source, ggcode_end),
    "picoclaw": Program(picoclaw_source, picoclaw_end),
    "ductwork": Program(ductwork_source, ductwork_end),
    "openrouter": Program(openrouter_source, openrouter_end),
    "tingly-box": Program(tingly_source, tingly_end),
}


def imported(store: clew.Store, name: str, folder: Path) -> clew.Session:
    place = folder / "source"
    place.mkdir()
    report = store.import_path(PROGRAMS[name].source(place), format=name)
    assert report.ok
    (loaded,) = (session for session in report.sessions if "agent-" not in session.id)
    return store.get(loaded.id)


def expected(s: clew.Session) -> list[str]:
    """What is said on the path. Notices are shown to a person, and no program goes on from them."""
    return [
        text
        for entry in s.entries()
        if entry.kind == "message" and "notice" not in str(entry.message)
        for text in words(entry.message)
    ]


def stays(s: clew.Session) -> clew.Session:
    return s


def goes_on(s: clew.Session) -> clew.Session:
    s.append({"role": "user", "content": "five"}, {"role": "assistant", "content": "six"})
    return s


def place_of(s: clew.Session, text: str) -> clew.Entry:
    return next(entry for entry in s.entries() if entry.kind == "message" and text in words(entry.message))


def is_rewound(s: clew.Session) -> clew.Session:
    s.rewind(place_of(s, "three"))
    return s


def is_rewound_and_goes_on(s: clew.Session) -> clew.Session:
    return goes_on(is_rewound(s))


def is_renamed(s: clew.Session) -> clew.Session:
    s.update(title="Another title")
    return s


def is_forked(s: clew.Session) -> clew.Session:
    return goes_on(s.fork(at=place_of(s, "three")))


CHANGES = [stays, goes_on, is_rewound, is_rewound_and_goes_on, is_renamed, is_forked]


def target_of(name: str, folder: Path) -> Path:
    out = folder / "out"
    out.mkdir()
    return out / {"picoclaw": "chat.jsonl", "tingly-box": "out.db"}.get(name, "out.jsonl")


@pytest.fixture
def resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[clew.Store, str, str], Path]:
    """The file of a copy that was written for an agent."""
    monkeypatch.setenv("PATH", str(tmp_path))  # OpenCode would import the document itself

    def write(store: clew.Store, id: str, agent: str) -> Path:
        home = tmp_path / "home"
        writer = writer_of(agent)
        written = writer.write_session(store, id, at=None, home=home, workspace=str(tmp_path), new_id=None)
        return written.paths[0]

    return write


@each_row("change", CHANGES, ids=[change.__name__ for change in CHANGES])
@each_row("name", list(PROGRAMS))
def test_the_end_of_an_exported_file_is_where_the_session_stands(
    tmp_path: Path, name: str, change: Callable[[clew.Session], clew.Session]
) -> None:
    with clew.open("memory:") as store:
        s = change(imported(store, name, tmp_path))
        path = Path(store.export(s.id, cast("Any", name), path=target_of(name, tmp_path)))
        assert PROGRAMS[name].end(path) == expected(s)


@each_row("change", CHANGES, ids=[change.__name__ for change in CHANGES])
@each_row("name", list(AGENTS))
def test_an_agent_that_resumes_a_copy_goes_on_where_the_session_stands(
    tmp_path: Path,
    resumed: Callable[[clew.Store, str, str], Path],
    name: str,
    change: Callable[[clew.Session], clew.Session],
) -> None:
    with clew.open("memory:") as store:
        s = change(imported(store, name, tmp_path))
        assert PROGRAMS[name].end(resumed(store, s.id, name)) == expected(s)


@each_row("to", list(AGENTS))
@each_row("name", list(PROGRAMS))
def test_a_session_of_another_agent_ends_where_it_stands_too(
    tmp_path: Path, resumed: Callable[[clew.Store, str, str], Path], name: str, to: str
) -> None:
    with clew.open("memory:") as store:
        s = goes_on(imported(store, name, tmp_path))
        said = [text for text in PROGRAMS[to].end(resumed(store, s.id, to)) if " " not in text]
        assert said == [text for text in expected(s) if " " not in text]
