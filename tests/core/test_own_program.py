"""How Clew is started again, and which ways of that are dangerous."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from clew.core.own_program import own_module, own_program, runs_the_current_directory
from tests.support.rows import each_row


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_the_program_beside_the_interpreter_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    module = (str(tmp_path / "python"), "-P", "-m", "clew")
    assert own_program() == own_module("clew") == module
    _program(tmp_path / "clew", "#!/bin/sh\necho another program of this name\n")
    assert own_program() == module
    _program(tmp_path / "clew", "#!python\nfrom clew.cli import main\nmain()\n")
    assert own_program() == (str(tmp_path / "clew"),)
    (tmp_path / "clew").chmod(0o600)
    (tmp_path / "clew").unlink()
    (tmp_path / "clew").mkdir()
    assert own_program() == module


@each_row(
    "words",
    [
        ["python", "-m", "clew", "mcp"],
        ["/srv/venv/bin/python3", "-m", "clew", "mcp", "--sync"],
        ["python", "-um", "clew", "mcp"],
        ["python", "-X", "dev", "-m", "clew", "mcp"],
        ["uv", "run", "python", "-m", "clew", "mcp"],
    ],
)
def test_python_m_looks_in_the_current_directory(words: list[object]) -> None:
    assert runs_the_current_directory(words)


@each_row(
    "words",
    [
        [],
        [None, {}],
        ["clew", "mcp"],
        ["/srv/venv/bin/clew", "mcp"],
        ["python", "-P", "-m", "clew", "mcp"],
        ["python", "-I", "-X", "dev", "-m", "clew", "mcp"],
        ["python", "-Pm", "clew", "mcp"],
        ["uvx", "--from", "clew[mcp]", "clew", "mcp"],
        ["docker", "run", "-m", "1g", "clew", "mcp"],
    ],
)
def test_other_ways_do_not(words: list[object]) -> None:
    assert not runs_the_current_directory(words)
