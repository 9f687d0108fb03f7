"""The commands with which agents go on with their sessions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import clew
from clew.exporters.programs.resume_command import clew_in, resume_of, resumes_in
from tests.support.rows import each_row


def info_of(id: str, **settings: object) -> clew.SessionInfo:
    with clew.open("memory:") as store:
        return store.create(id, **settings).info  # type: ignore[arg-type]


@each_row(
    ("id", "command"),
    [
        ("claude-code:0b1c-2d3e", "claude --resume 0b1c-2d3e"),
        ("codex:019a-7c1d", "codex resume 019a-7c1d"),
        ("codex:019a-7c1d_019b", "codex resume 019a-7c1d"),
        ("gemini-cli:0b1c", "gemini --resume 0b1c"),
        ("ggcode:0b1c", "ggcode --resume 0b1c"),
        ("goose:20251108_2", "goose session --resume --session-id 20251108_2"),
        ("llm:01hq", "llm chat --cid 01hq"),
        ("opencode:ses_1", "opencode -s ses_1"),
        ("pi:0b1c", "pi --session 0b1c"),
    ],
)
def test_each_agent_has_its_own_command(id: str, command: str) -> None:
    assert resume_of(info_of(id)).command == command


def test_it_goes_to_the_directory_of_the_session_first() -> None:
    info = info_of("claude-code:0b1c", workspace="/srv/my shop")
    assert resume_of(info).command == "cd '/srv/my shop' && claude --resume 0b1c"


@each_row("id", ["claude-code:0b1c/agent-7", "claude-code:9999"])
def test_a_subagent_goes_on_by_its_parent(id: str) -> None:
    found = resume_of(info_of(id, metadata={"parent": "claude-code:0b1c"}))
    assert found.command == "claude --resume 0b1c"
    assert "parent" in found.note


@each_row("id", ["login-bug", "strands:a", "claude-code:", "claude-code:-x"])
def test_without_a_command_a_note_says_why(id: str) -> None:
    found = resume_of(info_of(id))
    assert found.command is None
    assert found.note


def test_a_fork_made_here_is_unknown_to_its_agent(store: clew.Store) -> None:
    fork = store.create("claude-code:0b1c").fork()
    found = resume_of(fork.info)
    assert found.command == f"clew resume {fork.id}"
    assert "gets a copy" in found.note


def test_what_was_changed_here_goes_on_in_a_copy() -> None:
    found = resume_of(info_of("codex:019a", workspace="/w"), is_changed=True)
    assert found.command == "clew resume codex:019a"
    assert "changed in Clew" in found.note


def test_an_id_from_elsewhere_is_one_word_for_a_shell(tmp_path: Path) -> None:
    hostile = ["x;touch evil", "x$(touch evil)", "x'`touch evil`'", "x\ntouch evil", "x&&y"]
    commands = [resume_of(info_of(f"claude-code:{id}", workspace=str(tmp_path))).command for id in hostile]
    shown = "\n".join(str(command).replace("claude", "printf '<%s>'", 1) for command in commands)
    done = subprocess.run(["bash", "-ec", shown], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "".join(f"<--resume><{id}>" for id in hostile)
    assert not list(tmp_path.iterdir())


def test_a_place_and_a_store_are_part_of_the_command() -> None:
    info = info_of("claude-code:0b1c")
    found = resume_of(info, at="30", clew=clew_in("/srv/my store.db"))
    assert found.command == "clew --store '/srv/my store.db' resume claude-code:0b1c@30"
    assert "from there" in found.note


def test_a_session_whose_file_is_gone_goes_on_in_a_copy() -> None:
    found = resume_of(info_of("claude-code:0b1c"), is_gone=True)
    assert found.command == "clew resume claude-code:0b1c"
    assert "not there" in found.note


def test_an_agent_that_takes_no_copy_gets_no_command_that_fails() -> None:
    found = resume_of(info_of("goose:1"), is_changed=True)
    assert found.command is None
    assert "--in codex" in found.note


def test_other_agents_get_a_copy() -> None:
    assert resumes_in(info_of("-x"))["codex"] == "clew resume --in codex -- -x"
    assert list(resumes_in(info_of("a"), at="b")) == ["claude-code", "codex", "gemini-cli", "opencode", "pi"]


@each_row("workspace", ["/srv/a\x1b[201~b", "/srv/a\tb", "/srv/\u202eb"])
def test_no_command_holds_what_acts_on_a_terminal(workspace: str) -> None:
    found = resume_of(info_of("claude-code:0b1c", workspace=workspace))
    assert found.command is None
    assert "act on a terminal" in found.note
