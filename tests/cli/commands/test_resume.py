"""`clew resume`: the command that goes on, the copy that is written for it, and what is never done."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import Clew
from tests.home.make import make_home
from tests.support.rows import each_row

LOGIN = "4be70e2a-7c1d-4f0e-9d55-3b9f6a1c8e21"
SCRYPT = "01a1deb8-bf60-73a2-af7e-daebb74aea2f"


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions of Ana, whose directories are elsewhere on this machine. What ends in a tilde is a copy."""
    home = make_home(tmp_path_factory.mktemp("resume") / "ana")
    for folder in (".claude", ".codex", ".pi"):
        for file in (home / folder).rglob("*.jsonl"):
            file.write_text(file.read_text().replace("/home/ana/", f"{home}/"))
    for name in ("shop", "notes"):
        (home / name).mkdir(exist_ok=True)
    Clew(home)("import", "--scan")
    shutil.copytree(home, f"{home}~")
    return home


@pytest.fixture
def cli(imported: Path) -> Clew:
    """As it was imported, in the place that the store remembers."""
    shutil.rmtree(imported)
    shutil.copytree(f"{imported}~", imported)
    return Clew(imported)


def files_below(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in place.rglob("*.jsonl")}


def test_what_was_not_changed_goes_on_in_the_agents_own_file(cli: Clew) -> None:
    before = files_below(cli.home)
    shop = cli.home / "shop"
    assert cli("resume", LOGIN[:8]).out == f"cd {shop} && claude --resume {LOGIN}\n"
    assert cli("resume", SCRYPT[:13]).out == f"cd {shop} && codex resume {SCRYPT}\n"
    [told] = cli("resume", LOGIN, "--json").records
    assert told["command"] == ["claude", "--resume", LOGIN]
    assert told["written"] == []
    assert "its own file" in told["notes"][0]
    assert files_below(cli.home) == before


def test_a_file_that_has_grown_since_is_said(cli: Clew) -> None:
    [file] = (cli.home / ".claude").rglob(f"{LOGIN}.jsonl")
    with file.open("a") as more:
        more.write('{"type":"mode","mode":"normal"}\n')
    [told] = cli("resume", LOGIN, "--json").records
    assert told["written"] == []
    assert "clew sync" in told["notes"][1]


def test_when_the_agent_removed_its_file_a_copy_is_written(cli: Clew) -> None:
    shutil.rmtree(cli.home / ".claude")
    [told] = cli("resume", LOGIN, "--json").records
    assert told["id"] != LOGIN
    [written] = told["written"]
    folder = "-" + str(cli.home / "shop").strip("/").replace("/", "-").replace("_", "-")
    assert Path(written) == cli.home / ".claude" / "projects" / folder / f"{told['id']}.jsonl"
    assert told["shell"] == f"cd {cli.home / 'shop'} && claude --resume {told['id']}"


def test_what_was_changed_here_goes_on_in_a_copy_and_the_agents_file_stays(cli: Clew) -> None:
    before = files_below(cli.home / ".claude")
    cli("rewind", LOGIN, "10")
    [told] = cli("resume", LOGIN, "--json").records
    after = files_below(cli.home / ".claude")
    assert {path: after[path] for path in before} == before
    assert [path for path in after if path not in before] == told["written"]


@each_row("agent", ["claude-code", "codex", "pi", "gemini-cli"])
def test_a_place_goes_on_in_any_agent(cli: Clew, agent: str) -> None:
    [told] = cli("resume", f"{LOGIN}@10", "--in", agent, "--json").records
    text = Path(told["written"][0]).read_text()
    assert "capital letters in their e-mail" in text
    assert told["agent"] == agent
    assert "/shop" in told["directory"]


def test_a_copy_that_comes_back_is_a_session_of_that_agent(cli: Clew) -> None:
    [told] = cli("resume", f"{LOGIN}@10", "--in", "codex", "--json").records
    cli("import", "--scan")
    shown = cli("show", f"codex:{told['id']}").out
    assert "capital letters in their e-mail" in shown


def test_in_a_pipe_it_is_the_command_alone(cli: Clew) -> None:
    done = cli("resume", f"{LOGIN}@10", "--in", "codex")
    assert done.out.startswith(f"cd {cli.home / 'shop'} && codex resume ")
    assert len(done.lines) == 1
    assert done.err == ""


def test_a_dry_run_writes_nothing(cli: Clew) -> None:
    before = files_below(cli.home)
    done = cli("resume", f"{LOGIN}@10", "--in", "codex", "--dry-run")
    assert "Would write a copy for codex" in done.out
    [told] = cli("resume", f"{LOGIN}@10", "--in", "codex", "--dry-run", "--json").records
    assert (told["command"], told["dry_run"]) == (None, True)
    assert files_below(cli.home) == before


def test_a_directory_that_is_gone_is_said_and_another_one_can_be_named(cli: Clew) -> None:
    shutil.rmtree(cli.home / "shop")
    before = files_below(cli.home)
    done = cli("resume", LOGIN, code=1)
    assert "the directory of the session is gone" in done.err
    assert "--directory" in done.err
    assert files_below(cli.home) == before
    [told] = cli("resume", LOGIN, "--directory", "notes", "--json").records
    assert told["directory"] == str(cli.home / "notes")
    assert told["written"]  # it would not be found there in its own file
    assert cli("resume", LOGIN, "--directory", "nowhere", code=1).err


def test_a_subagent_becomes_a_session_of_its_own(cli: Clew) -> None:
    [told] = cli("resume", f"{LOGIN}/agent-a24433f5b25410bcc", "--json").records
    assert "subagent" in told["notes"][0]
    records = [json.loads(line) for line in Path(told["written"][0]).read_text().splitlines()]
    assert not any(record.get("isSidechain") or "agentId" in record for record in records)


def test_a_session_of_no_agent_needs_one_to_be_named(cli: Clew) -> None:
    done = cli("resume", "cline:1793184060123", "--directory", "shop", code=1)
    assert "--in" in done.err
    cli("resume", "cline:1793184060123", "--in", "pi", "--directory", "shop")


def test_exec_runs_the_agent_in_its_directory(cli: Clew) -> None:
    programs = cli.home / "bin"
    programs.mkdir()
    claude = programs / "claude"
    claude.write_text('#!/bin/sh\necho "$PWD|$1|$2"\nexit 7\n')
    claude.chmod(0o755)
    env = {"PATH": f"{programs}:{cli.env['PATH']}"}
    done = cli.process("resume", LOGIN, "--exec", code=7, env=env)
    shop = cli.home / "shop"
    assert done.lines == [f"cd {shop} && claude --resume {LOGIN}", f"{shop}|--resume|{LOGIN}"]


def test_exec_without_the_program_writes_nothing(cli: Clew) -> None:
    before = files_below(cli.home)
    done = cli("resume", LOGIN, "--in", "pi", "--exec", code=1, env={"PATH": "/nowhere"})
    assert "pi is not installed" in done.err
    assert files_below(cli.home) == before


@each_row(
    ("agent", "variable", "below"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", "projects"),
        ("codex", "CODEX_HOME", "sessions"),
        ("pi", "PI_CODING_AGENT_DIR", "sessions"),
    ],
)
def test_the_agents_own_variables_say_where(cli: Clew, agent: str, variable: str, below: str) -> None:
    moved = cli.home / "moved"
    [told] = cli("resume", LOGIN, "--in", agent, "--json", env={variable: str(moved)}).records
    assert Path(told["written"][0]).is_relative_to(moved / below)


def test_a_hostile_title_or_directory_is_one_word_for_a_shell(cli: Clew, tmp_path: Path) -> None:
    evil = tmp_path / "a; touch evil; $(touch evil)"
    evil.mkdir()
    done = cli("resume", LOGIN, "--in", "codex", "--directory", str(evil))
    shown = done.out.replace("codex", "printf '<%s>'", 1)
    words = ["bash", "-c", f"{shown.strip()}; pwd"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.endswith(f"{evil}\n")
    assert not (tmp_path / "evil").exists()


def test_a_copy_that_another_agent_went_on_with_names_the_session_that_it_was_made_of(cli: Clew) -> None:
    [told] = cli("resume", f"{LOGIN}@10", "--in", "codex", "--json").records
    cli("sync")
    [info] = [one for one in cli("ls", "-a", "--json").records if one["id"] == f"codex:{told['id']}"]
    assert info["metadata"]["copied_from"] == f"claude-code:{LOGIN}"
    assert cli("verify").code == 0


@each_row("agent", ["claude-code", "codex", "pi", "gemini-cli"])
def test_a_copy_that_nobody_has_continued_is_used_again(cli: Clew, agent: str) -> None:
    def resumed(place: str, *more: str) -> dict[str, Any]:
        [told] = cli("resume", place, "--in", agent, "--json", *more).records
        return told

    first = resumed(f"{LOGIN}@10")
    before = files_below(cli.home)
    planned, again = resumed(f"{LOGIN}@10", "--dry-run"), resumed(f"{LOGIN}@10")
    for told in (planned, again):
        assert (told["id"], told["command"], told["written"]) == (first["id"], first["command"], [])
        assert "Nobody has continued the copy" in told["notes"][-1]
    assert [told["reused"] for told in (first, planned, again)] == [False, True, True]
    assert files_below(cli.home) == before

    others = [resumed(f"{LOGIN}@8"), resumed(f"{LOGIN}@10", "--directory", "notes")]
    with Path(first["written"][0]).open("a") as file:
        file.write("{}\n")
    others.append(resumed(f"{LOGIN}@10"))
    assert [told["reused"] for told in others] == [False, False, False]
    assert len({first["id"], *(told["id"] for told in others)}) == 4
