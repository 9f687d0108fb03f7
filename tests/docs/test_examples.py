"""The examples run, end well and leave nothing behind."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from clew.cli.demo import story
from clew.cli.demo import worker as demo_worker
from examples import async_agent, crash_safe_worker, demo, openai_style_agent
from tests.cli.processes import Clew
from tests.support.rows import each_row


@pytest.fixture
def cli(tmp_path: Path) -> Clew:
    return Clew(tmp_path)


def test_the_demo_tells_its_story_and_ends_well(cli: Clew) -> None:
    """Every claim in it is checked by the demo itself; one that does not hold is exit code 1."""
    done = cli("demo", env={"TMPDIR": str(cli.home), "COLUMNS": "80"})

    assert "" == done.err
    chapters = [line.split("──")[0].split() for line in done.lines if "──────" in line]
    titles = [" ".join(words[1:]) for words in chapters if words and words[0].isdigit()]
    assert ["Converse", "Go wrong, and rewind", "Fork", "Crash", "Resume", "Compact, and undo"] == titles
    assert "kill -9 in the middle of its work" in done.out
    assert "◀ login-bug#fork-1" in done.out
    assert "the thread is whole" in done.out
    assert list(cli.home.iterdir()) == []
    # Without a terminal it is plain, and fits.
    assert "\x1b" not in done.out
    assert max(map(len, done.lines)) <= 80
    assert demo.main is story.main  # what examples/demo.py runs


@each_row("no_color", ["", "1"])
def test_the_demo_has_colours_unless_told_not_to(monkeypatch: pytest.MonkeyPatch, no_color: str) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    printed = io.StringIO()
    console = Console(file=printed, force_terminal=True, color_system="standard", width=80)
    story.Story(console).claim(True, "it holds")
    bright_green = "92m"
    assert (bright_green in printed.getvalue()) is not bool(no_color)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_behind(
    cli: Clew, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """At the beginning of each chapter, and while its worker runs."""
    started: list[subprocess.Popen[str]] = []
    worker, chapter = demo_worker.worker, story.Story.chapter
    stops_at: int | None = None

    def begin(self: story.Story, title: str, *text: str) -> None:
        chapter(self, title, *text)
        if self.chapters == stops_at:
            os.kill(os.getpid(), number)

    @contextmanager
    def working(path: Path, id: str) -> Iterator[subprocess.Popen[str]]:
        with worker(path, id) as process:
            started.append(process)
            if stops_at is None:
                os.kill(os.getpid(), number)
            yield process

    monkeypatch.setattr(story.Story, "chapter", begin)
    monkeypatch.setattr(story, "worker", working)
    for stops_at in (1, 2, 3, 4, None, 6):
        done = cli("demo", env={"TMPDIR": str(cli.home)}, code=130)
        assert "" == done.err, stops_at
        assert list(cli.home.iterdir()) == [], stops_at
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)


CLEANED_UP = """
import os, signal, sys, time, weakref
from clew.cli.demo import story
from clew.cli.demo import worker as demo_worker

class Thing: pass

def tell(console, directory):
    thing = Thing()
    kept = weakref.ref(thing, lambda _: [os.kill(os.getpid(), signal.SIGTERM), sum(range(1000))])
    del thing
    signal.pause()

def slowly(*args):
    global late
    started(*args)
    if late:  # the timer is over before the hook that sets it
        late = False
        time.sleep(0.05)

late, started = sys.argv.pop() == "late", signal.setitimer
signal.setitimer = slowly
story.tell = tell
sys.exit(story.main())
"""


@pytest.mark.parametrize("when", ["at once", "late"])
def test_an_interrupt_while_python_cleans_up_ends_the_demo(tmp_path: Path, when: str) -> None:
    """Python drops an exception that is raised there, and says so on stderr."""
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", CLEANED_UP, when], check=False, env=env, capture_output=True, text=True
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
