"""Commands that run inside the test's process leave it as they found it, and behave as processes do."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

from clew.cli import output
from tests.cli import inside
from tests.cli.processes import Clew


def state() -> list[object]:
    """All that a command could change for the next one."""
    return [
        os.getcwd(),
        dict(os.environ),
        time.tzname,
        [os.fstat(number)[:3] for number in range(3)],
        sys.stdin, sys.stdout, sys.stderr, sys.__stdout__, sys.argv,
        [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
        logging.getLogger().handlers[:], logging.getLogger().level,
        output._look.colours, output.PATIENCE, os._exit, tempfile.tempdir,
    ]  # fmt: skip


def test_nothing_that_a_command_has_for_itself_stays(story: Clew) -> None:
    before = state()
    env = {"TZ": "Asia/Tokyo", "NOTHING": "else"}
    story("ls", env=env)
    story.on_terminal("ls", "--color=always", env=env, width=30)
    story("show", "nobody", code=1)
    assert state() == before


def test_a_command_that_breaks_leaves_nothing_either(story: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(args: list[str]) -> int:
        logging.basicConfig(level=logging.DEBUG)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.environ["NOTHING"] = "else"
        raise ValueError(args)

    before = state()
    monkeypatch.setattr(inside, "run", breaks)
    with pytest.raises(ValueError, match="ls"):
        story("ls")
    assert state() == before


def test_what_a_process_prints_a_command_in_here_prints_too(story: Clew) -> None:
    args = ("close", "login-bug", "nobody")
    assert story(*args, code=1) == story.process(*args, code=1)


def test_descriptors_lead_where_a_program_would_find_them(cli: Clew, tmp_path: Path) -> None:
    """A pager or an editor that is started gets the terminal."""
    (tmp_path / "editor").write_text("#!/bin/sh\n[ -t 0 ] && [ -t 1 ] && echo 'on a terminal' $COLUMNS\n")
    (tmp_path / "editor").chmod(0o700)
    env = {"EDITOR": str(tmp_path / "editor"), "COLUMNS": "33"}
    assert "on a terminal 33\n" in cli.on_terminal("config", "--edit", env=env).out


def test_what_would_end_the_test_is_refused(cli: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "run", lambda _: os._exit(1))
    with pytest.raises(AssertionError, match="run it with"):
        cli("ls")
