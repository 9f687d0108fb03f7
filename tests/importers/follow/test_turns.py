"""At the end of a turn the files are kept, for an agent that knows nothing of Clew: from its lines and its
hook to a rewind on the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import clew
from clew.cli import run
from clew.importers.follow import turns as module
from clew.importers.follow.lease import Following
from clew.importers.sync import Sync
from tests.importers.follow.story import Stage, Story, leave_word
from tests.support.agents import ClaudeCode

LATER = 2 * module.STILL


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
        said = {
            "session_id": self.session,
            "transcript_path": str(self.path),
            "cwd": self.cwd,
            "hook_event_name": event,
        }
        lines = [f"{json.dumps(name)}:{json.dumps(value)}" for name, value in said.items()]
        leave_word(self._wake, "\n".join([*lines, '"files":true' if files else "", ""]))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = Path(os.path.realpath(tmp_path)) / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


class Followed:
    """An agent, a store, and a watcher that follows the one into the other."""

    def __init__(self, home: Path, store: clew.Store) -> None:
        self.store = store
        self.agent = Scripted(home, home / "wake")
        self.following = Following(pid=1, since=0.0, store="")
        self._wake = home / "wake"

    def tell(self, story: Callable[[], Story]) -> None:
        stage = Stage()
        sync = Sync(lambda *, writes: self.store, None)
        stage.tell(stage.watcher(self.store, sync, following=self.following, wake=self._wake), story())

    def points(self) -> dict[str, int]:
        """The checkpoints with files, and where they stand."""
        found = self.store.find(self.agent.session)
        return {one.name: one.position for one in found.checkpoints() if one.snapshot} if found else {}

    def said(self) -> int:
        found = self.store.find(self.agent.session)
        return found.info.messages if found else 0

    def turn(self, **files: str) -> Story:
        """A user asks, the agent edits files and answers."""
        self.agent.say()
        self.agent.edit(**files)
        self.agent.say()
        self.agent.hook("Stop")
        yield LATER


@pytest.fixture
def followed(home: Path) -> Iterator[Followed]:
    with clew.open(home / "s.db") as store:
        yield Followed(home, store)


def test_a_rewind_brings_the_files_of_a_turn_back(
    followed: Followed, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = followed.agent

    def story() -> Story:
        yield from followed.turn(**{"a.py": "one", "b.py": "b"})
        yield from followed.turn(**{"a.py": "two"})
        (agent.work / "b.py").unlink()
        yield from followed.turn(**{"a.py": "three", "c.py": "new"})
        assert sorted(followed.points().values()) == [1, 3, 5]
        assert followed.following.snapshots == 3

    followed.tell(story)
    at = ["--store", str(home / "s.db"), "rewind", "--files", "--yes"]
    assert run([*at, f"{agent.session}@3"]) == 0
    assert {path.name: path.read_text() for path in agent.work.iterdir()} == {"a.py": "two", "b.py": "b"}
    assert run([*at, agent.session, "2"]) == 0  # the files before that message: those of the turn before
    assert (agent.work / "a.py").read_text() == "one"
    capsys.readouterr()


def test_without_being_asked_for_no_files_are_kept(followed: Followed) -> None:
    agent = followed.agent

    def story() -> Story:
        agent.say()
        agent.edit(**{"a.py": "one"})
        agent.say()
        agent.hook("PostToolUse")
        yield 0
        agent.hook("Stop", files=False)
        yield 0
        assert followed.said() == 2
        agent.say()
        agent.hook("UserPromptSubmit")
        yield 0
        assert followed.said() == 3
        yield 10 * module.LONGEST
        assert followed.points() == {}
        assert followed.store.snapshots() == []

    followed.tell(story)


def test_last_words_that_come_late_belong_to_the_turn(followed: Followed) -> None:
    agent = followed.agent

    def story() -> Story:
        agent.say()
        agent.edit(**{"a.py": "one"})
        agent.hook("Stop")
        yield module.LONGEST / 2  # longer than a session has to be still
        assert followed.said() == 1
        assert followed.points() == {}
        agent.say()
        yield LATER
        assert followed.points() == {"turn-1": 1}

    followed.tell(story)


def test_an_agent_that_says_no_last_word_is_not_waited_for(followed: Followed) -> None:
    agent = followed.agent

    def story() -> Story:
        agent.say()
        agent.edit(**{"a.py": "one"})
        agent.hook("SessionEnd")
        yield module.LONGEST - LATER
        assert followed.points() == {}
        yield 2 * LATER
        assert followed.points() == {"turn-0": 0}

    followed.tell(story)


def test_what_snapshots_leave_out_is_left_out(followed: Followed) -> None:
    (followed.agent.work / "node_modules").mkdir()
    (followed.agent.work / "node_modules" / "x.js").write_text("x")
    files = {"a.py": "one", ".env": "KEY=1", ".gitignore": "*.log\n", "x.log": "log"}
    followed.tell(lambda: followed.turn(**files))
    [snapshot] = followed.store.snapshots()
    assert followed.store.read_file(snapshot, "a.py") == b"one"
    for name in (".env", "x.log", "node_modules/x.js"):
        with pytest.raises(clew.errors.NotFoundError):
            followed.store.read_file(snapshot, name)


def test_files_that_cannot_be_kept_are_a_trouble_and_no_end(followed: Followed, home: Path) -> None:
    agent = followed.agent

    def story() -> Story:
        agent.say()
        agent.cwd = str(home)  # a home directory is not taken
        agent.say()
        agent.hook("Stop")
        yield LATER
        assert followed.points() == {}
        assert followed.following.trouble is not None
        assert "were not kept" in followed.following.trouble.reason
        agent.cwd = str(home / "not there")
        agent.hook("Stop")
        yield LATER
        agent.cwd = str(agent.work)
        yield from followed.turn(**{"a.py": "one"})
        assert len(followed.points()) == 1

    followed.tell(story)
