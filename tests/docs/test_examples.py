"""The examples run, end well and leave nothing behind."""

from __future__ import annotations

import asyncio
import io
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from examples import async_agent, crash_safe_worker, demo, openai_style_agent
from tests.docs.pages import ROOT

DEMO = ROOT / "examples" / "demo.py"


def test_the_demo_tells_its_story_and_ends_well(tmp_path: Path) -> None:
    """Every claim in it is checked by the demo itself; one that does not hold is exit code 1."""
    env = {**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "80"}
    command = [sys.executable, str(DEMO)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)

    assert (0, "") == (done.returncode, done.stderr)
    chapters = [line.split("──")[0].split() for line in done.stdout.splitlines() if "──────" in line]
    titles = [" ".join(words[1:]) for words in chapters if words and words[0].isdigit()]
    assert ["Converse", "Go wrong, and rewind", "Fork", "Crash", "Resume", "Compact, and undo"] == titles
    assert "kill -9 in the middle of its work" in done.stdout
    assert "◀ login-bug#fork-1" in done.stdout
    assert list(tmp_path.iterdir()) == []
    # Without a terminal it is plain, and fits.
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("no_color", ["", "1"])
def test_the_demo_has_colours_unless_told_not_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_color: str
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(demo, "PAUSE", 0)
    printed = io.StringIO()
    demo.tell(Console(file=printed, force_terminal=True, color_system="standard", width=80), tmp_path)
    bright_green = "\x1b[92m"
    assert (bright_green in printed.getvalue()) is not bool(no_color)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, str(DEMO)]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert any("Converse" in line for line in process.stdout)
        time.sleep(random.uniform(0, 0.4))  # in any chapter
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)

    assert errors == ""
    assert process.returncode in (130, 0, -number)  # it may have been faster, or about to leave
    assert list(tmp_path.iterdir()) == []


CLEANED_UP = """
import os, signal, sys, time, weakref
from clew.cli.demo import story

class Thing: pass

def tell(console, directory):
    thing = Thing()
    kept = weakref.ref(thing, lambda _: [os.kill(os.getpid(), signal.SIGTERM), sum(range(1000))])
    del thing
    time.sleep(60)

story.tell = tell
sys.exit(story.main())
"""


def test_an_interrupt_while_python_cleans_up_ends_the_demo(tmp_path: Path) -> None:
    """Python drops an exception that is raised there, and says so on stderr."""
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", CLEANED_UP], check=False, env=env, capture_output=True, text=True, timeout=30
    )

    assert (done.returncode, done.stderr) == (130, "")
    assert list(tmp_path.iterdir()) == []


def test_the_openai_style_agent_remembers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    openai_style_agent.main(tmp_path / "agents.db")

    expected = [
        "That is 14.",
        "That is 42.",
        "9 messages, 2 turns, last: what is 6 times 7",
        "That is 14.",
        "['system', 'user', 'assistant', 'tool', 'assistant']",
    ]
    assert expected == capsys.readouterr().out.splitlines()


def test_the_async_agents_do_not_disturb_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(async_agent.main(tmp_path / "agents.db"))

    expected = [
        "20 agents, 200 messages",
        "the impatient one asked 1 time",
        "agent-0#fork-1 has 5 messages, agent-0 has 10",
        "  3 I have read 3 messages.",
        "  4 And if not?",
    ]
    assert expected == capsys.readouterr().out.splitlines()


def test_a_killed_worker_is_succeeded_by_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P10: a real kill -9; the second process has the lease at once, and repeats only the round cut short."""
    crash_safe_worker.main(tmp_path / "agents.db")

    expected = [
        "epoch 1: begins with round 0",
        "epoch 1: in the middle of round 2",
        "after kill -9: ['tidy'] interrupted",
        "epoch 2: begins with round 2",
        "completed: 5 calls, 5 results, written in epochs [1, 1, 2, 2, 2]",
    ]
    assert expected == capsys.readouterr().out.splitlines()
