"""`clew watch` as a process: what it prints, how it ends, who may run beside it, and its service."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.cli.inside import Done, run_in_pipes
from tests.cli.processes import COMMAND, Clew
from tests.support.agents import ClaudeCode, Codex, home_of
from tests.support.waiting import until

OUTSIDE = (
    "CLAUDE_CONFIG_DIR", "CLEW_STORE", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"
)  # fmt: skip


class Watching:
    """A watcher that runs, and what it printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.rest: tuple[str, str] = ("", "")

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.line())
        return found

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        self.rest = self.process.communicate()
        return self.process.returncode


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = Path(os.path.realpath(tmp_path)) / "a home"
    home.mkdir()
    return home


def environment(home: Path) -> dict[str, str]:
    return {name: value for name, value in home_of(home).items() if name not in OUTSIDE}


def words(home: Path, *options: str) -> tuple[str, ...]:
    return ("--store", str(home / "s.db"), "watch", *options)


@contextmanager
def watching(home: Path, *options: str) -> Iterator[Watching]:
    with subprocess.Popen(
        [*COMMAND, *words(home, *options)],
        env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home,
    ) as process:  # fmt: skip
        try:
            yield Watching(process)
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


def once(home: Path, *options: str) -> Done:
    """What does not stay, in the test's own process."""
    return run_in_pipes(words(home, *options), environment(home), home)


def test_a_line_for_each_session_that_got_something(home: Path) -> None:
    claude, codex = ClaudeCode(home, 1, longest=100), Codex(home, 2, longest=100)
    claude.say()
    claude.say()
    with watching(home, "--json") as watcher:
        start = watcher.record()
        assert start["event"] == "following"
        assert {"format": "claude-code", "path": str(home / ".claude" / "projects")} in start["places"]
        first = watcher.record()
        assert (first["agent"], first["state"], first["entries"]) == ("claude-code", "new", 2)
        claude.say()
        grown = watcher.record()
        assert grown["session"] == first["session"]
        assert (grown["event"], grown["entries"], grown["messages"]) == ("session", 1, 3)
        codex.say()  # from an agent whose directory was not there
        assert watcher.record()["agent"] == "codex"
        assert watcher.end(signal.SIGTERM) == 0
    assert watcher.rest == ("", "")
    with clew.open(home / "s.db") as store:
        assert sorted(info.messages for info in store.list()) == [1, 3]


def test_piped_it_prints_fields_and_quiet_it_prints_nothing(home: Path) -> None:
    """Nor does a title write to the terminal what it likes."""
    agent = ClaudeCode(home, 1, longest=100)
    agent.said["x"] = []
    agent.session, agent._left = "x", 5
    agent.begin()
    agent.write("a \x1b[31mtitle\x07\r\nnext", "user")
    with watching(home) as watcher:
        fields = watcher.line().rstrip("\n").split("\t")
        assert fields[1:5] == ["claude-code:x", "claude-code", "work", "1"]
        assert fields[5:] == ["a [31mtitle next"]
        assert watcher.end(signal.SIGINT) == 130
    assert watcher.rest[0] == ""
    assert watcher.rest[1].splitlines()[1:] == ["clew: stopped; what was brought is kept"]
    assert watcher.rest[1].startswith("Following claude-code. Store: ")
    with watching(home, "-q") as watcher:
        agent.say()
        until(lambda: messages(home) == [2])
        assert watcher.end(signal.SIGTERM) == 0
    assert watcher.rest == ("", "")


def messages(home: Path) -> list[int]:
    if not (home / "s.db").exists():
        return []
    with clew.open(home / "s.db") as store:
        return [info.messages for info in store.list()]


def test_only_one_follows_and_a_killed_one_is_taken_over(home: Path) -> None:
    agent = ClaudeCode(home, 1, longest=100)
    agent.say()
    status = once(home, "--status")
    assert status.code == 1
    assert status.out.startswith("Watcher     not running; clew --store ")
    with watching(home, "--json") as watcher:
        watcher.record(), watcher.record()
        second = once(home)
        assert second.code == 1
        assert f"process {watcher.process.pid} follows the agents already, since 20" in second.err
        until(lambda: passes(home))  # it prints what came before it notes that the pass is over
        found = json.loads(once(home, "--status", "--json").out)
        assert found["running"] is True
        assert found["watcher"].items() >= {"pid": watcher.process.pid, "sources": 1, "messages": 1}.items()
        told = once(home, "--status")
        assert told.code == 0
        assert "Follows     1 file in 1 place; " in told.out
        assert f"running, process {watcher.process.pid}, since " in told.out
        watcher.process.kill()
        watcher.process.wait()
    assert json.loads(once(home, "--status", "--json").out)["running"] is False
    with watching(home, "--json") as watcher:
        assert watcher.record()["event"] == "following"
        agent.say()
        assert watcher.record()["entries"] == 1
        assert watcher.end(signal.SIGTERM) == 0
    left = [path for path in (home / ".local" / "state").rglob("*") if path.is_file()]
    assert left == []


def passes(home: Path) -> int:
    return int(json.loads(once(home, "--status", "--json").out)["watcher"]["passes"])


def test_a_signal_makes_it_look_at_everything(home: Path) -> None:
    agent = ClaudeCode(home, 1, longest=100)
    agent.say()
    with watching(home, "--json") as watcher:
        watcher.record(), watcher.record()
        before = until(lambda: passes(home))
        watcher.process.send_signal(signal.SIGHUP)
        until(lambda: passes(home) > before)
        assert watcher.end(signal.SIGTERM) == 0


def test_it_ends_with_the_terminal_that_it_runs_in(home: Path) -> None:
    ours, its_own = os.openpty()
    with subprocess.Popen(
        [*COMMAND, *words(home)],
        env=environment(home), cwd=home, start_new_session=True,
        stdin=its_own, stdout=its_own, stderr=its_own,
    ) as process:  # fmt: skip
        os.close(its_own)
        try:
            until(lambda: once(home, "--status").code == 0 and passes(home) > 0)
            os.close(ours)
            process.send_signal(signal.SIGHUP)
            assert process.wait() == 0
        finally:
            process.kill()


def test_a_path_of_ones_own_comes_later_and_the_store_is_in_it(home: Path) -> None:
    agent = ClaudeCode(home / "logs" / "later", 1, longest=100)
    with watching(home, "--json", str(home)) as watcher:
        assert watcher.record()["places"] == [{"format": None, "path": str(home)}]
        agent.say()
        assert watcher.record()["entries"] == 1
        before = until(lambda: passes(home))
        for _ in range(5):
            agent.say()
            watcher.record()
        assert passes(home) <= before + 2 * 5  # what it writes itself is no news: else it would never rest
        assert watcher.end(signal.SIGTERM) == 0
    with watching(home, "--json", str(home / "not there yet")) as watcher:
        watcher.record()
        other = ClaudeCode(home / "not there yet", 2, longest=100)
        until(lambda: once(home, "--status").code == 0 and passes(home) > 0)
        other.say()
        assert watcher.record()["entries"] == 1
        assert watcher.end(signal.SIGTERM) == 0


# -- the service


def test_the_service_is_shown_before_it_is_installed(cli: Clew) -> None:
    told = cli("watch", "--install", "--dry-run").out
    path = cli.home / ".config" / "systemd" / "user" / "clew-watch.service"
    assert told.startswith("Would write ")
    assert " watch --quiet --store " in told
    assert "systemctl --user enable clew-watch.service" in told
    assert not path.exists()
    record = json.loads(cli("watch", "--install", "--dry-run", "--json").out)
    assert record["path"] == str(path)
    assert record["text"].startswith("# Made by clew watch")


def test_a_service_that_runs_the_directory_it_is_started_in_is_said_to_be_outdated(cli: Clew) -> None:
    unit = cli.home / ".config" / "systemd" / "user" / "clew-watch.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("# Made by clew watch\n[Service]\nExecStart=:/srv/python -m clew watch --quiet\n")
    assert "--install renews it" in cli("watch", "--status", code=1).out
    assert cli("watch", "--status", "--json", code=1).records[0]["outdated"] is True
    unit.write_text(unit.read_text().replace("-m", "-P -m"))
    assert "Outdated" not in cli("watch", "--status", code=1).out


def test_a_password_does_not_go_into_the_file_of_a_service(cli: Clew) -> None:
    told = cli("--store", "postgresql://me:secret@host/db", "watch", "--install", "--dry-run", code=1).err
    assert "secret" not in told
    assert "clew config store" in told


def test_what_does_not_go_together(cli: Clew) -> None:
    assert "--dry-run goes with" in cli("watch", "--dry-run", code=2).err
    assert "--status takes no path" in cli("watch", "--status", ".", code=2).err
    assert cli("watch", "--rm").out == "No service of clew is installed.\n"
