"""The texts of services, and that they are put and removed without harm to files of another hand."""

from __future__ import annotations

import plistlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from clew.errors import InvalidError
from clew.importers.follow import service as module
from clew.importers.follow.service import Outcome, Service, service
from tests.support.rows import each_row

ODD = ['/opt/my tools/clew "x"', "watch", "--store", "/home/a b/50%/$HOME/back\\slash\ttab.db", "-q", "é"]


class Calls:
    def __init__(self, fails: int = 0) -> None:
        self.made: list[list[str]] = []
        self._fails = fails

    def __call__(self, command: Sequence[str]) -> Outcome:
        self.made.append(list(command))
        return Outcome(1, "no bus") if len(self.made) == self._fails else Outcome(0, "")


@pytest.fixture(autouse=True)
def managers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")


def unit(home: Path, command: Sequence[str] = ("/usr/bin/clew", "watch")) -> Service:
    return service(command, {}, home=home, platform="linux")


@pytest.mark.needs("systemd-analyze")
def test_systemd_reads_odd_words_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    tools = tmp_path / "my tools"
    tools.mkdir()
    program = tools / "clew 100%"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = module.systemd_unit([str(program), *ODD[1:]], {"CODEX_HOME": '/a b/"c"/100%', "OTHER": "1"})
    file = tmp_path / "clew-watch.service"
    file.write_text(text)
    command = ["systemd-analyze", "verify", "--user", "--man=no", str(file)]
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin", "SYSTEMD_LOG_LEVEL": "warning"}

    def verified() -> str:
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
        return done.stdout + done.stderr

    assert [line for line in verified().splitlines() if "clew-watch" in line] == []
    file.write_text(text.replace('"', "'x", 1))
    assert "clew-watch" in verified()


def test_the_unit_quotes_and_passes_on_only_what_matters() -> None:
    text = module.systemd_unit(ODD, {"CODEX_HOME": "/a b/100%", "SECRET": "x"})
    assert (
        'ExecStart=:"/opt/my tools/clew \\"x\\"" watch --store '
        '"/home/a b/50%%/$HOME/back\\\\slash\\ttab.db" -q "é"\n'
    ) in text
    assert 'Environment="CODEX_HOME=/a b/100%%"\n' in text
    assert "SECRET" not in text


def test_launchd_reads_odd_words_as_they_are(tmp_path: Path) -> None:
    odd = [*ODD, "<&>"]
    made = service(odd, {"CODEX_HOME": "/a <b>"}, home=tmp_path, platform="darwin")
    assert made.path == tmp_path / "Library" / "LaunchAgents" / "clew.watch.plist"
    read = plistlib.loads(made.text.encode())
    assert read["ProgramArguments"] == odd
    assert read["EnvironmentVariables"] == {"CODEX_HOME": "/a <b>"}
    assert read["KeepAlive"] == {"SuccessfulExit": False}
    assert made.start[0][:2] == ["launchctl", "bootstrap"]


def test_other_systems_have_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="at login yourself"):
        service(["clew"], {}, home=tmp_path, platform="win32")


def test_installed_and_removed(tmp_path: Path) -> None:
    calls = Calls()
    made = unit(tmp_path)
    assert module.install(made, calls).changed
    assert made.path == tmp_path / ".config" / "systemd" / "user" / "clew-watch.service"
    assert made.path.read_text() == made.text
    assert calls.made == made.start
    assert not module.install(made, calls).changed
    assert module.install(unit(tmp_path, ["/other", "watch"]), calls).changed
    assert list(made.path.parent.iterdir()) == [made.path]
    calls.made.clear()
    assert module.uninstall(made, calls) == module.Done(True, [])
    assert not made.path.exists()
    assert calls.made == made.stop + made.after
    assert module.uninstall(made, calls) == module.Done(False, [])


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_file_of_another_hand_stays(tmp_path: Path, kind: str) -> None:
    made, calls = unit(tmp_path), Calls()
    made.path.parent.mkdir(parents=True)
    if kind == "file":
        made.path.write_text("[Unit]\n# my own\n# Made by clew watch\n")
    else:
        (tmp_path / "mine").write_text(made.text)
        made.path.symlink_to(tmp_path / "mine")
    before = made.path.read_text()
    for change in (module.install, module.uninstall):
        with pytest.raises(InvalidError, match="not made by clew"):
            change(made, calls)
    assert made.path.read_text() == before
    assert calls.made == []


def test_what_could_not_be_run_is_left_to_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = unit(tmp_path)
    assert module.install(made, Calls(fails=2)) == module.Done(True, made.start[1:], "systemctl says: no bus")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    calls = Calls()
    done = module.install(made, calls)
    assert (done.left, done.reason) == (made.start, "there is no systemctl here")
    assert calls.made == []
    assert module.uninstall(made, calls).left == made.stop + made.after
    assert not made.path.exists()


@each_row("platform", ["linux", "darwin"])
def test_what_an_installed_service_starts_can_be_read(platform: str, tmp_path: Path) -> None:
    words = ["/srv/my programs/clew", "watch", "--store", '50% of "it"\\x', "--", "/srv/$HOME"]
    made = module.service(words, {}, home=tmp_path, platform=platform)
    made.path.parent.mkdir(parents=True)
    made.path.write_text(made.text)
    assert module.command_of(made.path) == words
    made.path.write_text("[Service]\n")
    assert module.command_of(made.path) == []
    assert module.command_of(tmp_path / "missing") == []
