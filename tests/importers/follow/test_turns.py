"""At the end of a turn the files are kept, for an agent that knows nothing of Clew: from its lines and its
hook to a rewind on the command line."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import clew
from clew.cli import run
from clew.importers.follow import turns as module
from clew.importers.follow.lease import Following
from clew.importers.follow.watcher import Watcher
from clew.importers.sync import Sync
from tests.support.agents import ClaudeCode, wait_until

PATIENCE = 10.0


class Scripted(ClaudeCode):
    """Claude Code with a hook, in a directory of its own."""

    def __init__(self, home: Path, wake: Path) -> None:
        super().__init__(home, 1, longest=1_000)
        self.work = home / "work"
        self.work.mkdir()
        self._wake = wake

    def begin(self) -> None:
        super().begin()
        self.cwd = str(self.work)

    def edit(self, **files: str) -> None:
        for name, text in files.items():
            (self.work / name).write_text(text)

    def hook(self, event: str, *, files: bool = True) -> None:
        [place] = self._wake.iterdir()
        said = {
            "session_id": self.session,
            "transcript_path": str(self.path),
            "cwd": self.cwd,
            "hook_event_name": event,
        }
        lines = [f"{json.dumps(name)}:{json.dumps(value)}" for name, value in said.items()]
        new = place / ".new"
        new.write_text("\n".join([*lines, '"files":true' if files else "", ""]))
        new.rename(place / "claude-code.77")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = Path(os.path.realpath(tmp_path)) / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


@contextmanager
def following(
    home: Path, on_state: Callable[[Following], None] = lambda _: None
) -> Iterator[tuple[clew.Store, Scripted]]:
    ready = threading.Event()
    with clew.open(home / "s.db") as store:
        watcher = Watcher(
            store,
            Sync(lambda *, writes: store, None),
            following=Following(pid=1, since=0.0, store=""),
            wake=home / "wake",
            on_report=lambda _: ready.set(),
            on_state=on_state,
        )
        thread = threading.Thread(target=watcher.run)
        thread.start()
        try:
            assert ready.wait(PATIENCE)
            yield store, Scripted(home, home / "wake")
        finally:
            watcher.stop()
            thread.join(PATIENCE)
        assert not thread.is_alive()


def points(store: clew.Store, session: str) -> dict[str, int]:
    """The checkpoints with files, and where they stand."""
    found = store.find(session)
    return {one.name: one.position for one in found.checkpoints() if one.snapshot} if found else {}


def said(store: clew.Store, agent: Scripted) -> int:
    found = store.find(agent.session)
    return found.info.messages if found else 0


def turn(store: clew.Store, agent: Scripted, **files: str) -> None:
    """A user asks, the agent edits files and answers."""
    before = len(points(store, agent.session)) if agent.session else 0
    agent.say()
    agent.edit(**files)
    agent.say()
    agent.hook("Stop")
    assert wait_until(lambda: len(points(store, agent.session)) > before, PATIENCE)


def test_a_rewind_brings_the_files_of_a_turn_back(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[Following] = []
    with following(home, told.append) as (store, agent):
        turn(store, agent, **{"a.py": "one", "b.py": "b"})
        turn(store, agent, **{"a.py": "two"})
        (agent.work / "b.py").unlink()
        turn(store, agent, **{"a.py": "three", "c.py": "new"})
        assert sorted(points(store, agent.session).values()) == [1, 3, 5]
        assert wait_until(lambda: told[-1].snapshots == 3, PATIENCE)
        id = agent.session
    at = ["--store", str(home / "s.db"), "rewind", "--files", "--yes"]
    assert run([*at, f"{id}@3"]) == 0
    assert {path.name: path.read_text() for path in agent.work.iterdir()} == {"a.py": "two", "b.py": "b"}
    assert run([*at, id, "2"]) == 0  # the files before that message: those of the turn before
    assert (agent.work / "a.py").read_text() == "one"
    capsys.readouterr()


def test_without_being_asked_for_no_files_are_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STILL", 0.01)
    with following(home) as (store, agent):
        agent.say()
        agent.edit(**{"a.py": "one"})
        agent.say()
        agent.hook("PostToolUse")
        agent.hook("Stop", files=False)
        assert wait_until(lambda: said(store, agent) == 2, 5)
        agent.say()
        agent.hook("UserPromptSubmit")
        assert wait_until(lambda: said(store, agent) == 3, 5)
        time.sleep(0.3)
        assert points(store, agent.session) == {}
        assert store.snapshots() == []


def test_last_words_that_come_late_belong_to_the_turn(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STILL", 0.05)
    monkeypatch.setattr(module, "LONGEST", PATIENCE)
    with following(home) as (store, agent):
        agent.say()
        agent.edit(**{"a.py": "one"})
        agent.hook("Stop")
        assert wait_until(lambda: store.find(agent.session) is not None, 5)
        time.sleep(0.3)  # longer than a session has to be still
        assert points(store, agent.session) == {}
        agent.say()
        assert wait_until(lambda: len(points(store, agent.session)) > 0, 5)
        assert points(store, agent.session) == {"turn-1": 1}


def test_an_agent_that_says_no_last_word_is_not_waited_for(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST", 0.3)
    with following(home) as (store, agent):
        agent.say()
        agent.edit(**{"a.py": "one"})
        agent.hook("SessionEnd")
        assert wait_until(lambda: points(store, agent.session) == {"turn-0": 0}, 5)


def test_what_snapshots_leave_out_is_left_out(home: Path) -> None:
    with following(home) as (store, agent):
        (agent.work / "node_modules").mkdir()
        (agent.work / "node_modules" / "x.js").write_text("x")
        turn(store, agent, **{"a.py": "one", ".env": "KEY=1", ".gitignore": "*.log\n", "x.log": "log"})
        [snapshot] = store.snapshots()
        assert store.read_file(snapshot, "a.py") == b"one"
        for name in (".env", "x.log", "node_modules/x.js"):
            with pytest.raises(clew.errors.NotFoundError):
                store.read_file(snapshot, name)


def test_files_that_cannot_be_kept_are_a_trouble_and_no_end(home: Path) -> None:
    with following(home) as (store, agent):
        agent.say()
        agent.cwd = str(home)  # a home directory is not taken
        agent.say()
        agent.hook("Stop")
        agent.cwd = str(home / "not there")
        agent.hook("Stop")
        agent.cwd = str(agent.work)
        turn(store, agent, **{"a.py": "one"})
