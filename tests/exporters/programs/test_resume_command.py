"""The commands with which agents go on with their sessions."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
from blake3 import blake3

import clew
from clew.exporters.programs.resume_command import clew_in, resume_of, resumes_in
from clew.exporters.programs.resuming import Written, unused_copy
from tests.support.rows import each_row


def info_of(id: str, **settings: object) -> clew.SessionInfo:
    with clew.open("memory:") as store:
        return store.create(id, **settings).info  # type: ignore[arg-type]


PARENT = {"metadata": {"parent": "claude-code:0b1c"}}


@each_row(
    ("id", "settings", "command"),
    [
        ("claude-code:0b1c-2d3e", {}, "claude --resume 0b1c-2d3e"),
        ("codex:019a-7c1d", {}, "codex resume 019a-7c1d"),
        ("codex:019a-7c1d_019b", {}, "codex resume 019a-7c1d"),
        ("gemini-cli:0b1c", {}, "gemini --resume 0b1c"),
        ("ggcode:0b1c", {}, "ggcode --resume 0b1c"),
        ("goose:20251108_2", {}, "goose session --resume --session-id 20251108_2"),
        ("llm:01hq", {}, "llm chat --cid 01hq"),
        ("opencode:ses_1", {}, "opencode -s ses_1"),
        ("pi:0b1c", {}, "pi --session 0b1c"),
        ("claude-code:0b1c", {"workspace": "/srv/my shop"}, "cd '/srv/my shop' && claude --resume 0b1c"),
        ("claude-code:0b1c/agent-7", PARENT, "claude --resume 0b1c"),
        ("claude-code:9999", PARENT, "claude --resume 0b1c"),
    ],
)
def test_each_agent_has_its_own_command(id: str, settings: dict[str, object], command: str) -> None:
    found = resume_of(info_of(id, **settings))
    assert found.command == command
    assert ("parent" in found.note) is (settings is PARENT)


@each_row(
    ("id", "options", "command", "note"),
    [
        ("login-bug", {}, None, ""),
        ("strands:a", {}, None, ""),
        ("claude-code:", {}, None, ""),
        ("claude-code:-x", {}, None, ""),
        ("codex:019a", {"is_changed": True}, "clew resume codex:019a", "changed in Clew"),
        ("claude-code:0b1c", {"is_gone": True}, "clew resume claude-code:0b1c", "not there"),
        ("goose:1", {"is_changed": True}, None, "--in codex"),
        ("goose:1", {"is_lost": True}, None, "--directory . goose:1 --in codex"),
        ("codex:019a", {"is_lost": True, "at": "3"}, "clew resume --directory . codex:019a@3", "is gone"),
        (
            "claude-code:0b1c",
            {"at": "30", "clew": clew_in("/srv/my store.db")},
            "clew --store '/srv/my store.db' resume claude-code:0b1c@30",
            "from there",
        ),
    ],
)
def test_what_goes_on_in_a_copy_or_not_at_all_says_why(
    id: str, options: dict[str, Any], command: str | None, note: str
) -> None:
    found = resume_of(info_of(id), **options)
    assert found.command == command
    assert found.note
    assert note in found.note


def test_a_fork_made_here_is_unknown_to_its_agent(store: clew.Store) -> None:
    fork = store.create("claude-code:0b1c").fork()
    found = resume_of(fork.info)
    assert found.command == f"clew resume {fork.id}"
    assert "gets a copy" in found.note


def test_an_id_from_elsewhere_is_one_word_for_a_shell(tmp_path: Path) -> None:
    hostile = ["x;touch evil", "x$(touch evil)", "x'`touch evil`'", "x\ntouch evil", "x&&y"]
    commands = [resume_of(info_of(f"claude-code:{id}", workspace=str(tmp_path))).command for id in hostile]
    shown = "\n".join(str(command).replace("claude", "printf '<%s>'", 1) for command in commands)
    done = subprocess.run(["bash", "-ec", shown], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "".join(f"<--resume><{id}>" for id in hostile)
    assert not list(tmp_path.iterdir())


def test_other_agents_get_a_copy() -> None:
    assert resumes_in(info_of("-x"))["codex"] == "clew resume --in codex -- -x"
    assert list(resumes_in(info_of("a"), at="b")) == ["claude-code", "codex", "gemini-cli", "opencode", "pi"]


@each_row("workspace", ["/srv/a\x1b[201~b", "/srv/a\tb", "/srv/\u202eb"])
def test_no_command_holds_what_acts_on_a_terminal(workspace: str) -> None:
    found = resume_of(info_of("claude-code:0b1c", workspace=workspace))
    assert found.command is None
    assert "act on a terminal" in found.note


@each_row(
    "told",
    [
        {"path": "/dev/zero"},
        {"path": "{folder}/of-somebody-else.jsonl"},
        {"path": "{folder}/link-{id}.jsonl"},
        {"path": "a\0b"},
        {"size": -1},
        {"session_hash": "0" * 64},
        {"id": "--dangerous"},
    ],
)
def test_a_store_cannot_pass_another_file_for_a_copy_that_nobody_used(
    tmp_path: Path, told: dict[str, Any]
) -> None:
    content = b"what was said"
    own = told.get("id", "0123456789")
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    with clew.open("memory:") as store:
        session = store.create("s")
        session.append({"role": "user", "content": "hi"})
        for name in (f"{own}.jsonl", "of-somebody-else.jsonl"):
            (folder / name).write_bytes(content)
        (folder / f"link-{own}.jsonl").symlink_to(folder / f"{own}.jsonl")
        honest = {
            "path": str(folder / f"{own}.jsonl"),
            "size": len(content),
            "hash": blake3(content).hexdigest(),
            "session_hash": session.info.hash,
            "directory": "/w",
            "time": 0,
        }

        def found(record: dict[str, Any]) -> Written | None:
            value = msgspec.json.encode(record)
            sid = session._access.sid
            session._engine.run(lambda tx: tx.put_record(sid, "source", f"copy:codex:{own}", value))
            return unused_copy(store, "s", "codex", at=None, directory="/w")

        if "id" not in told:
            right = found(honest)
            assert right is not None
            assert right.command == ["codex", "resume", own]
        path = str(told.get("path", honest["path"])).format(folder=folder, id=own)
        assert found({**honest, **told, "path": path}) is None
