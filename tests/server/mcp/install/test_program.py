"""The command in the settings of a client is one that is there, and means the same wherever it is read."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from clew.errors import ClewError, InvalidError
from clew.server.mcp.install.clients import CLIENTS
from clew.server.mcp.install.install import install
from clew.server.mcp.install.program import Wish, command_line, find_program, is_ours
from tests.support.rows import each_row

CLAUDE = CLIENTS["claude-code"]


def _words(wish: Wish, name: str = "claude-code", *, is_project: bool = False) -> list[str]:
    return command_line(CLIENTS[name], find_program(), wish, is_project=is_project)[1:]


def test_the_program_of_the_user_is_named_with_its_path(home: Path) -> None:
    assert find_program() == ((f"{home}/bin/clew",), False)
    assert find_program(is_shared=True).words == ("clew",)


def test_a_program_of_an_environment_is_passed_over(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = home / "venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").touch()
    other = environment / "bin" / "clew"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{environment}/bin:relative:{home}/bin")
    assert find_program().words == (f"{home}/bin/clew",)
    (home / "bin" / "clew").unlink()
    (home / "bin" / "clew").symlink_to(other)
    assert find_program().words == (f"{home}/bin/clew",), "as pipx and uv link it"


def test_without_another_that_of_the_environment_is_named_and_that_is_said(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "bin" / "clew").unlink()
    monkeypatch.setattr(sys, "prefix", "/srv/venv")
    assert find_program() == ((os.path.join(os.path.dirname(sys.executable), "clew"),), True)
    assert find_program(is_shared=True).words == find_program().words
    [note] = install(CLAUDE, Wish()).notes
    assert "clew is not on your PATH outside of this virtual environment" in note
    assert "others who read this file" in install(CLAUDE, Wish(), project=home).notes[-1]
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert not find_program().is_of_environment


def test_options_are_handed_on(home: Path) -> None:
    assert _words(Wish()) == ["mcp", "--sync"]
    assert _words(Wish(sync=False)) == ["mcp"]
    assert _words(Wish(sees_all=True, writes=True)) == ["mcp", "--all", "--allow", "write", "--sync"]
    assert _words(Wish(workspace=Path("x"))) == ["mcp", "--workspace", str(Path.cwd() / "x"), "--sync"]
    assert _words(Wish(), "cursor") == ["mcp", "--workspace", "${workspaceFolder}", "--sync"]
    assert _words(Wish(), "vscode") == ["mcp", "--sync"], "VS Code knows no folder in settings of the user"
    assert _words(Wish(), "vscode", is_project=True)[1:3] == ["--workspace", "${workspaceFolder}"]
    assert _words(Wish(workspace=Path("/srv")), "cursor")[1:3] == ["--workspace", "/srv"]


@each_row(
    ("store", "written"),
    [
        ("agents.db", "CWD/agents.db"),
        ("/srv/agents.db", "/srv/agents.db"),
        ("sqlite://./a%20b.db?timeout=3", "sqlite://CWD/a%20b.db?timeout=3"),
        ("sqlite:///srv/agents.db", "sqlite:///srv/agents.db"),
        ("sqlite:////srv/agents.db", "sqlite:////srv/agents.db"),
        ("https://clew.example.com", "https://clew.example.com"),
        ("postgresql://db.example.com/agents", "postgresql://db.example.com/agents"),
    ],
)
def test_the_store_means_the_same_wherever_the_client_starts_it(
    store: str, written: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    assert _words(Wish(store=store))[1:3] == ["--store", written.replace("CWD", str(Path.cwd()))]


@each_row("store", ["postgresql://me:secret@db/agents", "memory:", "nothing://x"])
def test_a_store_that_cannot_be_named_is_refused_without_its_password(store: str, home: Path) -> None:
    with pytest.raises(ClewError) as error:
        _words(Wish(store=store))
    assert "secret" not in str(error.value)


@each_row("path", ["/srv/$HOME", "/srv/{env:X}", "/srv/${workspaceFolder}"])
def test_a_path_that_a_client_would_change_is_refused(path: str, home: Path) -> None:
    with pytest.raises(InvalidError, match=r"would change '/srv/"):
        _words(Wish(workspace=Path(path)))


@each_row(
    "words",
    [
        ["clew", "mcp"],
        ["/usr/bin/clew", "--store", "x", "mcp"],
        ["python", "-m", "clew", "mcp", "--sync"],
        ["uvx", "--from", "clew[mcp]", "clew", "mcp"],
    ],
)
def test_what_starts_clew_mcp_is_ours_whoever_wrote_it(words: list[str]) -> None:
    assert is_ours(words)


@each_row("words", [[], [None], ["clew"], ["mcp", "clew"], ["clew-mcp"], ["npx", "clew-web", "mcp"], [3, {}]])
def test_what_starts_something_else_is_not(words: list[object]) -> None:
    assert not is_ours(words)
